// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestEncoders(t *testing.T) {
	auto := policy.Settings{Mode: policy.Auto, Level: codec.Balanced}
	never := policy.Settings{Mode: policy.Never, Level: codec.Balanced}
	onlyHardware := auto
	onlyHardware.SoftwareDisabled = true
	static := engines.Default().Names()
	for name, test := range map[string]struct {
		resolved compression.Settings
		// names in order; nil: those of the build in any order.
		names []string
		says  string
	}{
		"measured": {compression.Settings{Policy: auto, Codecs: []codec.ID{codec.Deflate}}, nil, "deflate: "},
		"named": {
			compression.Settings{Policy: auto, Codecs: []codec.ID{codec.Zstd}, Engines: []string{"go-zstd"}}, nil,
			"zstd: go-zstd (named by the policy)",
		},
		"named deflate": {
			compression.Settings{Policy: auto, Codecs: []codec.ID{codec.Deflate, codec.Zstd}, Engines: []string{"go"}}, nil,
			"deflate: go (named by the policy)",
		},
		"never":    {compression.Settings{Policy: never, Codecs: []codec.ID{codec.Deflate}}, static, ""},
		"no codec": {compression.Settings{Policy: auto, Codecs: []codec.ID{codec.None}}, static, ""},
		"only hardware": {
			compression.Settings{Policy: onlyHardware, Codecs: []codec.ID{codec.Deflate}}, static, `"software":""`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			a := &agent{log: slog.New(slog.NewJSONHandler(&log, nil))}
			got := a.encoders(t.Context(), test.resolved)
			names := got.registry.Names()
			if test.names != nil && !slices.Equal(names, test.names) {
				t.Errorf("engines: %q, want %q", names, test.names)
			}
			for _, id := range test.resolved.Codecs {
				best, ok := got.registry.Best(id, codec.Software, codec.Balanced)
				if !ok && id != codec.None {
					t.Errorf("no engine for %v: %q", id, names)
				}
				// What the policy names comes first, also for who takes the first one.
				for _, named := range test.resolved.Engines {
					if e, _ := got.registry.ByName(named); e.Codec() == id && best.Name() != named {
						t.Errorf("%s compresses %v, and the policy names %s", best.Name(), id, named)
					}
				}
			}
			if test.says == "" && log.String() != "" || !strings.Contains(log.String(), test.says) {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

func TestDecoders(t *testing.T) {
	var log lines
	a := &agent{log: slog.New(slog.NewJSONHandler(&log, nil))}
	inflate := a.decoders(t.Context())
	registry, rates := inflate.registry, inflate.rates
	if inflate.software == "" {
		t.Error("nothing says why software inflates")
	}
	got := registry.Names()
	want := engines.Default().Names()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("engines: %q, want %q", got, want)
	}
	for _, text := range []string{"deflate: ", "zstd: ", "accelerator"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log lacks %q: %s", text, log.String())
		}
	}
	for id, rate := range rates {
		if rate < 1e5 || len(registry.ForCodec(id)) < 2 {
			t.Errorf("%v expands at %.0f bytes a second", id, rate)
		}
	}
}

// accelerator is the engine in Go, which says that it is hardware.
type accelerator struct{ codec.Engine }

func (accelerator) Name() string       { return "accelerator" }
func (accelerator) Class() codec.Class { return codec.Hardware }

func (a accelerator) NewDecoder() (codec.Decoder, error) {
	d, err := a.Engine.NewDecoder()
	return hardwareDecoder{d}, err
}

type hardwareDecoder struct{ codec.Decoder }

func (hardwareDecoder) UsedHardware() bool { return true }

// TestHardwareForbidden: with inflate_in_software scrubs and restores leave an accelerator alone that they use without.
func TestHardwareForbidden(t *testing.T) {
	before := findAccelerator
	t.Cleanup(func() { findAccelerator = before })
	found := func(context.Context) (codec.Engine, hardware.Verdict) {
		return accelerator{goflate.New()}, hardware.Verdict{State: hardware.Verified, Levels: codec.Levels()}
	}
	for _, forbidden := range []bool{false, true} {
		scrubbed := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
		scrubbed.rests(t)
		send := proto.CloneOf(scrubbed.config.GetSend())
		send.SourceForm = wirev1.Form_FORM_GZIP
		scrubbed.config = &wirev1.LocalConfig{
			Send: send, Scrub: &wirev1.Scrub{Inflate: true}, InflateInSoftware: forbidden,
		}

		server := objectstoretest.New(t, "me")
		restored := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS)
		both := restored.config
		send = proto.CloneOf(both.GetSend())
		send.Form = wirev1.Form_FORM_GZIP
		restored.config = &wirev1.LocalConfig{
			Send: send, Receive: both.GetReceive(), DestinationStore: storeEnd(t, server), Transfer: "bank/ledger (1)",
		}
		if code, _, log := restored.run(t.Context(), t); code != exitOK {
			t.Fatalf("the agent exits with %d:\n%s", code, log)
		}
		send = proto.CloneOf(send)
		send.Volume, send.Path, send.Form = "", "", wirev1.Form_FORM_UNSPECIFIED
		send.Compression.Mode = wirev1.CompressionMode_COMPRESSION_MODE_AUTO
		restored.config = &wirev1.LocalConfig{
			Send: send, Receive: both.GetReceive(), SourceStore: storeEnd(t, server), InflateInSoftware: forbidden,
		}

		findAccelerator = found
		for what, r := range map[string]*localRun{"a scrub": scrubbed, "a restore": restored} {
			code, report, log := r.run(t.Context(), t)
			if code != exitOK {
				t.Fatalf("%s: the agent exits with %d:\n%s", what, code, log)
			}
			d := report.GetDecompression()
			used, other := d.GetHardware().GetOperations(), d.GetSoftware().GetOperations()
			if forbidden {
				used, other = other, used
			}
			if used == 0 || other != 0 {
				t.Errorf("%s, with hardware forbidden %t: %v", what, forbidden, d)
			}
		}
		findAccelerator = before
	}
}
