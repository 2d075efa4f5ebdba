// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/control"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/trial"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const part = 64 << 10

// noise is what nothing makes shorter.
func noise(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// sampled is text.
func sampled() *trial.Sample {
	return &trial.Sample{Bytes: calibrate.Sample(part), Files: 2, TotalBytes: 1 << 40, TotalFiles: 9}
}

// TestMeasure measures with the engines of this build.
func TestMeasure(t *testing.T) {
	var said []string
	r, err := trial.Measure(t.Context(), trial.Options{
		Sample: sampled(), Software: engines.All(), Setting: policy.Setting{Objective: policy.Bytes, Cores: 2, PeerCores: 2},
		Links: []float64{1e6, 1e9}, Measurer: &calibrate.Bench{Sample: sampled().Bytes},
		Progress: func(what string, _, _ int) { said = append(said, what) },
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 1
	for _, e := range engines.All() {
		for _, level := range codec.Levels() {
			if e.Codec() != codec.None && e.HasLevel(level) {
				rows++
			}
		}
	}
	if len(r.Rows) != rows || rows < 4 || len(said) < rows-1 {
		t.Fatalf("%d rows, want %d; progress %q", len(r.Rows), rows, said)
	}
	for i, row := range r.Rows {
		if row.Problem != "" || row.CpuNanos == 0 || len(row.ElapsedNanos) != 2 ||
			row.ElapsedNanos[0] <= row.ElapsedNanos[1] || row.CostNanos != 0 {
			t.Errorf("%v", row)
		}
		if i > 0 && (row.WireBytes < part/8 || row.WireBytes > part/2 || row.CompressNanos == 0 || row.InflateNanos == 0 ||
			row.Level == 0) {
			t.Errorf("%v", row)
		}
	}
	if none := r.Rows[0]; none.Codec != "none" || none.WireBytes != part || none.CompressNanos != 0 {
		t.Errorf("%v", none)
	}
	if s := r.Sample; s.Bytes != part || s.Files != 2 || s.BytesTotal != 1<<40 || s.FilesTotal != 9 ||
		s.HopelessBytes != 0 {
		t.Errorf("%v", s)
	}
	if len(r.Best) != 2 || r.Best[0] == 0 || r.Cores != 2 {
		t.Errorf("best %v of %d cores", r.Best, r.Cores)
	}
}

// TestNoise: what does not shrink counts as it is, and nothing is better than to send it so.
func TestNoise(t *testing.T) {
	sample := &trial.Sample{Bytes: noise(part)}
	r, err := trial.Measure(t.Context(), trial.Options{
		Sample: sample, Software: []codec.Engine{goflate.New()}, Measurer: &calibrate.Bench{Sample: sample.Bytes},
		Setting: policy.Setting{Objective: policy.Bytes}, Links: []float64{1e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.WireBytes != part {
			t.Errorf("%v", row)
		}
	}
	if r.Best[0] != 0 || r.Sample.HopelessBytes != part {
		t.Errorf("best %v, sample %v", r.Best, r.Sample)
	}
}

// measurer knows what an engine does at a level, in MB/s and bytes of a MiB.
type measurer map[string][2]float64

func (m measurer) Compress(_ context.Context, all []codec.Engine, level codec.Level) []calibrate.Figure {
	var figures []calibrate.Figure
	for _, e := range all {
		f, known := m[e.Name()+" "+level.String()]
		figure := calibrate.Figure{
			Engine: e.Name(), PlainBytes: 1 << 20, BytesPerSecond: f[0] * 1e6, CompressedBytes: int64(f[1]),
			WireBytes: int64(f[1]),
		}
		if !known {
			figure.Err = errors.New("no memory " + strings.Repeat("é", 200))
		}
		figures = append(figures, figure)
	}
	return figures
}

func (measurer) Inflate(_ context.Context, all []codec.Engine) []calibrate.Figure {
	figures := make([]calibrate.Figure, len(all))
	for i, e := range all {
		figures[i] = calibrate.Figure{Engine: e.Name(), BytesPerSecond: 800e6}
	}
	return figures
}

// engine has all levels and says of itself what it is told to.
type engine struct {
	name   string
	class  codec.Class
	lazy   bool
	levels []codec.Level
}

func (e *engine) Name() string                                  { return e.name }
func (*engine) Codec() codec.ID                                 { return codec.Deflate }
func (e *engine) Class() codec.Class                            { return e.class }
func (e *engine) HasLevel(l codec.Level) bool                   { return slices.Contains(e.levels, l) }
func (e *engine) NewEncoder(codec.Level) (codec.Encoder, error) { return e, nil }
func (e *engine) NewDecoder() (codec.Decoder, error)            { return nil, errors.New("not needed") }
func (*engine) Encode(_, src []byte) (int, error)               { return len(src) / 2, nil }
func (*engine) Close() error                                    { return nil }
func (e *engine) UsedHardware() bool                            { return !e.lazy }

func TestBest(t *testing.T) {
	software := []codec.Engine{&engine{name: "quick", class: codec.Software, levels: codec.Levels()}}
	known := measurer{"quick Fast": {500, 400_000}, "quick Balanced": {150, 300_000}, "quick High": {20, 298_000}}
	for name, test := range map[string]struct {
		setting policy.Setting
		links   []float64
		want    []string
	}{
		// The slower the network, the more effort pays; two thirds of a percent fewer bytes are not worth seven times
		// the CPU time.
		"Elapsed": {
			policy.Setting{Objective: policy.Elapsed, Cores: 1, PeerCores: 1},
			[]float64{2e6, 100e6, 10e9},
			[]string{"Balanced", "Fast", "none"},
		},
		// Over a slow one every packet wakes both sides up.
		"CPU": {policy.Setting{Objective: policy.CPU, Cores: 1}, []float64{1e6, 10e9}, []string{"Fast", "none"}},
		"Cost": {
			policy.Setting{Objective: policy.Cost, Cores: 1, Prices: policy.Prices{CPUHour: 0.03, NetworkGiB: 0.05}},
			[]float64{1e9},
			[]string{"Balanced"},
		},
	} {
		r, err := trial.Measure(t.Context(), trial.Options{
			Sample: sampled(), Software: software, Setting: test.setting, Links: test.links, Measurer: known,
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range r.Best {
			level := "none"
			if i > 0 {
				level = codec.Levels()[i-1].String()
			}
			got = append(got, level)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q: %v", name, got, test.want, r.Rows)
		}
		if name == "Cost" && r.Rows[2].CostNanos == 0 {
			t.Errorf("no cost: %v", r.Rows[2])
		}
	}
}

// TestWaiting: what is predicted of CPU time and cost depends on the link, and each link has its own figures.
func TestWaiting(t *testing.T) {
	software := []codec.Engine{&engine{name: "quick", class: codec.Software, levels: []codec.Level{codec.Fast}}}
	setting := policy.Setting{
		Objective: policy.CPU, Cores: 1, PeerCores: 1, Prices: policy.Prices{CPUHour: 3, NetworkGiB: 0.05},
	}
	links := []float64{100e3, 10e6, 1e12}
	r, err := trial.Measure(t.Context(), trial.Options{
		Sample: sampled(), Software: software, Setting: setting, Links: links,
		Measurer: measurer{"quick Fast": {500, 1 << 19}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.WaitCpuNanos) != 3 || len(r.WaitCostNanos) != 3 || r.WaitCpuNanos[0] <= r.WaitCpuNanos[1] ||
		r.WaitCpuNanos[1] <= r.WaitCpuNanos[2] || r.WaitCostNanos[0] <= r.WaitCostNanos[1] {
		t.Fatalf("waiting takes %v, costs %v", r.WaitCpuNanos, r.WaitCostNanos)
	}
	for i, effect := range []policy.Effect{{Wire: 1}, {Wire: 0.5, Compress: 1 / 500e6, Inflate: 1 / 800e6}} {
		for link, speed := range links {
			of := setting
			of.Link = speed
			want, row := of.Forecast(effect), r.Rows[i]
			cpu := float64(row.CpuNanos) + float64(r.WaitCpuNanos[link])*effect.Wire
			cost := float64(row.CostNanos) + float64(r.WaitCostNanos[link])*effect.Wire
			if math.Abs(cpu-want.CPU*1e9*(1<<30)) > 10 || math.Abs(cost-want.Money*1e9*(1<<30)) > 10 {
				t.Errorf("row %d at %g bytes a second: %g ns for %g, want %+v of a byte", i, speed, cpu, cost, want)
			}
		}
	}
}

// TestAccelerator: it is measured where it was proved, at those levels, and where it then does the work.
func TestAccelerator(t *testing.T) {
	software := []codec.Engine{&engine{name: "quick", class: codec.Software, levels: []codec.Level{codec.Fast}}}
	known := measurer{"quick Fast": {500, 400_000}, "chip Fast": {5000, 400_000}}
	proved := hardware.Verdict{
		State: hardware.Verified, Levels: []codec.Level{codec.Fast}, InflateMinSize: hardware.NeverInflate,
	}
	for _, lazy := range []bool{false, true} {
		r, err := trial.Measure(t.Context(), trial.Options{
			Sample: sampled(), Software: software, Verdict: proved, Measurer: known, Links: []float64{100e6},
			Accelerator: &engine{name: "chip", class: codec.Hardware, lazy: lazy, levels: codec.Levels()},
			Setting:     policy.Setting{Objective: policy.Elapsed, Cores: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) != 3 || r.Rows[1].Engine != "chip" || (r.Rows[1].Problem != "") != lazy || (r.Best[0] == 1) == lazy {
			t.Errorf("lazy %t: %v best %v", lazy, r.Rows, r.Best)
		}
	}
}

func TestProblems(t *testing.T) {
	o := trial.Options{
		Sample: sampled(), Links: []float64{1e6}, Measurer: measurer{},
		Software: []codec.Engine{&engine{name: "quick", class: codec.Software, levels: []codec.Level{codec.Fast}}},
	}
	r, err := trial.Measure(t.Context(), o)
	if err != nil || len(r.Rows) != 2 || !strings.Contains(r.Rows[1].Problem, "no memory") ||
		len(r.Rows[1].Problem) > 96 || r.Best[0] != 0 {
		t.Errorf("%v, %v", r, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	told := errors.New("told to stop")
	cancel(told)
	if _, err := trial.Measure(ctx, o); !errors.Is(err, told) {
		t.Errorf("got %v", err)
	}
}

// TestReportFits: the largest result that there can be fits into a termination message and comes out of it as it went
// in.
func TestReportFits(t *testing.T) {
	const most = 1 << 62
	result := &wirev1.TrialResult{
		Sample: &wirev1.TrialSample{
			Bytes: trial.MaxSample, BytesTotal: most, HopelessBytes: trial.MaxSample, Unit: wirev1.TrialUnit_TRIAL_UNIT_MESSAGE,
			Items: 16384, ItemsTotal: most,
			CutItems: 16384, UnreadableItems: 16384, Agents: 255, SilentAgents: 255, Silence: strings.Repeat("x", 192),
		},
		Accelerator: &wirev1.AcceleratorMeasurement{
			State: wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED, Reason: "LevelNotAccelerated",
			Message: strings.Repeat("x", 1024),
		},
		Cores: 4096,
	}
	for range 16 { // None, and five engines of which isa-l has one level and is not where there is an accelerator.
		row := &wirev1.TrialRow{
			Codec: "deflate", Engine: "go-zstd", Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH,
			WireBytes:     trial.MaxSample,
			CompressNanos: uint64(20 * time.Minute), InflateNanos: uint64(20 * time.Minute), CpuNanos: uint64(time.Hour),
			CostNanos: 1 << 50,
		}
		for range trial.MaxLinks {
			row.ElapsedNanos = append(row.ElapsedNanos, uint64(1000*time.Hour))
		}
		result.Rows = append(result.Rows, row)
	}
	for range trial.MaxLinks {
		result.Best = append(result.Best, 15)
		result.WaitCpuNanos, result.WaitCostNanos = append(
			result.WaitCpuNanos, uint64(time.Hour),
		), append(result.WaitCostNanos, 1<<50)
	}
	// Isa-l has one level, and another engine of deflate the others.
	for engine, levels := range map[string][]wirev1.CompressionLevel{
		"isa-l": {1}, "zlib-ng": {2, 3}, "libzstd": {1, 2, 3},
	} {
		d := &wirev1.TrialDictionary{
			Codec: "deflate", Engine: engine, Bytes: 64 << 10, TrainingItems: 8192, Items: 8192,
			PlainBytes: trial.MaxSample,
		}
		for _, level := range levels {
			d.Rows = append(d.Rows, &wirev1.TrialDictionaryRow{
				Level: level, WireBytes: trial.MaxSample, WireBytesWithout: trial.MaxSample,
				CompressNanos: uint64(20 * time.Minute), CompressNanosWithout: uint64(20 * time.Minute),
				InflateNanos: uint64(20 * time.Minute), InflateNanosWithout: uint64(20 * time.Minute),
			})
		}
		result.Dictionaries = append(result.Dictionaries, d)
	}
	report := trial.NewReport()
	report.Progress("x", 1, 2)
	if got := report.Report(); got.State != wirev1.AgentState_AGENT_STATE_MEASURING ||
		got.Detail != "measuring x, 1 of 2" || got.Trial != nil {
		t.Errorf("%v", got)
	}
	if err := report.Result(result); err != nil {
		t.Fatal(err)
	}
	report.End(nil)
	message, err := control.Termination(report.Report())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(message))
	var read wirev1.Report
	var found wirev1.TrialResult
	if err := protojson.Unmarshal(message, &read); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(read.Trial, &found); err != nil || len(found.Rows) != 16 ||
		!proto.Equal(found.Rows[3], result.Rows[3]) || len(found.Dictionaries) != 3 {
		t.Errorf("%v: %v", err, &found)
	}

	failed := trial.NewReport()
	failed.End(failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY, "nothing"))
	if got := failed.Report(); got.State != wirev1.AgentState_AGENT_STATE_FAILED ||
		got.Failure.GetMessage() != "nothing" || got.EndTime == nil {
		t.Errorf("%v", got)
	}
}
