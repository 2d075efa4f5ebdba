// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/longpath"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestStreamsOver(t *testing.T) {
	for _, test := range []struct {
		roundTrip   time.Duration
		asked       uint32
		cores, want int
	}{
		{0, 0, 2, 2},
		{9 * time.Millisecond, 0, 2, 2},
		{10 * time.Millisecond, 0, 2, longpath.Streams},
		{time.Second, 0, 12, 12},
		{time.Second, 3, 3, 3},
	} {
		path := longpath.Path{RoundTrip: test.roundTrip}
		if got := streamsOver(path, &wirev1.SendConfig{Streams: test.asked}, test.cores); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}
