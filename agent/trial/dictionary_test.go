// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/cover"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/trial"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func dictionariesOf(t *testing.T, s *trial.Sample, engines ...codec.Engine) []*wirev1.TrialDictionary {
	t.Helper()
	r, err := trial.Measure(t.Context(), trial.Options{
		Sample: s, Software: engines, Setting: policy.Setting{Objective: policy.Bytes}, Links: []float64{1e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.GetDictionary() != nil {
		t.Errorf("it has what agents of earlier releases have: %v", r.GetDictionary())
	}
	return r.GetDictionaries()
}

// of is a part of the levels of an engine, under another name.
type of struct {
	codec.DictionaryEngine
	name   string
	levels []codec.Level
}

func (e of) Name() string                { return e.name }
func (e of) HasLevel(l codec.Level) bool { return slices.Contains(e.levels, l) }

// TestDictionaries: for each codec there is the dictionary that Queues would train, measured with the first engine that
// has a level.
func TestDictionaries(t *testing.T) {
	const carried = 30
	orders := &trial.Sample{
		Items: codectest.Orders(11, 401, 1000), Unit: messages, Overhead: func(codec.ID) int { return carried },
	}
	goFlate := goflate.New().(codec.DictionaryEngine)
	quick, slow := of{goFlate, "quick", []codec.Level{codec.Fast}}, of{goFlate, "slow", []codec.Level{codec.Fast}}
	found := dictionariesOf(t, orders, quick, slow, goFlate, gozstd.New())
	want := []struct {
		engine string
		codec  codec.ID
		levels []wirev1.CompressionLevel
	}{
		{"quick", codec.Deflate, []wirev1.CompressionLevel{1}},
		{goflate.Name, codec.Deflate, []wirev1.CompressionLevel{2, 3}},
		{gozstd.Name, codec.Zstd, []wirev1.CompressionLevel{1, 2, 3}},
	}
	if len(found) != len(want) {
		t.Fatalf("%d dictionaries, want %d: %v", len(found), len(want), found)
	}
	var plain int
	for _, item := range orders.Items[200:] {
		plain += len(item)
	}
	for i, w := range want {
		d := found[i]
		format, err := dictionaries.Of(w.codec)
		if err != nil {
			t.Fatal(err)
		}
		content, _, err := format.Train(orders.Items[:200], format.TrainingSize)
		if err != nil {
			t.Fatal(err)
		}
		var levels []wirev1.CompressionLevel
		for _, row := range d.GetRows() {
			levels = append(levels, row.GetLevel())
			if row.GetWireBytes()*3 > row.GetWireBytesWithout()*2 || row.GetWireBytes() < carried*201 ||
				row.GetCompressNanos() == 0 || row.GetCompressNanosWithout() == 0 || row.GetInflateNanos() == 0 ||
				row.GetInflateNanosWithout() == 0 {
				t.Errorf("%s: %v", w.engine, row)
			}
		}
		if d.GetProblem() != "" || d.GetEngine() != w.engine || d.GetCodec() != w.codec.String() ||
			!slices.Equal(levels, w.levels) || d.GetTrainingItems() != 200 || d.GetItems() != 201 ||
			d.GetPlainBytes() != uint64(plain) || d.GetBytes() != uint64(len(content)) {
			t.Errorf("got %v, want %+v, %d bytes and %d plain", d, w, len(content), plain)
		}
	}
	for name, none := range map[string][]*wirev1.TrialDictionary{
		"bodies": dictionariesOf(t, &trial.Sample{Items: orders.Items, Unit: bodies}, gozstd.New()),
		"no engine with dictionaries": dictionariesOf(
			t, orders, &engine{name: "quick", class: codec.Software, levels: []codec.Level{codec.Fast}},
		),
	} {
		if len(none) != 0 {
			t.Errorf("%s: %v", name, none)
		}
	}
	few := dictionariesOf(t, &trial.Sample{Items: orders.Items[:10], Unit: messages}, quick, goFlate, gozstd.New())
	if len(few) != 2 || few[0].GetCodec() != codec.Deflate.String() || few[1].GetCodec() != codec.Zstd.String() {
		t.Fatalf("of 5 messages: %v", few)
	}
	for _, d := range few {
		if d.GetProblem() == "" || len(d.GetRows()) != 0 || d.GetItems() != 5 {
			t.Errorf("of 5 messages: %v", d)
		}
	}
}

// TestDictionaryOfLongMessages: it is trained on no more than 4 MiB, which is less than half of the sample. Messages
// that are too long for dictionaries of Queues are not among those that it is trained and measured on.
func TestDictionaryOfLongMessages(t *testing.T) {
	const half = 320
	items := slices.Repeat(codectest.Orders(12, 10, 15_000), 2*half/10)
	want, left, plain := 0, cover.MaxSamples, 0
	for _, item := range items[:half] {
		if left -= len(item); left < 0 {
			break
		}
		want++
	}
	for _, item := range items[half:] {
		plain += len(item)
	}
	items = slices.Insert(items, half, codectest.Orders(13, 20, message.MaxReferring+1000)...)
	found := dictionariesOf(t, &trial.Sample{Items: items, Unit: messages}, gozstd.New())
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	if d := found[0]; want >= half || d.GetTrainingItems() != uint64(want) || d.GetItems() != half ||
		d.GetPlainBytes() != uint64(plain) || len(d.GetRows()) != 3 {
		t.Errorf("want %d of %d and %d bytes: %v", want, half, plain, d)
	}
}

func TestDictionaryStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := trial.Measure(ctx, trial.Options{
		Sample: &trial.Sample{Items: codectest.Orders(11, 100, 500), Unit: messages}, Links: []float64{1e6},
		Software: []codec.Engine{gozstd.New()}, Setting: policy.Setting{Objective: policy.Bytes},
		Progress: func(what string, _, _ int) {
			if strings.HasPrefix(what, "a dictionary") {
				cancel()
			}
		},
	})
	if err == nil {
		t.Error("it went on after it was told to stop")
	}
}
