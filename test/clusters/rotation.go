// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// system is the namespace that Lighterage is installed in.
const system = "lighterage-system"

// NewCA makes a CA for the cluster.
func (c *Cluster) NewCA(t *testing.T) pki.KeyPair {
	t.Helper()
	_, pair, err := pki.NewCA(c.Name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// RotateCAs gives each cluster another CA, the way an operator does, and returns when their managers publish it. Peers
// trust the CAs before and after.
func (p *Pair) RotateCAs(t *testing.T, toEast, toWest pki.KeyPair) {
	t.Helper()
	p.East.rotateCA(t, p.West, toEast)
	p.West.rotateCA(t, p.East, toWest)
	for _, c := range []*Cluster{p.East, p.West} {
		published := &corev1.ConfigMap{}
		secret := &corev1.Secret{}
		// Each manager looks at its CA's Secret once a minute.
		Eventually(t, 6*time.Minute, "the manager of "+c.Name+" to publish its new CA", func() (bool, string) {
			if err := c.Get(context.Background(), client.ObjectKey{Namespace: system, Name: pki.CAName}, published); err != nil {
				return false, err.Error()
			}
			if err := c.Get(context.Background(), client.ObjectKey{Namespace: system, Name: pki.CAName}, secret); err != nil {
				return false, err.Error()
			}
			return published.Data[pki.CAKey] == string(secret.Data[corev1.TLSCertKey]), "it publishes the old one"
		})
	}
}

// rotateCA replaces the CA of a cluster after the other one has learned to trust the new one as well.
func (c *Cluster) rotateCA(t *testing.T, other *Cluster, pair pki.KeyPair) {
	t.Helper()
	ctx := context.Background()
	var peer v1alpha1.Peer
	if err := other.Get(ctx, client.ObjectKey{Name: c.Name}, &peer); err != nil {
		t.Fatal(err)
	}
	before := peer.DeepCopy()
	peer.Spec.CABundle = slices.Concat(lastCertificate(peer.Spec.CABundle), pair.CertificatePEM)
	if err := other.Patch(ctx, &peer, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: system, Name: pki.CAName}, &secret); err != nil {
		t.Fatal(err)
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = pair.CertificatePEM, pair.KeyPEM
	if err := c.Update(ctx, &secret); err != nil {
		t.Fatal(err)
	}
}

// lastCertificate is the newest of a bundle that rotateCA wrote.
func lastCertificate(bundle []byte) []byte {
	var last []byte
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return last
		}
		last, bundle = pem.EncodeToMemory(block), rest
	}
}
