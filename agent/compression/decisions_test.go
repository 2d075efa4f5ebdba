// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package compression_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestJudged(t *testing.T) {
	recent := policy.Attempt{Plain: 1 << 20, Wire: 1 << 18, CPU: 4e-3}
	for name, c := range map[string]struct {
		reason  policy.Reason
		recent  policy.Attempt
		weighed policy.Weighed
		want    *wirev1.ClassDecision
	}{
		"nothing known": {"", policy.Attempt{}, policy.Weighed{}, &wirev1.ClassDecision{}},
		"compressed": {"", recent, policy.Weighed{Compressed: 2, AsIs: 3}, &wirev1.ClassDecision{
			CompressedPermille: 250, CompressNanosPerMib: 4e6, Known: true, OtherPermille: 500,
		}},
		"as it is": {policy.CPUDearer, recent, policy.Weighed{Compressed: 1.9, AsIs: 2}, &wirev1.ClassDecision{
			Reason: "CPUDearer", CompressedPermille: 250, CompressNanosPerMib: 4e6, Known: true, OtherPermille: -50,
		}},
		"by far": {"", recent, policy.Weighed{Compressed: 1e-30, AsIs: 1}, &wirev1.ClassDecision{
			CompressedPermille: 250, CompressNanosPerMib: 4e6, Known: true, OtherPermille: math.MaxInt32,
		}},
	} {
		got := &wirev1.ClassDecision{}
		compression.Judged(got, c.reason, c.recent, c.weighed)
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCarrier(t *testing.T) {
	got := &wirev1.Decisions{}
	if compression.Carrier(got, policy.Carrier{Send: 1e-9}); got.GetLinkBytesPerSecond() != 0 {
		t.Errorf("a network that is not known: %v", got)
	}
	compression.Carrier(got, policy.Carrier{Send: 1e-9, Link: 8e-9})
	if got.GetLinkBytesPerSecond() != 125e6 || got.GetSendNanosPerMib() != 1048576 {
		t.Errorf("%v", got)
	}
}
