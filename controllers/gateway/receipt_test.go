// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/receipt"
)

// receiptParts are those of the run 7f3ca, and the sender's key.
func receiptParts(t *testing.T) (receipt.Sender, receipt.Receiver, receipt.PrivateKey) {
	t.Helper()
	key := receipt.PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	now := receipt.At(time.Now())
	p := receipt.Party{
		KeyID: key.ID(), StartTime: now, CompletionTime: now, SignedTime: now,
		Run:      receipt.Run{Namespace: "bank", Transfer: "ledger", ID: "7f3ca", Attempt: 1},
		Scope:    receipt.ScopeAttempt,
		Contents: receipt.Contents{Format: receipt.ContentsFormat, SHA256: strings.Repeat("ab", 32)},
	}
	return receipt.Sender{Party: p}, receipt.Receiver{Party: p}, key
}

// Only the manager of the peer whose run it was is told, and may offer.
func TestReceiptOfOthers(t *testing.T) {
	east, north := newCA(t, "east"), newCA(t, "north")
	reader := &countingReader{}
	w := newWest(t, func(o *gateway.Options) { reader.Reader, o.Reader = o.Reader, reader },
		peerOf("east", east), peerOf("north", north), grantOf("vault", "east", "bank", "ledger-copy"))
	now := time.Now()
	open(t, w.dial(issue(t, east, sender("east"), now)), ledger("7f3ca", 1)).pending()
	key := ledgerKey("7f3ca", 1)
	ask := func(ca *pki.CA, identity pki.Identity, run string, offer []byte) (*wirev1.ReceiptResponse, error) {
		return w.dial(issue(t, ca, identity, now)).Receipt(context.Background(), &wirev1.ReceiptRequest{
			Namespace: "bank", Name: "ledger", RunId: run, Attempt: 1, Envelope: offer,
		})
	}
	offered := func() string {
		var delivery v1alpha1.Delivery
		if err := w.api.Get(context.Background(), key, &delivery); err != nil {
			t.Fatal(err)
		}
		return delivery.Annotations[v1alpha1.ReceiptOfferAnnotation]
	}
	own, theirs, private := receiptParts(t)
	part, err := theirs.Encode()
	if err != nil {
		t.Fatal(err)
	}
	offer, err := receipt.Offer(own, theirs, private)
	if err != nil {
		t.Fatal(err)
	}

	// The run has not ended.
	opened := reader.lists.Load()
	answer, err := ask(east, manager("east"), "7f3ca", offer)
	if err != nil || len(answer.GetReceiver()) > 0 || answer.GetGone() || offered() != "" {
		t.Errorf("%v, %v, %q", answer, err, offered())
	}
	w.setStatus(key, func(d *v1alpha1.Delivery) {
		d.Status.Phase = v1alpha1.DeliveryComplete
		d.Status.Receipt = &v1alpha1.ReceiptStatus{Part: string(part)}
	})
	_, err = ask(east, sender("east"), "7f3ca", offer)
	refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED)
	for _, garbage := range [][]byte{[]byte("{}"), offer[:len(offer)-1], bytes.Repeat([]byte{'x'}, receipt.MaxBytes+1)} {
		_, err = ask(east, manager("east"), "7f3ca", garbage)
		refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
	}
	for _, other := range []struct {
		ca      *pki.CA
		cluster string
		run     string
	}{{north, "north", "7f3ca"}, {north, "east", "7f3ca"}, {east, "east", "7f3cb"}} {
		answer, err = ask(other.ca, manager(other.cluster), other.run, offer)
		if err != nil || len(answer.GetReceiver())+len(answer.GetEnvelope()) > 0 || !answer.GetGone() {
			t.Errorf("%+v: %v, %v", other, answer, err)
		}
	}
	if offered() != "" {
		t.Fatalf("%q was passed on", offered())
	}

	for range 2 { // idempotent
		answer, err = ask(east, manager("east"), "7f3ca", offer)
		if err != nil || !bytes.Equal(answer.GetReceiver(), part) || len(answer.GetEnvelope()) > 0 ||
			offered() != string(offer) {
			t.Fatalf("%v, %v, %q", answer, err, offered())
		}
	}
	complete, err := receipt.Countersign(offer, theirs, private)
	if err != nil {
		t.Fatal(err)
	}
	w.setStatus(key, func(d *v1alpha1.Delivery) {
		d.Status.Receipt.Envelope, d.Status.Receipt.ConfigMapName = string(complete), "kept"
	})
	own.CPUSeconds = "1"
	another, err := receipt.Offer(own, theirs, private)
	if err != nil {
		t.Fatal(err)
	}
	answer, err = ask(east, manager("east"), "7f3ca", another)
	if err != nil || !bytes.Equal(answer.GetEnvelope(), complete) || offered() != string(offer) {
		t.Errorf("after both have signed: %v, %v", answer, err)
	}
	w.setStatus(key, func(d *v1alpha1.Delivery) {
		d.Status.Phase, d.Status.Receipt = v1alpha1.DeliveryFailed, nil
	})
	if answer, err = ask(east, manager("east"), "7f3ca", nil); err != nil || !answer.GetGone() {
		t.Errorf("after it failed: %v, %v", answer, err)
	}
	if n := reader.lists.Load(); n != opened {
		t.Errorf("the API server was asked for %d lists: a peer can ask at any rate", n-opened)
	}
}

// countingReader counts lists that are not of the cache.
type countingReader struct {
	client.Reader
	lists atomic.Int32
}

func (r *countingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.lists.Add(1)
	return r.Reader.List(ctx, list, options...)
}
