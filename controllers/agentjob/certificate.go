// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/pki"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=patch

// Certificate is what an agent's certificate says, and whom the agent believes.
type Certificate struct {
	// Receiver is the name of the receiver that it is for; empty if the agent has no more than one.
	Receiver string
	Identity pki.Identity
	// ServerName under which the agent serves.
	ServerName string
	// Claims of the run, which a sending agent needs; nil: none. Their audience is made of PeerCA.
	Claims *pki.RunClaims
	// PeerCA is the caBundle of the other agent's Peer; nil: the other agent is of this cluster.
	PeerCA []byte
}

// CertificateLifetime is how long certificates of agents are valid.
func (c *Cluster) CertificateLifetime() time.Duration { return c.options.Lifetime }

// issue makes what a Secret holds beside the configuration. The error matches pki.ErrInvalidBundle when a Peer's
// caBundle holds no CA.
func (c *Cluster) issue(ctx context.Context, wanted ...Certificate) (attempt.Secret, error) {
	var all attempt.Secret
	for _, one := range wanted {
		issued, err := c.issueOne(ctx, one)
		if err != nil {
			return attempt.Secret{}, err
		}
		if one.Receiver == "" {
			return issued, nil
		}
		if all.Receivers == nil {
			all.Receivers = make(map[string]attempt.Secret, len(wanted))
		}
		all.Receivers[one.Receiver], all.ClusterCA = issued, issued.ClusterCA
	}
	return all, nil
}

func (c *Cluster) issueOne(ctx context.Context, wanted Certificate) (attempt.Secret, error) {
	ca, err := c.options.Authority.CA(ctx)
	if err != nil {
		return attempt.Secret{}, fmt.Errorf("issuing the certificate of %s: %w", wanted.Identity, err)
	}
	template := pki.Template{
		Identity: wanted.Identity, DNSNames: []string{wanted.ServerName}, Lifetime: c.options.Lifetime,
	}
	if wanted.Claims != nil {
		claims := *wanted.Claims
		claims.Audience = []string{pki.Fingerprint(ca.Certificate)}
		if wanted.PeerCA != nil {
			if claims.Audience, err = pki.Audience(wanted.PeerCA); err != nil {
				return attempt.Secret{}, fmt.Errorf("spec.caBundle of the Peer cannot be used: %w", err)
			}
		}
		template.Claims = &claims
	}
	pair, ca, err := c.options.Authority.Issue(ctx, template)
	if err != nil {
		return attempt.Secret{}, fmt.Errorf("issuing the certificate of %s: %w", wanted.Identity, err)
	}
	content := attempt.Secret{KeyPair: pair, ClusterCA: ca.CertificatePEM, PeerCA: wanted.PeerCA}
	if wanted.PeerCA == nil {
		content.PeerCA = ca.CertificatePEM
	}
	return content, nil
}

// Renew gives the agent of the owner's Job another certificate, and the CAs of now. The rest of the Secret stays as it
// is and nothing of it is read. A Secret that was deleted is not made again: its agent keeps what it has, and the next
// attempt gets another one.
func (c *Cluster) Renew(ctx context.Context, owner client.Object, job string, wanted ...Certificate) error {
	namespace, name := owner.GetNamespace(), attempt.SecretName(job, owner)
	issued, err := c.issue(ctx, wanted...)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": issued.Certificates()})
	if err != nil {
		return fmt.Errorf("encoding the certificates for Secret %s/%s: %w", namespace, name, err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err = c.options.Client.Patch(
		ctx, secret, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(conditions.FieldOwner),
	)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("renewing the certificate in Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}
