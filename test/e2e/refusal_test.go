// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestRefusals gives the operator what it cannot do and wants the condition, the fix in its message, nothing half done
// and no hot loop.
func TestRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "50Mi")
	west.claim(t, namespace, "copy", "", "50Mi")
	east.sh(t, namespace, "source", "echo hello > /data/hello")
	grant(t, namespace, "copy")

	stranger := peerWith(t, namespace+"-ca", gatewayOf(t, "west"), newCA(t))
	silent := peerWith(t, namespace+"-off", strings.Split(gatewayOf(t, "west"), ":")[0]+":9", newCA(t))
	other := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "for-another"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{"another"}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "theirs"}},
		},
	}
	if err := west.Create(ctx, other); err != nil {
		t.Fatal(err)
	}

	cases := []struct {
		name   string
		change func(*v1alpha1.TransferSpec)
		reason string
		words  string
	}{
		{
			"unknown-claim", func(s *v1alpha1.TransferSpec) { s.Source.PersistentVolumeClaim.ClaimName = "nothere" },
			v1alpha1.ReasonSourceNotFound, "nothere",
		},
		{
			"unknown-path", func(s *v1alpha1.TransferSpec) { s.Source.PersistentVolumeClaim.Path = "/no/such" },
			v1alpha1.ReasonSourceNotFound, "no/such",
		},
		{
			"unknown-peer", func(s *v1alpha1.TransferSpec) { s.Destination.Peer = "nobody" }, v1alpha1.ReasonPeerNotFound,
			"nobody",
		},
		{
			"unknown-policy", func(s *v1alpha1.TransferSpec) { s.Compression = &v1alpha1.Compression{PolicyName: "nosuch"} },
			v1alpha1.ReasonPolicyNotFound, "nosuch",
		},
		{
			"wrong-ca", func(s *v1alpha1.TransferSpec) { s.Destination.Peer = stranger }, v1alpha1.ReasonPeerUntrusted,
			"caBundle",
		},
		{
			"no-answer", func(s *v1alpha1.TransferSpec) { s.Destination.Peer = silent }, v1alpha1.ReasonPeerUnreachable,
			"endpoint",
		},
		{
			"no-grant", func(s *v1alpha1.TransferSpec) { s.Destination.PersistentVolumeClaim.ClaimName = "secret" },
			v1alpha1.ReasonNotGranted, "PeerGrant",
		},
		{
			"grant-for-another", func(s *v1alpha1.TransferSpec) { s.Destination.PersistentVolumeClaim.ClaimName = "theirs" },
			v1alpha1.ReasonNotGranted, "PeerGrant",
		},
		{
			"foreign-namespace", func(s *v1alpha1.TransferSpec) { s.Destination.Namespace = "lighterage-system" },
			v1alpha1.ReasonNotGranted, "PeerGrant",
		},
	}
	transfers := map[string]*v1alpha1.Transfer{}
	for _, c := range cases {
		transfer := newTransfer(namespace, c.name)
		// Paths of their own, so that no two of them are after the same place.
		transfer.Spec.Destination.PersistentVolumeClaim.Path = "/" + c.name
		c.change(&transfer.Spec)
		if err := east.Create(ctx, transfer); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		transfers[c.name] = transfer
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			transfer := transfers[c.name]
			condition, status := v1alpha1.ConditionStalled, metav1.ConditionTrue
			if c.reason == v1alpha1.ReasonPeerUnreachable {
				// It may come back by itself, so the Transfer is not stalled.
				condition, status = v1alpha1.ConditionReady, metav1.ConditionFalse
			}
			message := waitFor(t, transfer, condition, status, c.reason)
			if !strings.Contains(message, c.words) {
				t.Errorf("the message should contain %q: %s", c.words, message)
			}
			t.Logf("%s: %s", c.reason, message)
		})
	}
	t.Run("nothing is half done, no hot loop", func(t *testing.T) {
		if got := west.sh(t, namespace, "copy", "ls -A /data"); got != "" {
			t.Errorf("the destination should be empty, it holds %q", got)
		}
		before := jobNames(t, namespace)
		time.Sleep(20 * time.Second)
		after := jobNames(t, namespace)
		fresh := 0
		for name := range after {
			if !before[name] {
				fresh++
			}
		}
		// A stalled Transfer may look again, slowly: each of them once in twenty seconds, if their turns fall into
		// these, and no more.
		if fresh > len(cases) {
			t.Errorf("%d new jobs in 20 s for Transfers that wait for somebody", fresh)
		}
	})
	t.Run("a fix is picked up", func(t *testing.T) {
		object := &v1alpha1.CompressionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "nosuch"}, Spec: v1alpha1.CompressionPolicySpec{Mode: v1alpha1.CompressionAuto},
		}
		if err := east.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = east.Delete(ctx, object) })
		waitFor(t, transfers["unknown-policy"], v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	})
}

// TestSameDestination: of two Transfers into one place the younger waits for somebody.
func TestSameDestination(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "50Mi")
	west.claim(t, namespace, "copy", "", "50Mi")
	east.sh(t, namespace, "source", "mkdir /data/a && echo hello > /data/a/hello")
	grant(t, namespace, "copy")
	older, younger := newTransfer(namespace, "older"), newTransfer(namespace, "younger")
	younger.Spec.Destination.PersistentVolumeClaim.Path = "/inside"
	if err := east.Create(ctx, older); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // creation times have whole seconds
	if err := east.Create(ctx, younger); err != nil {
		t.Fatal(err)
	}
	message := waitFor(t, younger, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDestinationInUse)
	if !strings.Contains(message, "older") {
		t.Errorf("the message should name the other Transfer: %s", message)
	}
	waitFor(t, older, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if err := east.Delete(ctx, older); err != nil {
		t.Fatal(err)
	}
	waitFor(t, younger, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
}

// TestDestinationFull moves more than the destination holds.
func TestDestinationFull(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "tmpfs", "16Mi")
	east.sh(t, namespace, "source", "head -c 40000000 /dev/urandom > /data/large; echo small > /data/a-small-one")
	grant(t, namespace, "copy")
	transfer := newTransfer(namespace, "full")
	transfer.Spec.MaxAttempts = 2
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionFailed, metav1.ConditionTrue, "")
	message := waitFor(t, transfer, v1alpha1.ConditionStalled, metav1.ConditionTrue, "")
	if len(transfer.Status.History) != 2 || transfer.Status.History[0].Reason != v1alpha1.ReasonDestinationFull {
		t.Errorf("want two attempts that ended DestinationFull, got %+v", transfer.Status.History)
	}
	t.Logf("the message: %s", message)
	if got := west.sh(t, namespace, "copy", "ls -A /data"); strings.Contains(got, "large") ||
		strings.Contains(got, "staging") {
		t.Errorf("the file that did not fit should have left nothing, the destination holds %q", got)
	}
}

// TestDeletedInTheMiddle deletes a Transfer while data move.
func TestDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "2Gi")
	west.claim(t, namespace, "copy", "", "2Gi")
	east.sh(
		t, namespace, "source",
		"cd /data; for i in 1 2 3 4 5 6; do head -c 100000000 /dev/urandom > $i; done; yes 'a line that keeps the engine "+
			"busy for a while' | head -c 900000000 > z",
	)
	grant(t, namespace, "copy")
	transfer := newTransfer(namespace, "cut-short")
	transfer.Spec.Compression = &v1alpha1.Compression{Mode: v1alpha1.CompressionAlways, Level: v1alpha1.CompressionHigh}
	// Half a minute at least: progress is shown every five seconds.
	transfer.Spec.BandwidthLimit = ptr.To(resource.MustParse("20M"))
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "the Transfer to be in the middle", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return false, err.Error()
		}
		p := transfer.Status.Progress
		return p != nil && p.Files >= 1 && p.Bytes < p.BytesTotal, string(transfer.Status.Phase)
	})

	// Not by an update, which is refused as well when the status has been written since.
	changed := transfer.DeepCopy()
	changed.Spec.Source.PersistentVolumeClaim.Path = "/elsewhere"
	if err := east.Patch(ctx, changed, client.MergeFrom(transfer)); !apierrors.IsInvalid(err) {
		t.Errorf("changing the source while running should be refused, got %v", err)
	}
	if err := east.Delete(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace)
	// What was staged stays for the next run into the place, which takes it over or removes it.
	listing := west.sh(t, namespace, "copy", "ls -A /data | grep -v '^.lighterage-staging$'")
	if listing == "" {
		t.Error("finished files should stay, the destination holds none")
	}
	for _, name := range strings.Fields(listing) {
		want := east.sh(t, namespace, "source", "sha256sum < /data/"+name)
		if got := west.sh(t, namespace, "copy", "sha256sum < /data/"+name); got != want {
			t.Errorf("file %s has its name but not its content", name)
		}
	}
}

func jobNames(t *testing.T, namespace string) map[string]bool {
	t.Helper()
	var jobs batchv1.JobList
	if err := east.List(context.Background(), &jobs, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, job := range jobs.Items {
		names[job.Name] = true
	}
	return names
}

// gatewayOf reads the endpoint that cluster east knows of a peer.
func gatewayOf(t *testing.T, name string) string {
	t.Helper()
	var peer v1alpha1.Peer
	if err := east.Get(context.Background(), client.ObjectKey{Name: name}, &peer); err != nil {
		t.Fatalf("get peer %s: %v", name, err)
	}
	return peer.Spec.Endpoint
}

// peerWith makes a Peer in east and returns its name.
func peerWith(t *testing.T, name, endpoint string, ca []byte) string {
	t.Helper()
	ctx := context.Background()
	peer := &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeerSpec{Endpoint: endpoint, CABundle: ca},
	}
	if err := east.Create(ctx, peer); err != nil {
		t.Fatalf("create peer %s: %v", name, err)
	}
	t.Cleanup(func() { _ = east.Delete(ctx, peer) })
	return name
}

// newCA makes a CA that nobody knows.
func newCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "A stranger"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
