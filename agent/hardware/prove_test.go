// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/policy"
)

// fake plays an accelerator with code in Go. The zero value does all it should.
type fake struct {
	codec.Engine // goflate
	// copies makes it write the bytes that software writes.
	copies bool
	// encode and decode say why it worked in software, by level and for all.
	encode map[codec.Level]zlibng.Obstacle
	decode zlibng.Obstacle
	// damages and garbles make it write wrong streams and expand wrongly.
	damages, garbles func([]byte)
	// breaks is the error of Encode.
	breaks error
	// effort is how much time of the clock each call takes.
	effort time.Duration
	clock  *clock
	// calls is the number of Encode calls after which it is no longer used; 0 is never.
	calls int
}

// clock tells the time that fakes spent, so that no verdict hangs on how busy this machine is.
type clock struct{ now time.Duration }

func (c *clock) stopwatch(work func()) time.Duration {
	start := c.now
	work()
	return c.now - start
}

func (f fake) spend() {
	if f.clock != nil {
		f.clock.now += f.effort
	}
}

func (f fake) Class() codec.Class { return codec.Hardware }

func (f fake) NewEncoder(level codec.Level) (codec.Encoder, error) {
	other := map[codec.Level]codec.Level{
		codec.Fast: codec.Balanced, codec.Balanced: codec.High, codec.High: codec.Fast,
	}[level]
	if f.copies {
		other = level
	}
	e, err := f.Engine.NewEncoder(other)
	return &fakeEncoder{Encoder: e, fake: f, why: f.encode[level]}, err
}

func (f fake) NewDecoder() (codec.Decoder, error) {
	d, err := f.Engine.NewDecoder()
	return &fakeDecoder{Decoder: d, fake: f}, err
}

type fakeEncoder struct {
	codec.Encoder
	fake fake
	why  zlibng.Obstacle
	n    int
}

func (e *fakeEncoder) Encode(dst, src []byte) (int, error) {
	if e.fake.breaks != nil {
		return 0, e.fake.breaks
	}
	if e.n++; e.n == e.fake.calls {
		e.why = zlibng.OtherObstacle
	}
	e.fake.spend()
	n, err := e.Encoder.Encode(dst, src)
	if err == nil && e.fake.damages != nil {
		e.fake.damages(dst[:n])
	}
	return n, err
}

func (e *fakeEncoder) UsedHardware() bool        { return e.why == zlibng.NoObstacle }
func (e *fakeEncoder) Obstacle() zlibng.Obstacle { return e.why }

type fakeDecoder struct {
	codec.Decoder
	fake fake
}

func (d *fakeDecoder) Decode(dst, src []byte) (int, error) {
	d.fake.spend()
	n, err := d.Decoder.Decode(dst, src)
	if err == nil && d.fake.garbles != nil {
		d.fake.garbles(dst[:n])
	}
	return n, err
}

func (d *fakeDecoder) UsedHardware() bool        { return d.fake.decode == zlibng.NoObstacle }
func (d *fakeDecoder) Obstacle() zlibng.Obstacle { return d.fake.decode }

// mute hides what a fake knows of its work.
type mute struct{ codec.Engine }

func (m mute) NewEncoder(level codec.Level) (codec.Encoder, error) {
	e, err := m.Engine.NewEncoder(level)
	return struct{ codec.Encoder }{e}, err
}

func everywhere(o zlibng.Obstacle) map[codec.Level]zlibng.Obstacle {
	return map[codec.Level]zlibng.Obstacle{codec.Fast: o, codec.Balanced: o, codec.High: o}
}

func prove(t *testing.T, e codec.Engine) hardware.Verdict {
	t.Helper()
	v := hardware.Prove(t.Context(), hardware.Engines{Hardware: e, Software: goflate.New(), Independent: goflate.New()})
	if (v.State == hardware.Verified) != (len(v.Levels) > 0) || len(v.Levels) != len(v.Compress) || v.Message == "" ||
		len(v.Message) > 1024 {
		t.Errorf("%+v", v)
	}
	return v
}

func TestProved(t *testing.T) {
	t.Parallel()
	software := goflate.New()
	v := prove(t, fake{Engine: software})
	if v.State != hardware.Verified || v.Reason != hardware.Proved ||
		!slices.Equal(v.Levels, []codec.Level{codec.Fast, codec.Balanced, codec.High}) {
		t.Fatalf("%+v", v)
	}
	for _, s := range v.Compress {
		if s.Hardware <= 0 || s.Software <= 0 || s.HardwareRatio <= 1 || s.SoftwareRatio <= 1 ||
			s.HardwareRatio == s.SoftwareRatio {
			t.Errorf("%+v", s)
		}
		if v.Accelerator(s.Level) != policy.Verified {
			t.Errorf("%v is not verified", s.Level)
		}
	}
	if !strings.Contains(v.Message, "levels Fast, Balanced and High") {
		t.Error(v.Message)
	}
}

// TestSlower: an accelerator of less use than software is proved, and said to be so.
func TestSlower(t *testing.T) {
	t.Parallel()
	v := race(t, 4*time.Microsecond, time.Microsecond)
	if v.State != hardware.Verified || !v.SlowerThanSoftware || v.InflateMinSize != hardware.NeverInflate ||
		v.InflateHardware >= v.InflateSoftware {
		t.Errorf("%+v", v)
	}
	for _, want := range []string{"slower than software here", "Software inflates, because it is faster at every size"} {
		if !strings.Contains(v.Message, want) {
			t.Errorf("no %q in %q", want, v.Message)
		}
	}
}

func TestFaster(t *testing.T) {
	t.Parallel()
	v := race(t, time.Microsecond, 4*time.Microsecond)
	if v.State != hardware.Verified || v.SlowerThanSoftware || v.InflateMinSize <= 0 || v.InflateMinSize > 1<<17 {
		t.Errorf("%+v", v)
	}
	for _, want := range []string{"4.0 times as fast as software at level Fast", "at ratio ", "It inflates from"} {
		if !strings.Contains(v.Message, want) {
			t.Errorf("no %q in %q", want, v.Message)
		}
	}
}

// race proves an accelerator whose every call takes as long as it is told beside software of which the same is true.
func race(t *testing.T, accelerator, software time.Duration) hardware.Verdict {
	t.Helper()
	c := new(clock)
	return hardware.Prove(t.Context(), hardware.Engines{
		Hardware:    fake{Engine: goflate.New(), effort: accelerator, clock: c},
		Software:    fake{Engine: goflate.New(), effort: software, clock: c, copies: true},
		Independent: goflate.New(),
		Stopwatch:   c.stopwatch,
	})
}

func TestPartly(t *testing.T) {
	t.Parallel()
	v := prove(t, fake{Engine: goflate.New(), encode: map[codec.Level]zlibng.Obstacle{codec.High: zlibng.OtherLevel}})
	// High's fake bytes are not software's: that is a contradiction, not a lack.
	if v.State != hardware.NotUsed || v.Reason != hardware.SelfTestFailed ||
		!strings.Contains(v.Message, "not software's") {
		t.Errorf("%+v", v)
	}

	v = prove(
		t,
		fallsBack{
			fake{
				Engine: goflate.New(),
				encode: map[codec.Level]zlibng.Obstacle{codec.Balanced: zlibng.OtherLevel, codec.High: zlibng.OtherLevel},
			},
		},
	)
	if v.State != hardware.Verified || !slices.Equal(v.Levels, []codec.Level{codec.Fast}) ||
		!strings.Contains(v.Message, "DFLTCC_LEVEL_MASK") {
		t.Errorf("%+v", v)
	}
	if v.Accelerator(codec.Fast) != policy.Verified || v.Accelerator(codec.High) != policy.LacksLevel {
		t.Errorf("Fast is %v, High is %v", v.Accelerator(codec.Fast), v.Accelerator(codec.High))
	}

	v = prove(t, fake{Engine: goflate.New(), decode: zlibng.NotBuilt})
	if v.State != hardware.Verified || v.InflateMinSize != hardware.NeverInflate || v.InflateHardware != 0 ||
		!strings.Contains(v.Message, "Software inflates, because the accelerator was not used for it") {
		t.Errorf("%+v", v)
	}
}

// fallsBack is a fake that does at the levels it cannot do what a library does: the
// work in software.
type fallsBack struct{ fake }

func (f fallsBack) NewEncoder(level codec.Level) (codec.Encoder, error) {
	if f.encode[level] != zlibng.NoObstacle {
		f.copies = true
	}
	return f.fake.NewEncoder(level)
}

func TestNotUsed(t *testing.T) {
	t.Parallel()
	software := goflate.New()
	idle := func(o zlibng.Obstacle) fake { return fake{Engine: software, copies: true, encode: everywhere(o)} }
	flip := func(b []byte) { b[len(b)/2] ^= 0x40 }
	tests := []struct {
		name    string
		engine  codec.Engine
		reason  hardware.Reason
		message string
	}{
		{"library built without", idle(zlibng.NotBuilt), hardware.LibraryWithout, "hack/zlib-ng/build.sh"},
		{"other levels", idle(zlibng.OtherLevel), hardware.LevelNotAccelerated, "DFLTCC_LEVEL_MASK"},
		{"other window", idle(zlibng.OtherWindow), hardware.WindowNotAccelerated, "32 KiB"},
		{"no instruction", idle(zlibng.NoInstruction), hardware.SelfTestFailed, "facility 151"},
		{"silent fallback", idle(zlibng.OtherObstacle), hardware.SelfTestFailed, "software did the work"},
		{"lying witness", fake{Engine: software, copies: true}, hardware.SelfTestFailed, "byte for byte"},
		{"no witness", mute{fake{Engine: software}}, hardware.SelfTestFailed, "does not say"},
		{"no witness, software's bytes", mute{fake{Engine: software, copies: true}}, hardware.SelfTestFailed, "does not say"},
		{
			"witness denies other bytes", fake{Engine: software, encode: everywhere(zlibng.OtherObstacle)},
			hardware.SelfTestFailed, "not software's",
		},
		{"damaged streams", fake{Engine: software, damages: flip}, hardware.SelfTestFailed, "compress at level Fast"},
		{"damaged short streams", fake{Engine: software, damages: func(b []byte) {
			if len(b) < 1000 {
				flip(b)
			}
		}}, hardware.SelfTestFailed, "compress a short block"},
		{"wrong bytes inflated", fake{Engine: software, garbles: flip}, hardware.SelfTestFailed, "inflates to other bytes"},
		{"wrong bytes of short streams", fake{Engine: software, garbles: func(b []byte) {
			if len(b) < 1000 {
				flip(b)
			}
		}}, hardware.SelfTestFailed, "inflates to other bytes"},
		{"broken", fake{Engine: software, breaks: errors.New("no luck")}, hardware.SelfTestFailed, "no luck"},
		{"does not shrink", fake{Engine: software, breaks: codec.ErrDoesNotFit}, hardware.SelfTestFailed, "do not fit"},
		{"works once", fake{Engine: software, calls: 2}, hardware.SelfTestFailed, "not what followed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := prove(t, test.engine)
			if v.State != hardware.NotUsed || v.Reason != test.reason || !strings.Contains(v.Message, test.message) ||
				v.InflateMinSize != hardware.NeverInflate {
				t.Errorf("%+v", v)
			}
			want := policy.NotUsed
			if v.Reason == hardware.LevelNotAccelerated {
				want = policy.LacksLevel
			}
			for _, level := range []codec.Level{codec.Fast, codec.Balanced, codec.High} {
				if got := v.Accelerator(level); got != want {
					t.Errorf("to policies at level %v it is %v, want %v", level, got, want)
				}
			}
			if bytes.ContainsAny([]byte(v.Message), "\n\t") {
				t.Errorf("not one line: %q", v.Message)
			}
		})
	}
}

// TestInterrupted: nothing is proved by half a test.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := hardware.Prove(
		ctx, hardware.Engines{Hardware: fake{Engine: goflate.New()}, Software: goflate.New(), Independent: goflate.New()},
	)
	if v.State != hardware.NotUsed || v.Reason != hardware.Interrupted || !strings.Contains(v.Message, "interrupted") ||
		v.Accelerator(codec.Fast) != policy.NotUsed {
		t.Errorf("%+v", v)
	}
}
