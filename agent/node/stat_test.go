// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestNetworkCPU(t *testing.T) {
	cost, err := networkCPU(t.Context(), 3, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	// A GiB over loopback takes less than minutes of a processor, even a slow one.
	if cost.Least < 0 || cost.Median < cost.Least || cost.Most < cost.Median || cost.Median > 5*time.Minute ||
		cost.Runs != 3 {
		t.Errorf("a GiB costs %+v", cost)
	}
}

func TestSummary(t *testing.T) {
	got := summary([]time.Duration{30, -5, 20, 90, 40}, 1<<29)
	if want := (NetworkCost{Median: 60, Least: 0, Most: 180, Runs: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestModelOf(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) CPU\nmodel name\t: another\n": "Intel(R) Xeon(R) CPU",
		"vendor_id       : IBM/S390\n# processors    : 4\nprocessor 0: version = FF,  identification = 0A2B3C,  machine = " +
			"8561\nprocessor 1: version = FF,  identification = 1A2B3C,  machine = 8561\n": "IBM/S390 machine 8561",
		"processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n": "implementer 0x41 part 0xd0c",
		"":                      "",
		"no colon\nmodel name:": "",
		"model name : " + strings.Repeat("é", 200):       strings.Repeat("é", 64),
		"model name\t: \xff\x00evil\x1b[31m\nmodel: x\n": "evil[31m",
	} {
		if got := modelOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	host := ReadHost()
	if host.Kernel == "" || len(host.CPUModel) > maxModel {
		t.Errorf("%+v", host)
	}
}

func FuzzModelOf(f *testing.F) {
	f.Add("model name\t: x\n")
	f.Add("vendor_id : IBM/S390\nprocessor 0: version = FF,  machine = 8561\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := modelOf(text); len(got) > maxModel || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	})
}

func TestParseBusy(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\n": (1 + 20 + 300 + 600000 + 7000000) * 10 * time.Millisecond,
		"cpu 1 1 1 1 1 1 1 1":  50 * time.Millisecond,
		"cpu0 1 1 1 1 1 1 1 1": -1,
		"cpu 1 1 1":            -1,
		"cpu 1 x 1 1 1 1 1 1":  -1,
		"":                     -1,
	} {
		got, err := parseBusy(line)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %v, %v", line, got, err)
		}
	}
}
