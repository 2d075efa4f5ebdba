// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cpumf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lighterage/lighterage/agent/cpumf"
)

const cpuinfo = "vendor_id       : IBM/S390\n# processors    : 4\n" +
	"processor 0: version = FF,  identification = 1,  machine = 8561\n\n" +
	"cpu number      : 0\ncpu MHz dynamic : 5100\ncpu MHz static  : 5200\n"

// machine is a z15 with four processors on two chips.
func machine() (cpumf.System, *counters) {
	sys := fstest.MapFS{
		"bus/event_source/devices/cpum_cf/type":               {Data: []byte("10\n")},
		"bus/event_source/devices/cpum_cf/events/DFLT_ACCESS": {Data: []byte("event=0x00f7\n")},
		"bus/event_source/devices/cpum_cf/events/DFLT_CYCLES": {Data: []byte("event=0x00fc\n")},
		"devices/system/cpu/online":                           {Data: []byte("0-2,5\n")},
	}
	for processor, chip := range map[int]int{0: 0, 1: 0, 2: 1, 5: 1} {
		topology := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", processor)
		sys[topology+"physical_package_id"] = &fstest.MapFile{Data: fmt.Append(nil, chip)}
		sys[topology+"book_id"] = &fstest.MapFile{Data: []byte("1")}
	}
	c := &counters{value: map[uint64]uint64{247: 3, 252: 7}, now: time.Unix(1000, 0)}
	return cpumf.System{
		Architecture: "s390x", Sys: sys, CPUInfo: []byte(cpuinfo), Open: c.open, Now: func() time.Time { return c.now },
	}, c
}

// counters are a fake of the kernel's.
type counters struct {
	value   map[uint64]uint64 // of each processor, by event
	now     time.Time
	kinds   map[uint32]bool
	opened  int
	refuse  error // from the third on
	failing error
}

type counter struct {
	*counters
	event uint64
}

func (c *counters) open(kind uint32, event uint64, _ int) (cpumf.Event, error) {
	if c.opened == 2 && c.refuse != nil {
		return nil, os.NewSyscallError("perf_event_open", c.refuse)
	}
	if c.kinds == nil {
		c.kinds = map[uint32]bool{}
	}
	c.kinds[kind] = true
	c.opened++
	return counter{c, event}, nil
}

func (c counter) Count() (uint64, error) { return c.value[c.event], c.failing }

func (c counter) Close() error {
	c.opened--
	return nil
}

func TestCounting(t *testing.T) {
	for name, change := range map[string]func(fstest.MapFS){
		"events of the kernel": func(fstest.MapFS) {},
		"events by machine type": func(sys fstest.MapFS) {
			delete(sys, "bus/event_source/devices/cpum_cf/events/DFLT_ACCESS")
			sys["bus/event_source/devices/cpum_cf/events/DFLT_CYCLES"].Data = []byte("nonsense")
		},
	} {
		t.Run(name, func(t *testing.T) {
			system, fake := machine()
			change(system.Sys.(fstest.MapFS))
			f, err := cpumf.Open(system)
			if err != nil {
				t.Fatal(err)
			}
			if fake.opened != 8 || len(fake.kinds) != 1 || !fake.kinds[10] {
				t.Errorf("%d counters of types %v", fake.opened, fake.kinds)
			}
			fake.now = fake.now.Add(time.Minute)
			want := cpumf.Counters{Access: 12, Busy: 28, Elapsed: time.Minute, CyclesPerSecond: 2 * 5200e6}
			if got, err := f.Read(); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
			fake.failing = syscall.EIO
			var failed *cpumf.Error
			if _, err := f.Read(); !errors.As(err, &failed) || failed.Reason != cpumf.Failed || !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			f.Close()
			if fake.opened != 0 {
				t.Errorf("%d counters stay open", fake.opened)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cpumf.System, fstest.MapFS, *counters)
		want   cpumf.Reason
	}{
		"amd64": {func(s *cpumf.System, _ fstest.MapFS, _ *counters) { s.Architecture = "amd64" }, cpumf.NotS390x},
		"guest": {func(_ *cpumf.System, sys fstest.MapFS, _ *counters) {
			delete(sys, "bus/event_source/devices/cpum_cf/type")
		}, cpumf.NotSupported},
		"unknown machine": {func(s *cpumf.System, sys fstest.MapFS, _ *counters) {
			delete(sys, "bus/event_source/devices/cpum_cf/events/DFLT_CYCLES")
			s.CPUInfo = []byte("processor 0: machine = 2964\n")
		}, cpumf.NotSupported},
		"no capability": {func(_ *cpumf.System, _ fstest.MapFS, c *counters) { c.refuse = syscall.EACCES },
			cpumf.NoCapability},
		"seccomp": {func(_ *cpumf.System, _ fstest.MapFS, c *counters) { c.refuse = syscall.EPERM },
			cpumf.NoCapability},
		"not authorized": {func(_ *cpumf.System, _ fstest.MapFS, c *counters) { c.refuse = syscall.ENOENT },
			cpumf.NotAuthorized},
		"no such event": {func(_ *cpumf.System, _ fstest.MapFS, c *counters) { c.refuse = syscall.EOPNOTSUPP },
			cpumf.NotSupported},
		"other": {func(_ *cpumf.System, _ fstest.MapFS, c *counters) { c.refuse = syscall.EMFILE }, cpumf.Failed},
		"type is no number": {func(_ *cpumf.System, sys fstest.MapFS, _ *counters) {
			sys["bus/event_source/devices/cpum_cf/type"].Data = []byte("x")
		}, cpumf.Failed},
		"too many processors": {func(_ *cpumf.System, sys fstest.MapFS, _ *counters) {
			sys["devices/system/cpu/online"].Data = []byte("0-65535")
		}, cpumf.Failed},
		"no processors": {func(_ *cpumf.System, sys fstest.MapFS, _ *counters) {
			delete(sys, "devices/system/cpu/online")
		}, cpumf.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			system, fake := machine()
			test.change(&system, system.Sys.(fstest.MapFS), fake)
			_, err := cpumf.Open(system)
			var failed *cpumf.Error
			if !errors.As(err, &failed) || failed.Reason != test.want || failed.Message == "" {
				t.Errorf("%v, want %s", err, test.want)
			}
			if fake.opened != 0 {
				t.Errorf("%d counters stay open", fake.opened)
			}
		})
	}
}

// TestUnknownClock: without the clock, or with one that cannot be, there is no capacity to compare with.
func TestUnknownClock(t *testing.T) {
	for _, text := range []string{"", "cpu MHz static : 0\n", "cpu MHz static : 1e300\n", "cpu MHz static : NaN\n"} {
		system, _ := machine()
		system.CPUInfo = []byte(text)
		f, err := cpumf.Open(system)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := f.Read(); err != nil || c.CyclesPerSecond != 0 {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
}

// TestThisSystem: the machine at hand is read, whatever it has, and every failure has a reason.
func TestThisSystem(t *testing.T) {
	system := cpumf.ThisSystem()
	if _, err := fs.Stat(system.Sys, "devices"); err != nil {
		t.Skipf("there is no /sys: %v", err)
	}
	f, err := cpumf.Open(system)
	var failed *cpumf.Error
	switch {
	case err == nil:
		defer f.Close()
		if _, err := f.Read(); err != nil {
			t.Error(err)
		}
	case !errors.As(err, &failed):
		t.Error(err)
	}
}
