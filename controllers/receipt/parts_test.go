// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receipt_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/receipt"
)

// What a killed attempt used is part of what the sender states.
func TestFiguresOfTheRun(t *testing.T) {
	now := metav1.NewTime(signed)
	transfer := &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{
		Run:         &v1alpha1.RunStatus{ID: "7f3c1", Attempt: 2, StartTime: &now, CompletionTime: &now},
		CPU:         &v1alpha1.CPUStatus{SendSeconds: "1", CompressSeconds: "0.5"},
		Compression: &v1alpha1.CompressionStatus{UncompressedBytes: 10, CompressedBytes: 4},
		Receipt:     &v1alpha1.ReceiptStatus{WireBytes: 5, DigestSeconds: "0.1"},
	}}
	by := receipt.Signer{Cluster: "east", KeyID: east.ID(), Now: signed.Add(time.Minute)}
	if got := receipt.SenderOf(transfer, by); got.Scope != receipt.ScopeAttempt || got.WireBytes != 5 ||
		got.CPUSeconds != "1" || got.CodecSeconds != "0.5" || got.UncompressedBytes != 10 || got.CompressedBytes != 4 {
		t.Errorf("without usage: %+v", got)
	}
	transfer.Status.Run.Usage = &v1alpha1.UsageStatus{
		Send:              &v1alpha1.CPUUsage{ProcessSeconds: "3.000000001", CompressSeconds: "1.5"},
		Receive:           &v1alpha1.CPUUsage{ProcessSeconds: "7"},
		UncompressedBytes: 30, CompressedBytes: 12, WireBytes: 15,
	}
	if got := receipt.SenderOf(transfer, by); got.Scope != receipt.ScopeRun || got.WireBytes != 15 ||
		got.CPUSeconds != "3.000000001" || got.CodecSeconds != "1.5" || got.UncompressedBytes != 30 ||
		got.CompressedBytes != 12 || got.DigestSeconds != "0.1" {
		t.Errorf("with usage: %+v", got)
	}
	if got := receipt.ReceiverInPod(transfer, by); got.Scope != receipt.ScopeAttempt || got.WireBytes != 5 {
		t.Errorf("receiver: %+v", got)
	}
}

// The name of a Transfer may be cut anywhere.
func TestNamesOfLongTransfers(t *testing.T) {
	for _, name := range []string{
		"ledger", strings.Repeat("a", 253), strings.Repeat("a", 149) + ".b", strings.Repeat("a", 149) + "-b",
		strings.Repeat("a", 148) + "--b",
	} {
		got := receipt.ConfigMap("bank", receipt.Run{Transfer: name, ID: "7f3c1"}, []byte("{}")).Name
		if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
			t.Errorf("%s: %v", got, problems)
		}
	}
}
