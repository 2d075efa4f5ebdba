// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package delivery_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/receipt"
)

// The gateway's annotation wakes the controller, and the receipt outlives the Delivery.
func TestCountersigns(t *testing.T) {
	f := prepare(t)
	d := f.make("ledger", 1, "/")
	cluster.Create(t, d)
	pod := f.run(d)
	cluster.See(f, &v1alpha1.DeliveryList{}, f.namespace, func() {
		cluster.EndPod(t, pod, 0, encode(t, &wirev1.Report{
			State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Cpu: &wirev1.CPU{ReceiveNanos: 2e9}, WireBytes: 77,
			Contents: &wirev1.ContentDigest{Sha256: bytes.Repeat([]byte{7}, 32), Entries: 3, Bytes: 50, CpuNanos: 1e9},
		}))
	}, func(object client.Object) error {
		seen, ok := object.(*v1alpha1.Delivery)
		if !ok || seen.Name != d.Name || seen.Status.Receipt == nil || seen.Status.Receipt.Part == "" {
			return errors.New("there is no part of a receipt yet")
		}
		seen.DeepCopyInto(d)
		return nil
	})
	own, err := receipt.ParseReceiver([]byte(d.Status.Receipt.Part))
	if err != nil {
		t.Fatal(err)
	}
	if own.WireBytes != 77 || own.CPUSeconds != "2.00" || own.DigestSeconds != "1.00" || own.Run.ID != "abcde" {
		t.Errorf("%+v", own)
	}
	key := receipt.PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize)))
	sender := receipt.Sender{Party: own.Party, UID: "uid"}
	sender.KeyID = key.ID()
	offer, err := receipt.Offer(sender, *own, key)
	if err != nil {
		t.Fatal(err)
	}
	before := d.DeepCopy()
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.ReceiptOfferAnnotation, string(offer))
	if err := cluster.Client.Patch(context.Background(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		kept := &corev1.ConfigMapList{}
		err := cluster.Client.List(
			context.Background(), kept, client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.ReceiptLabel: "true"},
		)
		if err != nil || len(kept.Items) != 1 {
			return errors.Join(err, fmt.Errorf("%d receipts", len(kept.Items)))
		}
		return receipt.Complete(offer, []byte(kept.Items[0].Data[receipt.DataKey]))
	})
}
