// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// TestCertificateExpiry: the first certificates of a run expire while it goes on. The manager has renewed them by then,
// in the same attempt; then the run loses its connections and goes on.
func TestCertificateExpiry(t *testing.T) {
	const lifetime = 6 * time.Minute // the kubelet takes up to two to hand on what is renewed at half of it
	for _, c := range []*clusters.Cluster{east, west} {
		shortLived(t, c, lifetime)
	}
	r := start(t, 600<<20, options{limit: "1Mi"})
	r.underway(t, 1)
	var expiry time.Time
	for _, c := range []*clusters.Cluster{east, west} {
		if at := lastExpiry(t, c, r.namespace); at.After(expiry) {
			expiry = at
		}
	}
	wait := time.Until(expiry) + time.Second
	t.Logf("the last certificate of the run expires in %s", wait)
	if wait > lifetime+time.Second {
		t.Fatal("the certificates live longer than they were to")
	}
	time.Sleep(wait)
	for _, c := range []*clusters.Cluster{east, west} {
		if at := lastExpiry(t, c, r.namespace); !at.After(time.Now()) {
			t.Errorf("the certificate of %s was not renewed: it expired at %s", c.Name, at)
		}
	}
	before := r.staged(t)
	clusters.Eventually(t, patience, "the run to go on after its first certificates have expired", func() (bool, string) {
		r.refresh(t)
		if len(r.transfer.Status.History) != 0 || r.transfer.Status.Phase != v1alpha1.TransferTransferring {
			t.Fatalf("the Transfer is %s after %d attempts", r.transfer.Status.Phase, len(r.transfer.Status.History))
		}
		now := r.staged(t)
		return now > before+2<<20, fmt.Sprintf("%d bytes are staged", now)
	})
	r.unlimited(t)
	killComponent(t, west, "gateway")
	r.ended(t, 1)
	r.complete(t, r.wait(t))
}

// lastExpiry is when the last of the certificates in the Secrets of a namespace expires.
func lastExpiry(t *testing.T, c *clusters.Cluster, namespace string) time.Time {
	t.Helper()
	var secrets corev1.SecretList
	if err := c.List(context.Background(), &secrets, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var last time.Time
	for i := range secrets.Items {
		block, _ := pem.Decode(secrets.Items[i].Data[corev1.TLSCertKey])
		if block == nil {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if leaf.NotAfter.After(last) {
			last = leaf.NotAfter
		}
	}
	if last.IsZero() {
		t.Fatalf("no certificate of the run is in %s", c.Name)
	}
	return last
}

// shortLived has a manager issue certificates for runs that live so long, until the test ends.
func shortLived(t *testing.T, c *clusters.Cluster, lifetime time.Duration) {
	t.Helper()
	former := setLifetime(t, c, lifetime.String())
	t.Cleanup(func() { setLifetime(t, c, former) })
}

// setLifetime changes the manager's option, waits until such a manager runs alone, and returns what it was.
func setLifetime(t *testing.T, c *clusters.Cluster, lifetime string) (former string) {
	t.Helper()
	const option = "--run-certificate-lifetime="
	var manager appsv1.Deployment
	if err := c.Get(
		context.Background(), client.ObjectKey{Namespace: system, Name: "lighterage-manager"}, &manager,
	); err != nil {
		t.Fatal(err)
	}
	before := manager.DeepCopy()
	args := manager.Spec.Template.Spec.Containers[0].Args
	for i := range args {
		if value, found := strings.CutPrefix(args[i], option); found {
			former, args[i] = value, option+lifetime
		}
	}
	if former == "" {
		t.Fatalf("the manager of %s has no option %s", c.Name, option)
	}
	if err := c.Patch(context.Background(), &manager, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Command(
		"-n", system, "rollout", "status", "deployment/lighterage-manager", "--timeout=5m",
	).CombinedOutput(); err != nil {
		t.Fatalf("wait for the manager of %s: %v\n%s", c.Name, err, out)
	}
	return former
}
