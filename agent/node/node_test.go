// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/node"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// renamed is an engine under another name, for a second opinion; with damage its decoders return other bytes.
type renamed struct {
	codec.Engine
	damage bool
}

func (renamed) Name() string { return "other" }

func (e renamed) NewDecoder() (codec.Decoder, error) {
	d, err := e.Engine.NewDecoder()
	return damaging{d, e.damage}, err
}

type damaging struct {
	codec.Decoder
	damage bool
}

func (d damaging) Decode(dst, src []byte) (int, error) {
	n, err := d.Decoder.Decode(dst, src)
	if d.damage && n > 0 {
		dst[n-1] ^= 1
	}
	return n, err
}

// oneLevel is an engine that has level Fast only.
type oneLevel struct{ codec.Engine }

func (oneLevel) Name() string                    { return "narrow" }
func (oneLevel) HasLevel(level codec.Level) bool { return level == codec.Fast }

// accelerator is an engine that passes for hardware.
type accelerator struct{ codec.Engine }

func (accelerator) Name() string       { return "dfltcc" }
func (accelerator) Class() codec.Class { return codec.Hardware }

func everything(codec.Engine) bool { return true }

func TestEngines(t *testing.T) {
	sample := calibrate.Sample(100_000)
	all := []codec.Engine{accelerator{goflate.New()}, goflate.New(), oneLevel{goflate.New()}, gozstd.New()}
	got, err := node.Engines(t.Context(), all, sample, time.Millisecond, func(e codec.Engine) bool {
		return e.Name() != "dfltcc"
	})
	if err != nil {
		t.Fatal(err)
	}
	selected := map[string]int{}
	for i, m := range got {
		e := all[i]
		levels := 3
		if e.Name() == "narrow" {
			levels = 1
		}
		if m.GetName() != e.Name() || m.GetCodec() != e.Codec().String() || len(m.GetLevels()) != levels {
			t.Errorf("%s: %v", e.Name(), m)
			continue
		}
		if m.GetVerified() != (e.Codec() == codec.Deflate) {
			t.Errorf("%s: verified is %v", e.Name(), m.GetVerified())
		}
		if (m.GetDecompressBytesPerSecond() == 0) != (e.Name() == "dfltcc") {
			t.Errorf("%s inflates at %d bytes a second", e.Name(), m.GetDecompressBytesPerSecond())
		}
		first := m.GetLevels()[0]
		if m.GetCompressBytesPerSecond() != first.GetCompressBytesPerSecond() ||
			m.GetSampleCompressedBytes() != first.GetSampleCompressedBytes() {
			t.Errorf("%s: the figures are not those of the first level: %v", e.Name(), m)
		}
		for i, l := range m.GetLevels() {
			if int(l.GetLevel()) != i+1 || l.GetCompressBytesPerSecond() < 1<<16 || l.GetSampleCompressedBytes() == 0 ||
				l.GetSampleCompressedBytes() > m.GetSampleBytes()/2 {
				t.Errorf("%s: level %v", e.Name(), l)
			}
			if l.GetSelected() {
				selected[l.GetLevel().String()+" of "+groupOf(e)]++
			}
		}
		if m.GetInflates() {
			selected["inflates "+groupOf(e)]++
		}
	}
	if len(got) != len(all) {
		t.Errorf("%d engines were measured", len(got))
	}
	// One engine of each codec and class at each level, and to inflate one of each codec in software.
	if len(selected) != 3*3+2 {
		t.Errorf("selected: %v", selected)
	}
	for what, n := range selected {
		if n != 1 {
			t.Errorf("%s: %d are selected", what, n)
		}
	}
}

func groupOf(e codec.Engine) string { return e.Class().String() + " " + e.Codec().String() }

func TestVerification(t *testing.T) {
	sample := calibrate.Sample(1 << 16)
	for name, test := range map[string]struct {
		engines  []codec.Engine
		measured []string
		verified bool
		err      string
	}{
		"alone": {[]codec.Engine{goflate.New()}, []string{"go"}, false, ""},
		"by another": {
			[]codec.Engine{goflate.New(), renamed{goflate.New(), false}}, []string{"go", "other"}, true, "",
		},
		"by another codec": {[]codec.Engine{goflate.New(), gozstd.New()}, []string{"go", "go-zstd"}, false, ""},
		"no other can read": {
			[]codec.Engine{goflate.New(), renamed{goflate.New(), true}}, []string{"other"}, true,
			"verify engine go by other: the output inflates to other bytes",
		},
		"one of others reads": {
			[]codec.Engine{renamed{goflate.New(), true}, goflate.New(), oneLevel{goflate.New()}},
			[]string{"other", "go", "narrow"}, true, "let other inflate the sample",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := node.Engines(t.Context(), test.engines, sample, time.Millisecond, everything)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("the error is %v", err)
			}
			names := []string{}
			for _, m := range got {
				names = append(names, m.GetName())
				if m.GetVerified() != test.verified {
					t.Errorf("%s: verified is %v", m.GetName(), m.GetVerified())
				}
			}
			if !slices.Equal(names, test.measured) {
				t.Errorf("measured: %q", names)
			}
		})
	}
}

// profile runs a profiler until it has measured.
func profile(t *testing.T, o node.Options) *wirev1.NodeMeasurement {
	t.Helper()
	o.Sample, o.Budget = calibrate.Sample(50_000), time.Millisecond
	o.Log = slog.New(slog.DiscardHandler)
	o.Network = func(context.Context) (node.NetworkCost, error) {
		return node.NetworkCost{
			Median: 412 * time.Millisecond, Least: 400 * time.Millisecond, Most: 500 * time.Millisecond, Runs: 5,
		}, nil
	}
	p := node.NewProfiler(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(done)
	}()
	defer func() {
		cancel()
		<-done
	}()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got, err := p.GetProfile(t.Context(), &wirev1.GetProfileRequest{})
		if err == nil {
			return got.GetMeasurement()
		}
		if status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
	}
	t.Fatal("nothing was measured")
	return nil
}

func TestAccelerator(t *testing.T) {
	for name, test := range map[string]struct {
		engine  codec.Engine
		verdict hardware.Verdict
		want    *wirev1.AcceleratorMeasurement
		engines []string
	}{
		"absent": {
			nil, hardware.Verdict{State: hardware.Absent, Reason: hardware.NoInstruction, Message: "none"},
			&wirev1.AcceleratorMeasurement{
				State: wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT, Reason: "NoInstruction", Message: "none",
			},
			[]string{"go"},
		},
		"not used": {
			nil, hardware.Verdict{State: hardware.NotUsed, Reason: hardware.SelfTestFailed, Message: "it failed"},
			&wirev1.AcceleratorMeasurement{
				State: wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED, Reason: "SelfTestFailed", Message: "it failed",
			},
			[]string{"go"},
		},
		"verified": {
			accelerator{goflate.New()},
			hardware.Verdict{State: hardware.Verified, Reason: hardware.Proved, SlowerThanSoftware: true, InflateMinSize: 4096},
			&wirev1.AcceleratorMeasurement{
				State: wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED, Reason: "Proved", SlowerThanSoftware: true,
				InflateMinSize: 4096,
			},
			[]string{"dfltcc", "go"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := profile(t, node.Options{
				Engines: []codec.Engine{goflate.New(), identity.New()},
				Find:    func(context.Context) (codec.Engine, hardware.Verdict) { return test.engine, test.verdict },
			})
			if diff := cmp.Diff(test.want, got.GetAccelerator(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			names := []string{}
			for _, m := range got.GetEngines() {
				names = append(names, m.GetName())
			}
			if !slices.Equal(names, test.engines) || got.GetNetworkCpuNanosPerGib() != 412_000_000 ||
				got.GetNetworkCpuNanosPerGibLeast() != 400_000_000 || got.GetNetworkCpuNanosPerGibMost() != 500_000_000 ||
				got.GetNetworkRuns() != 5 || !got.GetMeasuredTime().IsValid() {
				t.Errorf("measured: %v", got)
			}
		})
	}
}

// TestAnotherMachine: a guest that was moved to a host with another processor is measured again.
func TestAnotherMachine(t *testing.T) {
	var moved atomic.Bool
	p := node.NewProfiler(node.Options{
		Engines: []codec.Engine{goflate.New()}, Sample: calibrate.Sample(10_000), Budget: time.Microsecond,
		Log: slog.New(slog.DiscardHandler),
		Find: func(context.Context) (codec.Engine, hardware.Verdict) {
			return nil, hardware.Verdict{State: hardware.Absent}
		},
		Network: func(context.Context) (node.NetworkCost, error) { return node.NetworkCost{}, nil },
		Recheck: time.Millisecond,
		Host: func() node.Host {
			if moved.Load() {
				return node.Host{Kernel: "7.0", CPUModel: "z16"}
			}
			return node.Host{Kernel: "7.0", CPUModel: "z15"}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(done)
	}()
	defer func() {
		cancel()
		<-done
	}()
	await := func(model string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			got, err := p.GetProfile(t.Context(), &wirev1.GetProfileRequest{})
			if err == nil && got.GetMeasurement().GetCpuModel() == model && got.GetMeasurement().GetKernel() == "7.0" {
				return
			}
		}
		t.Fatalf("no measurement of model %s", model)
	}
	await("z15")
	moved.Store(true)
	await("z16")
}

// TestRepeats: what failed in part is measured again soon, and not a day later.
func TestRepeats(t *testing.T) {
	for name, test := range map[string]struct {
		verdict hardware.Verdict
		network error
		whole   bool
	}{
		"the network": {hardware.Verdict{State: hardware.Absent}, errors.New("no port is free"), false},
		"the accelerator": {
			hardware.Verdict{State: hardware.NotUsed, Reason: hardware.Interrupted, Message: "the self-test was interrupted"},
			nil, false,
		},
		"nothing": {hardware.Verdict{State: hardware.Absent}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			var measured atomic.Int32
			second := make(chan struct{})
			p := node.NewProfiler(node.Options{
				Engines: []codec.Engine{goflate.New()}, Sample: calibrate.Sample(10_000), Budget: time.Microsecond,
				Log: slog.New(slog.DiscardHandler),
				Find: func(context.Context) (codec.Engine, hardware.Verdict) {
					if measured.Add(1) > 1 {
						return nil, hardware.Verdict{State: hardware.Absent}
					}
					return nil, test.verdict
				},
				Network: func(context.Context) (node.NetworkCost, error) {
					if measured.Load() > 1 {
						close(second)
						return node.NetworkCost{Median: time.Second, Runs: 5}, nil
					}
					return node.NetworkCost{}, test.network
				},
				Recheck: time.Millisecond, Retry: time.Millisecond, Host: func() node.Host { return node.Host{Kernel: "7.0"} },
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				p.Run(ctx)
				close(done)
			}()
			defer func() {
				cancel()
				<-done
			}()
			patience := time.Minute
			if test.whole {
				patience = 50 * time.Millisecond
			}
			select {
			case <-second:
				if test.whole {
					t.Error("what was whole was measured again at once")
				}
			case <-time.After(patience):
				if !test.whole {
					t.Error("it was not measured again")
				}
			}
		})
	}
}

func TestProfileIsUnavailableAtFirst(t *testing.T) {
	p := node.NewProfiler(node.Options{})
	if _, err := p.GetProfile(t.Context(), &wirev1.GetProfileRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("the answer is %v", err)
	}
}
