// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware_test

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/policy"
)

// z15 is the beginning of /proc/cpuinfo of such a machine.
const z15 = `vendor_id       : IBM/S390
# processors    : 4
bogomips per cpu: 3241.00
max thread id   : 1
features	: esan3 zarch stfle msa ldisp eimm dfp edat etf3eh highgprs te vx vxd vxe gs vxe2 vxp sort dflt sie 
facilities      : 0 1 2 3 4 6 7 8 9 10 12 14 16 17 18 19 20 21 22 23 24 25 26 27 28 30 31 32 33 34 35 36 37
cache0          : level=1 type=Data scope=Private size=128K line_size=256 associativity=8
processor 0: version = FF,  identification = 0133E8,  machine = 8561
`

func auxv(hwcap uintptr) [][2]uintptr { return [][2]uintptr{{33, 0x7fff0000}, {16, hwcap}, {6, 4096}} }

const dfl = 1 << 18

func TestDetect(t *testing.T) {
	without := strings.Replace(z15, " dflt", "", 1)
	tests := []struct {
		name    string
		system  hardware.System
		present bool
		message string
	}{
		{"z15", hardware.System{Architecture: "s390x", Auxv: auxv(dfl | 0x1ff), CPUInfo: []byte(z15)}, true, ""},
		{
			"z14", hardware.System{Architecture: "s390x", Auxv: auxv(0x1ff), CPUInfo: []byte(without)}, false,
			"does not have the instruction",
		},
		{
			"all but the bit", hardware.System{Architecture: "s390x", Auxv: auxv(^uintptr(dfl)), CPUInfo: []byte(z15)}, false,
			"emulator",
		},
		{
			"bit without feature", hardware.System{Architecture: "s390x", Auxv: auxv(dfl), CPUInfo: []byte(without)}, false,
			"own /proc/cpuinfo",
		},
		{
			"feature of another line",
			hardware.System{Architecture: "s390x", Auxv: auxv(dfl), CPUInfo: []byte("bugs : dflt\nfeatures : zarch\n")}, false,
			"own /proc/cpuinfo",
		},
		{
			"a longer word",
			hardware.System{Architecture: "s390x", Auxv: auxv(dfl), CPUInfo: []byte("features : dflt2 xdflt\n")}, false,
			"own /proc/cpuinfo",
		},
		{
			"no end of line", hardware.System{Architecture: "s390x", Auxv: auxv(dfl), CPUInfo: []byte("features:dflt")}, true,
			"",
		},
		{"nothing readable", hardware.System{Architecture: "s390x"}, false, "does not have the instruction"},
		{
			"one endless line",
			hardware.System{Architecture: "s390x", Auxv: auxv(dfl), CPUInfo: bytes.Repeat([]byte("features: dflt "), 1<<20)},
			false, "own /proc/cpuinfo",
		},
		{
			"after an endless line",
			hardware.System{
				Architecture: "s390x", Auxv: auxv(dfl), CPUInfo: append(bytes.Repeat([]byte("x"), 1<<20), "\nfeatures: dflt\n"...),
			},
			false, "own /proc/cpuinfo",
		},
		{
			"another architecture", hardware.System{Architecture: "amd64", Auxv: auxv(dfl), CPUInfo: []byte(z15)}, false,
			"amd64 has no accelerator",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			present, message := test.system.Detect()
			if present != test.present || !strings.Contains(message, test.message) || present != (message == "") {
				t.Errorf("got %v, %q", present, message)
			}
			if present {
				return
			}
			engine, v := hardware.FindOn(t.Context(), test.system)
			if engine != nil || v.State != hardware.Absent || v.Reason != hardware.NoInstruction || v.Message != message ||
				v.Accelerator(codec.Fast) != policy.Absent {
				t.Errorf("found %v, %+v", engine, v)
			}
		})
	}
}

// TestClaim: what comes of a claim to have the accelerator depends on whether the
// library can use it, and on nothing else.
func TestClaim(t *testing.T) {
	engine, v := hardware.FindOn(
		t.Context(), hardware.System{Architecture: "s390x", Auxv: auxv(dfl), CPUInfo: []byte(z15)},
	)
	if accelerated(t) {
		checkProved(t, engine, v)
		return
	}
	if engine != nil || v.State != hardware.NotUsed || v.Accelerator(codec.Fast) != policy.NotUsed {
		t.Errorf("found %v, %+v", engine, v)
	}
	reason, message := hardware.LibraryWithout, "the project's image"
	if runtime.GOARCH == "s390x" && zlibng.Available() {
		reason, message = hardware.SelfTestFailed, "facility 151"
	}
	if v.Reason != reason || !strings.Contains(v.Message, message) {
		t.Errorf("%s: %s", v.Reason, v.Message)
	}
}

// accelerated reports whether the library of this build finds the instruction.
func accelerated(t *testing.T) bool {
	t.Helper()
	engine, err := zlibng.New(zlibng.Options{Hardware: true})
	if err != nil {
		return false
	}
	return encodes(t, engine, codec.Fast)
}

// encodes reports whether an engine's encoder bears witness of the accelerator.
func encodes(t *testing.T, engine codec.Engine, level codec.Level) bool {
	t.Helper()
	encoder, err := engine.NewEncoder(level)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	if _, err := encoder.Encode(make([]byte, 1000), make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	return encoder.(codec.Witness).UsedHardware()
}

// checkProved checks the engine that Find returns where there is an accelerator.
func checkProved(t *testing.T, engine codec.Engine, v hardware.Verdict) {
	t.Helper()
	if engine == nil || v.State != hardware.Verified || engine.Class() != codec.Hardware ||
		engine.Name() != zlibng.HardwareName {
		t.Fatalf("found %v, %+v", engine, v)
	}
	for _, level := range []codec.Level{codec.Fast, codec.Balanced, codec.High} {
		if proved := v.Accelerator(level) == policy.Verified; engine.HasLevel(level) != proved {
			t.Errorf("the engine has level %v: %v, proved: %v", level, !proved, proved)
		} else if proved && !encodes(t, engine, level) {
			t.Errorf("the accelerator was proved at level %v and is not used", level)
		}
	}
	if encoder, err := engine.NewEncoder(codec.High + 1); err == nil {
		t.Errorf("made an encoder of a level that was not proved: %v", encoder.Close())
	}
}

// TestFind holds on every machine: an engine if and only if it is verified.
func TestFind(t *testing.T) {
	engine, v := hardware.Find(context.Background())
	if (engine != nil) != (v.State == hardware.Verified) || v.Message == "" || v.Reason == "" {
		t.Errorf("found %v, %+v", engine, v)
	}
	if runtime.GOARCH != "s390x" && v.State != hardware.Absent {
		t.Errorf("%s has an accelerator: %+v", runtime.GOARCH, v)
	}
}

// FuzzDetect: whatever /proc/cpuinfo holds, only a file that names the feature counts.
func FuzzDetect(f *testing.F) {
	f.Add([]byte(z15))
	f.Add([]byte("features:dflt"))
	f.Add([]byte("features"))
	f.Fuzz(func(t *testing.T, cpuinfo []byte) {
		present, message := hardware.System{Architecture: "s390x", Auxv: auxv(dfl), CPUInfo: cpuinfo}.Detect()
		if present && !bytes.Contains(cpuinfo, []byte("dflt")) || present != (message == "") {
			t.Errorf("%v, %q", present, message)
		}
	})
}
