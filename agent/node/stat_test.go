// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestNetworkCPU: a short calibration ends, on whatever machine, and none of its figures is beyond reason.
func TestNetworkCPU(t *testing.T) {
	short := calibration{
		rounds: 1, lasting: 30 * time.Millisecond, background: 10 * time.Millisecond, firstLook: 10 * time.Millisecond,
		maxBackground: 1000,
	}
	cost, err := short.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A GiB over loopback takes less than minutes of a processor, even a slow one, and a segment less than ms.
	if cost.Least < 0 || cost.Median < cost.Least || cost.Most < cost.Median || cost.Median > 5*time.Minute ||
		cost.Runs != 1 || cost.Acknowledgement < 0 || cost.Segment < 0 || cost.Byte < 0 || cost.Background < 0 ||
		max(cost.Acknowledgement, cost.Segment) > 0.1 || cost.Byte > 1e-3 {
		t.Errorf("%+v", cost)
	}
}

// TestBusy: on a node that others use nothing is measured, and it is known how much they use.
func TestBusy(t *testing.T) {
	cost, err := calibration{rounds: 1, firstLook: time.Millisecond, maxBackground: -1}.run(t.Context())
	if !errors.Is(err, ErrBusy) || cost.Runs != 0 || cost.Background < 0 {
		t.Errorf("%+v, %v", cost, err)
	}
	before := usage{busy: 2 * time.Second, all: 10 * time.Second, ownSpent: time.Second}
	after := usage{busy: 5 * time.Second, all: 20 * time.Second, ownSpent: 2 * time.Second}
	if share := after.othersShare(before); share != 0.2 {
		t.Errorf("others use %v of the time, want 0.2", share)
	}
	if share := before.othersShare(before); share != 0 {
		t.Errorf("others use %v of no time", share)
	}
}

// TestNetworkIsKept: while others use the node, or the measurement fails, the figures are those that were measured
// before on the same machine, and none on another.
func TestNetworkIsKept(t *testing.T) {
	measured := NetworkCost{
		Median: 3, Least: 2, Most: 4, Runs: 5, Acknowledgement: 1e-7, Segment: 2e-6, Byte: 1.0 / (1 << 30), Background: 0.011,
	}
	z15, z16 := Host{Kernel: "6.1", CPUModel: "z15"}, Host{Kernel: "6.1", CPUModel: "z16"}
	steps := []struct {
		host       Host
		cost       NetworkCost
		err        error
		reason     string
		background uint32
		known      bool
	}{
		{z15, NetworkCost{Background: 0.301}, ErrBusy, "NodeBusy", 31, false},
		{z15, measured, nil, "Calibrated", 2, true},
		{z15, NetworkCost{Background: 0.4}, ErrBusy, "NodeBusy", 40, true},
		{z15, NetworkCost{}, errors.New("no sockets"), "Failed", 0, true},
		{z16, NetworkCost{Background: 0.4}, ErrBusy, "NodeBusy", 40, false},
	}
	step := steps[0]
	p := NewProfiler(Options{Network: func(context.Context) (NetworkCost, error) { return step.cost, step.err }})
	for i := range steps {
		step = steps[i]
		m := &wirev1.NodeMeasurement{}
		if err := p.measureNetwork(t.Context(), m, step.host); !errors.Is(err, step.err) {
			t.Errorf("%d: %v", i, err)
		}
		n := m.GetNetwork()
		if n.GetReason() != step.reason || n.GetBackgroundPercent() != step.background || n.GetCalibrated() != step.known {
			t.Errorf("%d: %v", i, n)
		}
		figures := []uint64{
			m.GetNetworkCpuNanosPerGib(), m.GetNetworkCpuNanosPerGibLeast(), m.GetNetworkCpuNanosPerGibMost(),
			uint64(m.GetNetworkRuns()), n.GetAcknowledgementPicos(), n.GetSegmentPicos(), n.GetReceivedNanosPerGib(),
		}
		want := make([]uint64, len(figures))
		if step.known {
			want = []uint64{3, 2, 4, 5, 100_000, 2_000_000, 1_000_000_000}
		}
		if !slices.Equal(figures, want) {
			t.Errorf("%d: %v, want %v", i, figures, want)
		}
	}
}

func TestSummary(t *testing.T) {
	got := summary([]time.Duration{30, -5, 20, 90, 40})
	if want := (NetworkCost{Median: 30, Least: 0, Most: 90, Runs: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := summary(nil); got != (NetworkCost{}) {
		t.Errorf("nothing was measured: %+v", got)
	}
}

func TestFit(t *testing.T) {
	runs := [][regressors]float64{
		{1e4, 3e5, 2.4e7}, {2e5, 3e5, 2.4e7}, {1e5, 2e5, 3e8}, {2e5, 2e5, 3e8}, {2e4, 4e4, 1.2e9}, {1e4, 2e4, 1.2e9},
	}
	for name, want := range map[string][regressors]float64{
		"all":                   {2e-7, 5e-7, 1e-10},
		"no bytes":              {2e-7, 5e-7, 0},
		"acknowledgements only": {3e-7, 0, 0},
		"nothing":               {},
	} {
		var all []observation
		for i, x := range runs {
			y := want[0]*x[0] + want[1]*x[1] + want[2]*x[2]
			all = append(all, observation{x, y + []float64{1e-6, -1e-6}[i%2]})
		}
		got := fit(all)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 0.01*want[i]+1e-6/runs[0][i]*10 || got[i] < 0 {
				t.Errorf("%s: %v, want %v", name, got, want)
				break
			}
		}
	}
	// What would be negative is 0, and the others are fitted without it.
	negative := fit([]observation{{[3]float64{1, 1, 0}, 1}, {[3]float64{2, 1, 0}, 0.5}, {[3]float64{3, 1, 0}, 0}})
	if negative[0] != 0 || negative[1] != 0.5 || negative[2] != 0 {
		t.Errorf("%v", negative)
	}
	if got := fit([]observation{{[3]float64{1, 1, 1}, -1}}); got != [regressors]float64{} {
		t.Errorf("a negative cost: %v", got)
	}
	if got := fit(nil); got != [regressors]float64{} {
		t.Errorf("of no runs: %v", got)
	}
}

func TestInterruptAccounting(t *testing.T) {
	const (
		on      = wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_ON
		off     = wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_OFF
		unknown = wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_UNSPECIFIED
	)
	for name, c := range map[string]struct {
		text          string
		irq, pressure bool
		kernel        string
		want          wirev1.InterruptAccounting
	}{
		"on":               {"full avg10=0.00 avg60=0.00 avg300=0.00 total=4711\n", true, true, "6.8.0-31-generic", on},
		"compiled in":      {"full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", true, true, "6.8.0", off},
		"not compiled in":  {"", false, true, "6.18.44", off},
		"a kernel before":  {"", false, true, "5.14.0-503.el9.s390x", unknown},
		"6.1":              {"", false, true, "6.1-rc1", off},
		"no pressure":      {"", false, false, "6.18.44", unknown},
		"another format":   {"some", true, true, "6.18.44", unknown},
		"another total":    {"total=x", true, true, "6.18.44", unknown},
		"another release":  {"", false, true, "six.one", unknown},
		"an empty release": {"", false, true, "", unknown},
	} {
		if got := accountingOf(c.text, c.irq, c.pressure, c.kernel); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
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
	for line, want := range map[string][2]time.Duration{
		"cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\n": {1 + 20 + 300 + 600000 + 7000000, 87654321},
		"cpu 1 1 1 1 1 1 1 1":  {5, 8},
		"cpu0 1 1 1 1 1 1 1 1": {-1},
		"cpu 1 1 1":            {-1},
		"cpu 1 x 1 1 1 1 1 1":  {-1},
		"":                     {-1},
	} {
		busy, all, err := parseBusy(line)
		if want[0] < 0 && err == nil || want[0] >= 0 && (err != nil || busy != want[0]*tick || all != want[1]*tick) {
			t.Errorf("%q: %v, %v, %v", line, busy, all, err)
		}
	}
}
