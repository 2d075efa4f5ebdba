// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"context"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/cover"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/trial"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func dictionaryOf(t *testing.T, s *trial.Sample, engines ...codec.Engine) *wirev1.TrialDictionary {
	t.Helper()
	r, err := trial.Measure(t.Context(), trial.Options{
		Sample: s, Software: engines, Setting: policy.Setting{Objective: policy.Bytes}, Links: []float64{1e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetDictionary()
}

func TestDictionary(t *testing.T) {
	const carried = 30
	orders := &trial.Sample{
		Items: codectest.Orders(11, 401, 1000), Unit: messages, Overhead: func(codec.ID) int { return carried },
	}
	d := dictionaryOf(t, orders, goflate.New(), gozstd.New())
	if d.GetProblem() != "" || d.GetEngine() != gozstd.Name || len(d.GetRows()) != 3 || d.GetTrainingItems() != 200 ||
		d.GetItems() != 201 || d.GetBytes() == 0 {
		t.Fatalf("%v", d)
	}
	var plain int
	for _, item := range orders.Items[200:] {
		plain += len(item)
	}
	if d.GetPlainBytes() != uint64(plain) {
		t.Errorf("%d bytes measured, want %d", d.GetPlainBytes(), plain)
	}
	for _, row := range d.GetRows() {
		if row.GetWireBytes()*3 > row.GetWireBytesWithout()*2 || row.GetWireBytes() < carried*201 ||
			row.GetCompressNanos() == 0 || row.GetCompressNanosWithout() == 0 || row.GetInflateNanos() == 0 ||
			row.GetInflateNanosWithout() == 0 || row.GetLevel() == 0 {
			t.Errorf("%v", row)
		}
	}
	for name, none := range map[string]*wirev1.TrialDictionary{
		"bodies":                      dictionaryOf(t, &trial.Sample{Items: orders.Items, Unit: bodies}, gozstd.New()),
		"no engine with dictionaries": dictionaryOf(t, orders, goflate.New()),
	} {
		if none != nil {
			t.Errorf("%s: %v", name, none)
		}
	}
	few := dictionaryOf(t, &trial.Sample{Items: orders.Items[:10], Unit: messages}, gozstd.New())
	if few.GetProblem() == "" || len(few.GetRows()) != 0 || few.GetItems() != 5 {
		t.Errorf("of 5 messages: %v", few)
	}
}

// TestDictionaryOfLongMessages: it is trained on no more than 4 MiB, which is less than half of the sample.
func TestDictionaryOfLongMessages(t *testing.T) {
	items := slices.Repeat(codectest.Orders(12, 10, 60_000), 16)
	want, left := 0, cover.MaxSamples
	for _, item := range items[:80] {
		if left -= len(item); left < 0 {
			break
		}
		want++
	}
	d := dictionaryOf(t, &trial.Sample{Items: items, Unit: messages}, gozstd.New())
	if want >= 80 || d.GetTrainingItems() != uint64(want) || d.GetItems() != 80 || len(d.GetRows()) != 3 {
		t.Errorf("want %d of 80: %v", want, d)
	}
}

func TestDictionaryStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := trial.Measure(ctx, trial.Options{
		Sample: &trial.Sample{Items: codectest.Orders(11, 100, 500), Unit: messages}, Links: []float64{1e6},
		Software: []codec.Engine{gozstd.New()}, Setting: policy.Setting{Objective: policy.Bytes},
		Progress: func(what string, _, _ int) {
			if what == "a dictionary" {
				cancel()
			}
		},
	})
	if err == nil {
		t.Error("it went on after it was told to stop")
	}
}
