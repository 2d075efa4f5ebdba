// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// keeps waits until it is known whether there is a snapshot of the run.
func (f *fixture) keeps(reason string) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		kept := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionHistoryKept)
		if kept == nil || kept.Reason != reason {
			return fmt.Errorf("want %s: %+v", reason, f.transfer.Status.Conditions)
		}
		return nil
	})
}

// The other cluster is asked until the snapshot is ready, and what it says is in status.
func TestHistoryOfAPeer(t *testing.T) {
	f := prepareSerially(t)
	var asked atomic.Int32
	gateways.OnHistory(func(in *wirev1.HistoryRequest) (*wirev1.HistoryResponse, error) {
		answer := &wirev1.HistoryResponse{Decided: true, Snapshots: []*wirev1.HistorySnapshot{{
			Name: "kept-there", RunId: in.GetRunId(), Time: timestamppb.New(start), State: string(v1alpha1.SnapshotTaking),
		}}}
		switch asked.Add(1) {
		case 1:
			return &wirev1.HistoryResponse{}, nil
		case 2:
			return answer, nil
		}
		answer.Snapshots[0].State, answer.Snapshots[0].Size = string(v1alpha1.SnapshotReady), 1<<30
		answer.Kept, answer.Reason, answer.Message = true, v1alpha1.ReasonSnapshotReady, "it can be restored"
		return answer, nil
	})
	t.Cleanup(func() { gateways.OnHistory(nil) })
	f.transfer.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{Retention: v1alpha1.SnapshotRetention{Last: 3}}
	f.create()
	pod := cluster.RunPod(t, f.job(1), f.namespace)
	cluster.EndPod(t, pod, 0, encode(t, &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}))
	f.keeps(v1alpha1.ReasonSnapshotReady)
	s := f.transfer.Status.Snapshots
	if len(s) != 1 || s[0].Name != "kept-there" || s[0].State != v1alpha1.SnapshotReady || s[0].RecoveryPoint == nil ||
		s[0].Size.Value() != 1<<30 {
		t.Errorf("%+v", s)
	}
}

// One of a release that takes no snapshots for peers says so by not knowing the question.
func TestHistoryOfAnOlderPeer(t *testing.T) {
	f := prepareSerially(t)
	f.transfer.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{Retention: v1alpha1.SnapshotRetention{Last: 3}}
	f.create()
	pod := cluster.RunPod(t, f.job(1), f.namespace)
	cluster.EndPod(t, pod, 0, encode(t, &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}))
	f.keeps(v1alpha1.ReasonPeerIncompatible)
	err := controllertest.Expect(f.transfer.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if err != nil || len(f.transfer.Status.Snapshots) > 0 {
		t.Errorf("%v, %+v", err, f.transfer.Status.Snapshots)
	}
}
