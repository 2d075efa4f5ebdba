// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"testing"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestCARotation gives both clusters another CA in the middle of a run, the way an operator does: the peers are told of
// the new one beside the old one first. The next attempt, which a killed sender makes necessary, has certificates of
// the new ones.
func TestCARotation(t *testing.T) {
	// It lasts longer than the managers take to notice, which is a minute, on a loaded machine too.
	r := start(t, 300<<20, options{limit: "1Mi"})
	r.underway(t, 2)
	pair.RotateCAs(t, east.NewCA(t), west.NewCA(t))
	r.refresh(t)
	if r.transfer.Status.Phase == v1alpha1.TransferComplete {
		t.Fatal("the Transfer has ended before the fault")
	}
	r.unlimited(t)
	east.KillAgent(t, r.namespace, "send")
	r.ended(t, 1)
	r.complete(t, r.wait(t))
}
