// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// idle is a machine with CPU time for everything.
type idle struct{}

func (idle) CPU() time.Duration           { return time.Duration(time.Now().UnixNano()) }
func (idle) Spend(f func()) time.Duration { return meter.ThreadCPU(f) }
func (idle) Pressed() bool                { return false }

// TestSendersReportRegret: the report says what the choices for blocks lose, once enough of them were measured.
func TestSendersReportRegret(t *testing.T) {
	sampledOn = idle{}
	t.Cleanup(func() { sampledOn = nil })
	deflate := policy.Option{Codec: codec.Deflate, Class: codec.Software, Level: codec.Fast}
	zstd := policy.Option{Codec: codec.Zstd, Class: codec.Software, Level: codec.Fast}
	o := &Options{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast, Objective: policy.Bytes},
		Codecs: []codec.ID{codec.Deflate, codec.Zstd}, Ways: []policy.Way{{Option: deflate}, {Option: zstd}},
		WayEngines: map[policy.Option]codec.Engine{deflate: goflate.New(), zstd: gozstd.New()},
		Engines:    codec.NewRegistry(goflate.New(), gozstd.New()), Streams: 1, Report: NewReport(),
	}
	accepted := &wirev1.Accepted{Codec: uint32(codec.Zstd), Codecs: []uint32{uint32(codec.Deflate), uint32(codec.Zstd)}}
	terms := &terms{codec: codec.Zstd, accepted: accepted}

	place := *o
	place.Place = &Place{}
	if a := newAdaptive(&place, terms); a.chooser == nil || a.sampler != nil {
		t.Fatalf("in a Fan: %+v", a)
	}

	a := newAdaptive(o, terms)
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { a.sampler.Run(ctx) })
	t.Cleanup(func() { cancel(); ended.Wait() })
	encoder, err := frame.NewEncoder(a.encoderOptions(o, terms))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = encoder.Close() })
	block := []byte(strings.Repeat("manifest of cargo, ", 4000))
	buf := make([]byte, frame.HeaderSize+len(block))
	for o.Report.Report().GetDecisions() == nil {
		if _, _, _, err := encoder.Next(buf, block, false); err != nil {
			t.Fatal(err)
		}
	}
	d := o.Report.Report().GetDecisions()
	r := d.GetRegret()
	if d.GetObjective() != "Bytes" || r.GetUnits() < 48 || !slices.Contains([]string{"deflate", "zstd"}, r.GetCodec()) ||
		r.GetLevel() != "Fast" || r.GetHardware() {
		t.Errorf("%v", d)
	}
}
