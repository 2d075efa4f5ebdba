// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// maxProgress bounds in bytes what is written when nothing but progress has changed.
const maxProgress = 3 << 10

// TestProgressIsSmall: what is written of progress is bounded, and has nothing of what does not change, such as ten
// long records.
func TestProgressIsSmall(t *testing.T) {
	f := prepare(t)
	cluster.Create(t, &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: f.namespace},
		Spec: v1alpha1.CompressionPolicySpec{
			Prices: &v1alpha1.Prices{Currency: "USD", CPUHour: "36", NetworkGiB: "0.5"},
		},
	})
	f.transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: f.namespace}
	f.create()
	report := transferring()
	for i := range 13 { // as many as there are
		report.Omissions = append(
			report.Omissions,
			&wirev1.Omission{What: fmt.Sprint("what", i), Count: 1, Examples: []string{strings.Repeat("a", 200)}},
		)
	}
	agents.Say(f.serverName(), report)
	cluster.RunPod(t, f.job(1), "node-1")
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	now := metav1.Now()
	f.status(func(status *v1alpha1.TransferStatus) {
		for i := range 10 {
			status.History = append(status.History, v1alpha1.AttemptRecord{
				RunID: "a2b3c", Attempt: int32(i + 1), Reason: v1alpha1.ReasonConnectionLost, Message: strings.Repeat("m", 1024),
				CompletionTime: &now,
			})
		}
	})
	before := f.step(report, 0)
	for i := range 3 {
		after := f.step(report, uint64(i+1))
		written := after.DeepCopy()
		written.ManagedFields = before.ManagedFields // those are the API server's
		patch, err := client.MergeFrom(before).Data(written)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf(
			"patch %d bytes, object %d bytes, managed fields %d bytes", len(patch), size(t, after), size(t, after.ManagedFields),
		)
		if len(patch) > maxProgress || strings.Contains(string(patch), "history") {
			t.Errorf("%d bytes are written: %.4000s", len(patch), patch)
		}
		if was, is := size(t, before.ManagedFields), size(t, after.ManagedFields); i > 0 && is > was {
			t.Errorf("managed fields grew from %d to %d bytes", was, is)
		}
		before = after
	}
}

// step has the agent be further, and returns what the Transfer becomes.
func (f *fixture) step(report *wirev1.Report, n uint64) *v1alpha1.Transfer {
	f.Helper()
	bytes := uint64(5<<30) + n*123456789
	report.Progress.Bytes, report.Progress.Files, report.WireBytes = bytes, 200+n, bytes/4
	report.Compression.UncompressedBytes, report.Compression.CompressedBytes = bytes, bytes/4
	report.Compression.Hardware = &wirev1.Operations{Operations: 5000 + n, Bytes: bytes}
	report.Decompression = &wirev1.Decompression{Software: &wirev1.Operations{Operations: 5000 + n, Bytes: bytes}}
	report.Cpu = &wirev1.CPU{SendNanos: bytes, ReceiveNanos: bytes, CompressNanos: bytes / 2, DecompressNanos: bytes / 2}
	for _, omission := range report.Omissions {
		omission.Count = 1 + n
	}
	agents.Say(f.serverName(), report)
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		if p := f.transfer.Status.Progress; p == nil || p.Bytes != int64(bytes) {
			return errors.New("progress is not shown yet")
		}
		return nil
	})
	return f.transfer.DeepCopy()
}

// status changes the status as the manager would.
func (f *fixture) status(change func(*v1alpha1.TransferStatus)) {
	f.Helper()
	patch := client.MergeFrom(f.transfer.DeepCopy())
	change(&f.transfer.Status)
	if err := cluster.Client.Status().Patch(context.Background(), f.transfer, patch); err != nil {
		f.Fatal(err)
	}
}

func size(t *testing.T, object any) int {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// TestOnlyNewsIsWrittenAtOnce: an agent that is asked often has its progress written every five seconds or so, and news
// when it is heard.
func TestOnlyNewsIsWrittenAtOnce(t *testing.T) {
	f := prepare(t)
	f.create()
	report := transferring()
	agents.Say(f.serverName(), report)
	cluster.RunPod(t, f.job(1), "node-1")
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	writes, version := 0, f.transfer.ResourceVersion
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		report.Progress.Bytes++
		agents.Say(f.serverName(), report)
		if err := f.refresh(); err != nil {
			t.Fatal(err)
		}
		if f.transfer.ResourceVersion != version {
			writes, version = writes+1, f.transfer.ResourceVersion
		}
	}
	if writes == 0 || writes > 5 {
		t.Errorf("%d writes in 20 s", writes)
	}
	report.State = wirev1.AgentState_AGENT_STATE_OPENING
	agents.Say(f.serverName(), report)
	f.wait(v1alpha1.TransferOpening, v1alpha1.ConditionReconciling, v1alpha1.ReasonOpening)
}
