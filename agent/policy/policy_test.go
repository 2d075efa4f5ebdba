// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

func base() policy.Settings {
	return policy.Settings{
		Mode: policy.Auto, Level: codec.Fast, HardwareMinSize: 20000, SoftwareMinSize: 100, PreferHardware: true,
	}
}

func TestDecide(t *testing.T) {
	const mib = 1 << 20
	with := func(change func(*policy.Settings)) policy.Settings {
		s := base()
		change(&s)
		return s
	}
	never := with(func(s *policy.Settings) { s.Mode = policy.Never })
	always := with(func(s *policy.Settings) { s.Mode = policy.Always })
	noSoftware := with(func(s *policy.Settings) { s.SoftwareDisabled = true })
	anywhere := with(func(s *policy.Settings) { s.PreferHardware = false })

	tests := []struct {
		name     string
		settings policy.Settings
		facts    policy.Facts
		reason   policy.Reason
		class    codec.Class
		sample   bool
	}{
		{
			"never", never, policy.Facts{Size: mib, Codec: codec.Deflate, Accelerator: policy.Verified}, policy.PolicyNever,
			codec.NoClass, false,
		},
		{
			"no network", base(), policy.Facts{Size: mib, Codec: codec.Deflate, Accelerator: policy.Verified, NoNetwork: true},
			policy.NoNetwork, codec.NoClass, false,
		},
		{
			"no network and a policy that insists", always, policy.Facts{Size: mib, Codec: codec.Deflate, NoNetwork: true},
			policy.NoAccelerator, codec.Software, false,
		},
		{
			"no network and a policy that forbids", never, policy.Facts{Size: mib, Codec: codec.Deflate, NoNetwork: true},
			policy.PolicyNever, codec.NoClass, false,
		},
		{
			"peer takes plain bytes only", base(), policy.Facts{Size: mib, Codec: codec.None}, policy.PeerRefused, codec.NoClass,
			false,
		},
		{"empty", always, policy.Facts{Codec: codec.Deflate}, policy.BelowMinimum, codec.NoClass, false},
		{
			"hardware", base(), policy.Facts{Size: 20000, Codec: codec.Deflate, Accelerator: policy.Verified},
			policy.HardwareUsed, codec.Hardware, true,
		},
		{
			"hardware without being asked for", anywhere,
			policy.Facts{Size: mib, Codec: codec.Deflate, Accelerator: policy.Verified}, policy.HardwareUsed, codec.Hardware,
			true,
		},
		{
			"share used up", base(), policy.Facts{
				Size: mib, Codec: codec.Deflate, Accelerator: policy.Verified, Yield: policy.AcceleratorShare,
			}, policy.AcceleratorShare, codec.Software, true,
		},
		{
			"others use it", anywhere, policy.Facts{
				Size: mib, Codec: codec.Deflate, Accelerator: policy.Verified, Yield: policy.AcceleratorBusy,
			}, policy.AcceleratorBusy, codec.Software, true,
		},
		{
			"share used up, too small for software", base(), policy.Facts{
				Size: 99, Codec: codec.Deflate, Accelerator: policy.Verified, Yield: policy.AcceleratorShare,
			}, policy.BelowMinimum, codec.NoClass, false,
		},
		{
			"too small for hardware", base(), policy.Facts{Size: 19999, Codec: codec.Deflate, Accelerator: policy.Verified},
			policy.SoftwareUsed, codec.Software, true,
		},
		{
			"too small for hardware, no software", noSoftware,
			policy.Facts{Size: 19999, Codec: codec.Deflate, Accelerator: policy.Verified}, policy.BelowMinimum, codec.NoClass,
			false,
		},
		{
			"no hardware, no software", noSoftware, policy.Facts{Size: mib, Codec: codec.Deflate}, policy.SoftwareDisabled,
			codec.NoClass, false,
		},
		{
			"software's minimum", base(), policy.Facts{Size: 100, Codec: codec.Deflate}, policy.NoAccelerator, codec.Software,
			true,
		},
		{
			"below software's minimum", base(), policy.Facts{Size: 99, Codec: codec.Deflate}, policy.BelowMinimum, codec.NoClass,
			false,
		},
		{
			"below the minimum in mode Always", always, policy.Facts{Size: 99, Codec: codec.Deflate}, policy.BelowMinimum,
			codec.NoClass, false,
		},
		{
			"software by choice", anywhere, policy.Facts{Size: mib, Codec: codec.Deflate}, policy.SoftwareUsed, codec.Software,
			true,
		},
		{
			"hardware's use is not proved", base(), policy.Facts{Size: mib, Codec: codec.Deflate, Accelerator: policy.NotUsed},
			policy.SelfTestFailed, codec.Software, true,
		},
		{
			"hardware lacks the level", base(), policy.Facts{Size: mib, Codec: codec.Deflate, Accelerator: policy.LacksLevel},
			policy.LevelNotAccelerated, codec.Software, true,
		},
		{
			"not proved, and nobody asked for it", anywhere,
			policy.Facts{Size: mib, Codec: codec.Deflate, Accelerator: policy.NotUsed}, policy.SelfTestFailed, codec.Software,
			true,
		},
		{
			"not proved, no software", noSoftware, policy.Facts{Size: mib, Codec: codec.Deflate, Accelerator: policy.NotUsed},
			policy.SoftwareDisabled, codec.NoClass, false,
		},
		{
			"hopeless", base(), policy.Facts{Size: mib, Codec: codec.Deflate, Sample: policy.Hopeless}, policy.Incompressible,
			codec.NoClass, false,
		},
		{
			"promising", base(), policy.Facts{Size: mib, Codec: codec.Deflate, Sample: policy.Promising}, policy.NoAccelerator,
			codec.Software, false,
		},
		{
			"hopeless but always", always, policy.Facts{Size: mib, Codec: codec.Deflate, Sample: policy.Hopeless},
			policy.NoAccelerator, codec.Software, false,
		},
		{
			"hopeless and below the minimum", base(), policy.Facts{Size: 1, Codec: codec.Deflate, Sample: policy.Hopeless},
			policy.BelowMinimum, codec.NoClass, false,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := policy.Decide(test.settings, test.facts)
			want := policy.Decision{Codec: codec.None, Reason: test.reason, NeedsSample: test.sample}
			if test.class != codec.NoClass {
				want.Codec, want.Class, want.Level = test.facts.Codec, test.class, test.settings.Level
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got.Reason.Attempted() != (test.class != codec.NoClass) {
				t.Errorf("%s: Attempted() = %v", got.Reason, got.Reason.Attempted())
			}
		})
	}
	if !policy.DidNotShrink.Attempted() {
		t.Error("a block that did not shrink was attempted")
	}
}

// TestAccelerator goes through all settings and facts: hardware compresses if and only
// if it is verified, wanted and given enough, and what its state is changes nothing
// for blocks that nobody may compress.
func TestAccelerator(t *testing.T) {
	states := []policy.Accelerator{policy.Absent, policy.NotUsed, policy.LacksLevel, policy.LacksCodec, policy.Verified}
	bools := []bool{false, true}
	for _, mode := range []policy.Mode{policy.Auto, policy.Always, policy.Never} {
		for _, prefer := range bools {
			for _, disabled := range bools {
				for _, size := range []int64{0, 1, 99, 100, 19999, 20000, 1 << 20} {
					for _, sample := range []policy.Sample{policy.NotSampled, policy.Promising, policy.Hopeless} {
						s := base()
						s.Mode, s.PreferHardware, s.SoftwareDisabled = mode, prefer, disabled
						f := policy.Facts{Size: size, Codec: codec.Deflate, Sample: sample}
						absent := policy.Decide(s, f)
						for _, state := range states {
							f.Accelerator = state
							checkAccelerator(t, s, f, absent)
						}
					}
				}
			}
		}
	}
}

func checkAccelerator(t *testing.T, s policy.Settings, f policy.Facts, absent policy.Decision) {
	t.Helper()
	got := policy.Decide(s, f)
	hardware := f.Accelerator == policy.Verified && f.Size >= s.HardwareMinSize && s.Mode != policy.Never &&
		(s.Mode != policy.Auto || f.Sample != policy.Hopeless)
	if (got.Class == codec.Hardware) != hardware {
		t.Errorf("%+v, %+v: %+v", s, f, got)
	}
	if f.Accelerator == policy.Verified {
		return
	}
	want := absent
	if want.Reason == policy.SoftwareUsed && f.Accelerator == policy.NotUsed {
		want.Reason = policy.SelfTestFailed // a fault is no choice
	}
	if want.Reason == policy.NoAccelerator {
		want.Reason = map[policy.Accelerator]policy.Reason{
			policy.Absent: policy.NoAccelerator, policy.NotUsed: policy.SelfTestFailed,
			policy.LacksLevel: policy.LevelNotAccelerated,
			policy.LacksCodec: policy.CodecNotAccelerated,
		}[f.Accelerator]
	}
	if got != want {
		t.Errorf("%+v, %+v: got %+v, want %+v", s, f, got, want)
	}
}

func TestValidate(t *testing.T) {
	if err := base().Validate(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		change func(*policy.Settings)
		want   string
	}{
		{func(s *policy.Settings) { s.Mode = "Sometimes" }, "use Auto, Always or Never"},
		{func(s *policy.Settings) { s.Objective = "Fun" }, "use Cost, Elapsed, CPU or Bytes"},
		{func(s *policy.Settings) { s.Level = 9 }, "use Fast, Balanced or High"},
		{func(s *policy.Settings) { s.HardwareMinSize = -1 }, "hardware is -1"},
		{func(s *policy.Settings) { s.SoftwareMinSize = -2 }, "software is -2"},
	}
	for _, test := range tests {
		s := base()
		test.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want an error with %q", s, err, test.want)
		}
	}
}
