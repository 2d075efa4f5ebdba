// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;update

const configKey = "config.json"

// memory is what the manager remembers of an HTTPEndpoint. When it is lost with the manager, Secrets are written once more.
type memory struct {
	// pair and authority are what the Secret holds, revision of which configuration, and when it was written.
	pair      pki.KeyPair
	authority *pki.CA
	revision  string
	written   time.Time
	// settled: the replicas were all seen to serve the present configuration.
	settled bool
	// statistics is when they were last written.
	statistics time.Time
}

// memories are by the UID of the HTTPEndpoint. One HTTPEndpoint is looked after by one goroutine at a time.
type memories struct {
	mu  sync.Mutex
	all map[types.UID]*memory
	ids map[types.NamespacedName]types.UID
}

func newMemories() *memories {
	return &memories{all: map[types.UID]*memory{}, ids: map[types.NamespacedName]types.UID{}}
}

// of returns what is remembered, which is nothing at first.
func (m *memories) of(name types.NamespacedName, uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.ids[name]; old != uid {
		delete(m.all, old)
	}
	m.ids[name] = uid
	if m.all[uid] == nil {
		m.all[uid] = &memory{}
	}
	return m.all[uid]
}

// forget returns the UID of what was remembered under a name, empty if there was nothing.
func (m *memories) forget(name types.NamespacedName) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := m.ids[name]
	delete(m.all, uid)
	delete(m.ids, name)
	return uid
}

// ensureSecret writes the Secret with the replicas' configuration and identity when either has changed.
func (r *Reconciler) ensureSecret(ctx context.Context, wanted Wanted) (*plan.Problem, error) {
	endpoint := wanted.Endpoint
	m := r.memories.of(client.ObjectKeyFromObject(endpoint), endpoint.UID)
	now := r.Clock.Now()
	ca, err := r.Authority.CA(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's CA: %w", err)
	}
	issue := m.authority == nil || !m.authority.Certificate.Equal(ca.Certificate) || !now.Before(renewal(m.pair))
	lost := !m.settled && now.Sub(m.written) >= rewriteInterval
	if !issue && !lost && m.revision == wanted.Config.GetRevision() {
		return nil, nil
	}
	pair := m.pair
	if issue {
		identity := pki.HTTPEndpointIdentity(r.Cluster, endpoint.Namespace, endpoint.Name)
		if pair, ca, err = r.Authority.Issue(ctx, identity, r.Lifetime, pki.HTTPServerName(string(endpoint.UID))); err != nil {
			return nil, fmt.Errorf("issuing the certificate of %s: %w", identity, err)
		}
	}
	config, err := encodeConfig(wanted.Config)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: wanted.meta(objectName(endpoint)),
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			configKey: config, corev1.TLSCertKey: pair.CertificatePEM, corev1.TLSPrivateKeyKey: pair.KeyPEM, pki.ClusterCAKey: ca.CertificatePEM,
		},
	}
	if err := r.writeSecret(ctx, secret); err != nil {
		return refusal(secret, err)
	}
	m.pair, m.authority, m.revision, m.written, m.settled = pair, ca, wanted.Config.GetRevision(), now, false
	return nil, nil
}

// renewal is when half of a certificate's lifetime is over.
func renewal(pair pki.KeyPair) time.Time {
	return pair.Leaf.NotBefore.Add(pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore) / 2)
}

// writeSecret overwrites what may be there: its name is that of no other's.
func (r *Reconciler) writeSecret(ctx context.Context, secret *corev1.Secret) error {
	err := r.Client.Create(ctx, secret.DeepCopy(), client.FieldOwner(conditions.FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		err = r.Client.Update(ctx, secret, client.FieldOwner(conditions.FieldOwner))
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
