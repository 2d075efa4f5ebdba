// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestVolumeSyncs(t *testing.T) {
	directory := t.TempDir()
	v := newVolumeSyncs(directory)
	clock, step := time.Unix(1_800_000_000, 0), time.Duration(0)
	v.now = func() time.Time { clock = clock.Add(step); return clock }
	expect := func(what string, want *wirev1.QueueVolumeSyncs) {
		t.Helper()
		if diff := cmp.Diff(want, v.report(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	expect("before the first", &wirev1.QueueVolumeSyncs{})
	for _, step = range []time.Duration{30, 10} {
		if err := v.probe(); err != nil {
			t.Fatal(err)
		}
	}
	step = 0
	want := &wirev1.QueueVolumeSyncs{Count: 2, TotalNanos: 40, LastNanos: 10, HighNanos: 30}
	expect("two", want)
	if info, err := os.Stat(filepath.Join(directory, probeName)); err != nil || info.Size() != 512 {
		t.Errorf("the file: %v, %v", info, err)
	}

	// One that does not come back is seen while it lasts.
	v.begun = clock.Add(-time.Minute)
	want.WaitingNanos = uint64(time.Minute)
	expect("one that waits", want)
	v.begun, want.WaitingNanos = time.Time{}, 0

	v.path = filepath.Join(directory, "gone", probeName)
	if err := v.probe(); err == nil {
		t.Error("it wrote below what is not there")
	}
	want.Failed = 1
	expect("one that failed", want)
	v.reset()
	expect("after a reset", &wirev1.QueueVolumeSyncs{LastNanos: 10})

	var none *volumeSyncs
	if none.reset(); none.report() != nil {
		t.Error("where nothing is measured something is said")
	}
}
