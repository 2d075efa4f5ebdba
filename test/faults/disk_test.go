// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"testing"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestDiskFull: the destination's disk is too small for what is to come, until somebody makes space there.
func TestDiskFull(t *testing.T) {
	r := start(t, 60<<20, options{limit: "8Mi", class: "tmpfs", space: "80Mi", path: "in", filler: 48 << 20})
	record := r.ended(t, 1)
	wantReason(t, record, v1alpha1.ReasonDestinationFull)
	if n := r.staged(t); n < 8<<20 {
		t.Errorf("the full disk has %d bytes of the file", n)
	}
	west.Sh(t, r.namespace, "copy", "rm /data/filler")
	r.complete(t, r.wait(t))
	if last := r.transfer.Status.History[0]; last.ResumedBytes < 8<<20 {
		t.Errorf("the last attempt resumed %d bytes only", last.ResumedBytes)
	}
}
