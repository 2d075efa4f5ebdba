// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/receipt"
)

// withContents is the last report of a run that is to have a receipt.
func withContents() *wirev1.Report {
	report := succeeded()
	report.Contents = &wirev1.ContentDigest{
		Sha256: bytes.Repeat([]byte{7}, 32), Entries: 4001, Bytes: 8 << 30, CpuNanos: 4e9,
	}
	return report
}

// receiptOf waits for the receipt and returns it.
func (f *fixture) receiptOf() *receipt.Statement {
	f.Helper()
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(f.transfer.Status.Conditions, v1alpha1.ConditionReceiptSigned) {
			return fmt.Errorf("no receipt yet: %+v", f.transfer.Status.Conditions)
		}
		return nil
	})
	kept := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: f.namespace, Name: f.transfer.Status.Receipt.ConfigMapName}
	if err := cluster.Client.Get(context.Background(), key, kept); err != nil {
		f.Fatal(err)
	}
	statement, err := receipt.Read([]byte(kept.Data[receipt.DataKey]))
	if err != nil {
		f.Fatal(err)
	}
	if kept.Data[receipt.DataKey] != f.transfer.Status.Receipt.Envelope || len(kept.OwnerReferences) != 0 {
		f.Errorf("%+v, status %+v", kept, f.transfer.Status.Receipt)
	}
	kept.Data[receipt.DataKey] = "{}"
	if err := cluster.Client.Update(context.Background(), kept); err == nil {
		f.Error("a receipt can be changed")
	}
	return statement
}

func TestReceiptWithinANamespace(t *testing.T) {
	f := prepareLocal(t)
	f.transfer.Spec.Receipt = true
	cluster.Claim(t, f.namespace, "copy")
	f.create()
	pod := cluster.RunPod(t, f.job(1), f.namespace)
	cluster.EndPod(t, pod, 0, encode(t, withContents()))
	statement := f.receiptOf()
	if s := statement.Predicate.Sender; s.Contents.Entries != 4001 || s.DigestSeconds != "4.00" || s.WireBytes != 2<<30 ||
		s.Engine != "dfltcc" || s.UID != string(f.transfer.UID) {
		t.Errorf("%+v", s)
	}
	// The receipt outlives the Transfer.
	name := f.transfer.Status.Receipt.ConfigMapName
	if err := cluster.Client.Delete(context.Background(), f.transfer); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if err := f.refresh(); err == nil {
			return errors.New("the Transfer is still there")
		}
		return nil
	})
	key := client.ObjectKey{Namespace: f.namespace, Name: name}
	if err := cluster.Client.Get(context.Background(), key, &corev1.ConfigMap{}); err != nil {
		t.Error(err)
	}
}

// The other cluster is slow at first, and then signs.
func TestReceiptOfAPeer(t *testing.T) {
	f := prepareSerially(t)
	private := receipt.PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize)))
	asked, destination := 0, f.transfer.Spec.Destination.PersistentVolumeClaim
	gateways.OnReceipt(func(in agentclient.ReceiptRequest) (*wirev1.ReceiptResponse, error) {
		if asked++; asked == 1 {
			return &wirev1.ReceiptResponse{}, nil
		}
		at := receipt.At(start)
		own := receipt.Receiver{Party: receipt.Party{
			Scope: receipt.ScopeAttempt, Namespace: in.Namespace,
			Claim:   destination.ClaimName,
			Path:    destination.Path,
			Cluster: "west", KeyID: private.ID(), StartTime: at, CompletionTime: at, SignedTime: at,
			Run: receipt.Run{Namespace: in.Namespace, Transfer: in.Name, ID: in.Run, Attempt: int64(in.Attempt)},
			Contents: receipt.Contents{
				Format: receipt.ContentsFormat, Entries: 4001, Bytes: 8 << 30,
				SHA256: "0707070707070707070707070707070707070707070707070707070707070707",
			},
		}}
		part, err := own.Encode()
		if err != nil || len(in.Envelope) == 0 {
			return &wirev1.ReceiptResponse{Receiver: part}, err
		}
		complete, err := receipt.Countersign(in.Envelope, own, private)
		return &wirev1.ReceiptResponse{Receiver: part, Envelope: complete}, err
	})
	t.Cleanup(func() { gateways.OnReceipt(nil) })
	f.transfer.Spec.Receipt = true
	f.create()
	pod := cluster.RunPod(t, f.job(1), f.namespace)
	cluster.EndPod(t, pod, 0, encode(t, withContents()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if statement := f.receiptOf(); statement.Predicate.Receiver.KeyID != private.ID() ||
		statement.Predicate.Sender.Peer != f.transfer.Spec.Destination.Peer {
		t.Errorf("%+v", statement.Predicate)
	}
}
