// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

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
	"github.com/lighterage/lighterage/test/clusters"
)

// TestCARotation gives both clusters another CA in the middle of a run, the way an operator does: the peers are told of the new one
// beside the old one first. The next attempt, which a killed sender makes necessary, has certificates of the new ones.
func TestCARotation(t *testing.T) {
	// It lasts longer than the managers take to notice, which is a minute, on a loaded machine too.
	r := start(t, 300<<20, options{limit: "1Mi"})
	r.underway(t, 2)
	for _, side := range []struct{ cluster, other *clusters.Cluster }{{east, west}, {west, east}} {
		rotate(t, side.cluster, side.other)
	}
	// Each manager looks at its CA's Secret once a minute.
	for _, c := range []*clusters.Cluster{east, west} {
		published := &corev1.ConfigMap{}
		secret := &corev1.Secret{}
		clusters.Eventually(t, patience, "the manager of "+c.Name+" to publish its new CA", func() (bool, string) {
			if err := c.Get(context.Background(), client.ObjectKey{Namespace: system, Name: pki.CAName}, published); err != nil {
				return false, err.Error()
			}
			if err := c.Get(context.Background(), client.ObjectKey{Namespace: system, Name: pki.CAName}, secret); err != nil {
				return false, err.Error()
			}
			return published.Data[pki.CAKey] == string(secret.Data[corev1.TLSCertKey]), "it publishes the old one"
		})
	}
	r.refresh(t)
	if r.transfer.Status.Phase == v1alpha1.TransferComplete {
		t.Fatal("the Transfer has ended before the fault")
	}
	r.unlimited(t)
	east.KillAgent(t, r.namespace, "send")
	r.ended(t, 1)
	r.complete(t, r.wait(t))
}

// rotate replaces the CA of a cluster after the other one has learned to trust the new one as well.
func rotate(t *testing.T, c, other *clusters.Cluster) {
	t.Helper()
	ctx := context.Background()
	_, pair, err := pki.NewCA(c.Name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
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

// lastCertificate is the newest of a bundle that rotate wrote.
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
