// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/policy"
)

// TestWire: what a Transfer says of streams and bandwidth reaches the agent, or is refused with the fix.
func TestWire(t *testing.T) {
	for _, test := range []struct {
		streams int32
		limit   string
		config  [2]any // streams and bandwidthLimit as the agent reads them
		refused string
	}{
		{0, "", [2]any{nil, nil}, ""},
		{1, "256Ki", [2]any{1.0, "262144"}, ""},
		{16, "200Mi", [2]any{16.0, "209715200"}, ""},
		{0, "1Pi", [2]any{nil, "1125899906842624"}, ""},
		{17, "", [2]any{}, "spec.streams"},
		{-1, "", [2]any{}, "spec.streams"},
		{0, "255Ki", [2]any{}, "spec.bandwidthLimit"},
		{0, "0", [2]any{}, "spec.bandwidthLimit"},
		{0, "-5Mi", [2]any{}, "spec.bandwidthLimit"},
		{0, "2Pi", [2]any{}, "spec.bandwidthLimit"},
	} {
		transfer, facts := running(1)
		transfer.Spec.Streams = test.streams
		if test.limit != "" {
			q := resource.MustParse(test.limit)
			transfer.Spec.BandwidthLimit = &q
		}
		err := plan.ValidateTransfer(transfer.Spec)
		if test.refused != "" {
			var invalid *policy.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != test.refused || !strings.Contains(invalid.Fix, "must be between") {
				t.Errorf("%d, %q: %v", test.streams, test.limit, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d, %q: %v", test.streams, test.limit, err)
			continue
		}
		transfer.Status.Phase, transfer.Status.Run = "", nil
		start := plan.DecideTransfer(transfer, facts, image).Start
		if start == nil {
			t.Fatal("no attempt begins")
		}
		b, err := start.Config()
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(b, &config); err != nil {
			t.Fatal(err)
		}
		if got := [2]any{config["streams"], config["bandwidthLimit"]}; got != test.config {
			t.Errorf("%d, %q become %v", test.streams, test.limit, got)
		}
	}
}
