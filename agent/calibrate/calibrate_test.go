// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/meter"
)

// engine is one under another name and of another class, with the levels it has; none: all.
type engine struct {
	codec.Engine
	name   string
	class  codec.Class
	levels []codec.Level
}

func (e engine) Name() string       { return e.name }
func (e engine) Class() codec.Class { return e.class }

func (e engine) HasLevel(level codec.Level) bool {
	return len(e.levels) == 0 || slices.Contains(e.levels, level)
}

func deflate(name string, levels ...codec.Level) codec.Engine {
	return engine{goflate.New(), name, codec.Software, levels}
}

func zstd(name string) codec.Engine { return engine{gozstd.New(), name, codec.Software, nil} }

// build is what a build with everything has, and a verified accelerator last, where it does not belong.
func build() []codec.Engine {
	return []codec.Engine{
		deflate("isa-l", codec.Fast), deflate("zlib-ng"), deflate(goflate.Name), zstd("libzstd"), zstd(gozstd.Name),
		identity.New(),
		engine{goflate.New(), "dfltcc", codec.Hardware, nil},
	}
}

// rates measures without measuring. What it does not know fails.
type rates map[string]float64

func (r rates) figures(engines []codec.Engine) []calibrate.Figure {
	var all []calibrate.Figure
	for _, e := range engines {
		f := calibrate.Figure{Engine: e.Name(), BytesPerSecond: r[e.Name()] * 1e6, PlainBytes: 1000, CompressedBytes: 250}
		if f.BytesPerSecond == 0 {
			f.Err = errors.New("it does not work")
		}
		all = append(all, f)
	}
	return all
}

func (r rates) Compress(_ context.Context, engines []codec.Engine, _ codec.Level) []calibrate.Figure {
	return r.figures(engines)
}

func (r rates) Inflate(_ context.Context, engines []codec.Engine) []calibrate.Figure {
	return r.figures(engines)
}

func TestRun(t *testing.T) {
	for _, test := range []struct {
		name    string
		options calibrate.Options
		encode  string
		decode  string
		said    string
	}{
		{
			"a sender",
			calibrate.Options{
				Level: codec.Fast, Measurer: rates{"isa-l": 100, "zlib-ng": 150, "go": 90, "libzstd": 70, "go-zstd": 100},
			},
			"dfltcc zlib-ng isa-l go go-zstd libzstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"deflate: zlib-ng (measured: isa-l 100 MB/s at ratio 4.00, zlib-ng 150 MB/s at ratio 4.00, go 90 MB/s at ratio " +
				"4.00); zstd: go-zstd (measured: libzstd 70 MB/s at ratio 4.00, go-zstd 100 MB/s at ratio 4.00)",
		},
		{
			"one codec of a sender",
			calibrate.Options{Level: codec.Fast, Codecs: []codec.ID{codec.Zstd}, Measurer: rates{"libzstd": 70, "go-zstd": 100}},
			"dfltcc isa-l zlib-ng go go-zstd libzstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"zstd: go-zstd (measured: libzstd 70 MB/s at ratio 4.00, go-zstd 100 MB/s at ratio 4.00)",
		},
		{
			"engines without the level are out",
			calibrate.Options{
				Level: codec.High, Codecs: []codec.ID{codec.Deflate}, Measurer: rates{"isa-l": 1000, "zlib-ng": 100, "go": 90},
			},
			"dfltcc zlib-ng go libzstd go-zstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"deflate: zlib-ng (measured: zlib-ng 100 MB/s at ratio 4.00, go 90 MB/s at ratio 4.00)",
		},
		{
			"what fails comes last",
			calibrate.Options{Level: codec.Fast, Codecs: []codec.ID{codec.Deflate}, Measurer: rates{"go": 90}},
			"dfltcc go isa-l zlib-ng libzstd go-zstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"deflate: go (measured: isa-l failed: it does not work, zlib-ng failed: it does not work, go 90 MB/s at ratio 4.00)",
		},
		{
			"nothing can be measured",
			calibrate.Options{Level: codec.Fast, Codecs: []codec.ID{codec.Deflate}, Measurer: rates{}},
			"dfltcc isa-l zlib-ng go libzstd go-zstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"deflate: isa-l (could not be measured: isa-l failed: it does not work, zlib-ng failed: it does not work, go " +
				"failed: it does not work)",
		},
		{
			"a receiver",
			calibrate.Options{
				Inflate: true, Measurer: rates{"isa-l": 100, "zlib-ng": 50, "go": 111, "libzstd": 70, "go-zstd": 70},
			},
			"dfltcc isa-l zlib-ng go libzstd go-zstd none", "dfltcc go isa-l zlib-ng libzstd go-zstd none", "",
		},
		{
			"the policy names engines",
			calibrate.Options{Level: codec.Fast, Prefer: []string{"go", "libzstd", "go", "isa-l", "lzip"}},
			"dfltcc go isa-l libzstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"deflate: go (named by the policy); zstd: libzstd (named by the policy)",
		},
		{
			"the policy names none that has the level",
			calibrate.Options{Level: codec.High, Prefer: []string{"isa-l"}, Codecs: []codec.ID{codec.Deflate}},
			"dfltcc go libzstd go-zstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"deflate: go (none that the policy names is here)",
		},
		{
			"the policy names engines of one codec",
			calibrate.Options{Level: codec.Fast, Prefer: []string{"zlib-ng"}, Measurer: rates{"libzstd": 100, "go-zstd": 70}},
			"dfltcc zlib-ng libzstd go-zstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"deflate: zlib-ng (named by the policy); zstd: libzstd (measured: libzstd 100 MB/s at ratio 4.00, go-zstd 70 MB/s " +
				"at ratio 4.00)",
		},
		{
			"the policy names engines of no codec",
			calibrate.Options{
				Level: codec.Fast, Prefer: []string{"lzip"}, Codecs: []codec.ID{codec.Zstd}, Measurer: rates{"go-zstd": 70},
			},
			"dfltcc isa-l zlib-ng go go-zstd libzstd none", "dfltcc isa-l zlib-ng go libzstd go-zstd none",
			"zstd: go-zstd (measured: libzstd failed: it does not work, go-zstd 70 MB/s at ratio 4.00)",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.Engines = build()
			got := calibrate.Run(t.Context(), test.options)
			if names := strings.Join(got.Encode.Names(), " "); names != test.encode {
				t.Errorf("to compress: %s", names)
			}
			if names := strings.Join(got.Decode.Names(), " "); names != test.decode {
				t.Errorf("to inflate: %s", names)
			}
			if said := calibrate.Describe(got.Compress); said != test.said {
				t.Errorf("said: %s", said)
			}
		})
	}
}

// TestNothingToChoose: without a second engine nothing is measured, and no engine at all is no failure either.
func TestNothingToChoose(t *testing.T) {
	got := calibrate.Run(
		t.Context(),
		calibrate.Options{Engines: []codec.Engine{goflate.New(), identity.New()}, Level: codec.Fast, Inflate: true},
	)
	want := "deflate: go (the only one)"
	if said, inflate := calibrate.Describe(got.Compress), calibrate.Describe(got.Inflate); said != want ||
		inflate != want {
		t.Errorf("said %q and %q", said, inflate)
	}
	got = calibrate.Run(
		t.Context(), calibrate.Options{Engines: []codec.Engine{deflate("isa-l", codec.Fast)}, Level: codec.High},
	)
	if said := calibrate.Describe(got.Compress); said != "deflate: no engine" {
		t.Errorf("said %q", said)
	}
	if names := got.Encode.Names(); len(names) != 0 {
		t.Errorf("to compress: %q", names)
	}
	if got := calibrate.Run(t.Context(), calibrate.Options{}); len(got.Encode.Names()) != 0 ||
		calibrate.Describe(got.Compress) != "" {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestNamedAndAbsent: an engine that the policy names and this build lacks keeps its codec from being measured, and no
// other.
func TestNamedAndAbsent(t *testing.T) {
	engines := []codec.Engine{deflate("twin"), goflate.New(), zstd("twin-zstd"), gozstd.New()}
	got := calibrate.Run(t.Context(), calibrate.Options{
		Engines: engines, Level: codec.Fast, Prefer: []string{"libzstd"},
		Measurer: rates{"twin": 200, "go": 100, "twin-zstd": 200, "go-zstd": 100},
	})
	want := "deflate: twin (measured: twin 200 MB/s at ratio 4.00, go 100 MB/s at ratio 4.00); zstd: go-zstd (none that " +
		"the policy names is here)"
	if said := calibrate.Describe(got.Compress); said != want {
		t.Errorf("said %q", said)
	}
	got = calibrate.Run(
		t.Context(),
		calibrate.Options{Engines: engines, Level: codec.Fast, Prefer: []string{"libzstd"}, Budget: time.Millisecond},
	)
	if c := got.Compress[0]; c.Why != calibrate.Measured || len(c.Figures) != 2 || c.Figures[0].PlainBytes == 0 {
		t.Errorf("without a measurer of its own: %+v", c)
	}
}

// TestRealEngines measures two real engines within the budget.
func TestRealEngines(t *testing.T) {
	var got calibrate.Result
	cpu := meter.ThreadCPU(func() {
		got = calibrate.Run(t.Context(), calibrate.Options{
			Engines: []codec.Engine{goflate.New(), deflate("twin"), gozstd.New()}, Level: codec.Fast, Inflate: true,
			Budget: 20 * time.Millisecond,
		})
	})
	// A machine may be slow, but not without bound: two engines, a quarter of a MiB or two each, in either direction.
	if cpu > 10*time.Second {
		t.Errorf("it took %v", cpu)
	}
	for _, choices := range [][]calibrate.Choice{got.Compress, got.Inflate} {
		if len(choices) != 2 || choices[0].Why != calibrate.Measured || choices[1].Why != calibrate.Only {
			t.Fatalf("choices: %+v", choices)
		}
		for _, f := range choices[0].Figures {
			if f.Err != nil || f.BytesPerSecond < 1e5 || f.PlainBytes != 256<<10 {
				t.Errorf("figure: %+v", f)
			}
		}
	}
	if f := got.Compress[0].Figures; f[0].CompressedBytes != f[1].CompressedBytes || f[0].Ratio() < 2 || f[0].Ratio() > 5 {
		t.Errorf("figures: %v", f)
	}
}

// broken is an engine of which one part does not work.
type broken struct {
	codec.Engine
	encodes, inflates error
	damages           bool
}

func (broken) Name() string { return "broken" }

func (b broken) NewEncoder(level codec.Level) (codec.Encoder, error) {
	if b.encodes != nil {
		return nil, b.encodes
	}
	return b.Engine.NewEncoder(level)
}

func (b broken) NewDecoder() (codec.Decoder, error) {
	if b.inflates != nil {
		return nil, b.inflates
	}
	d, err := b.Engine.NewDecoder()
	return damaging{d, b.damages}, err
}

type damaging struct {
	codec.Decoder
	damages bool
}

func (d damaging) Decode(dst, src []byte) (int, error) {
	n, err := d.Decoder.Decode(dst, src)
	if d.damages && n > 0 {
		dst[n-1] ^= 1
	}
	return n, err
}

func TestBenchSeesWhatDoesNotWork(t *testing.T) {
	bench := calibrate.Bench{Sample: calibrate.Sample(1<<20 + 1000), Budget: time.Millisecond}
	memory := errors.New("no memory")
	good := goflate.New()
	if got := bench.Compress(
		t.Context(), []codec.Engine{broken{good, memory, nil, false}, good}, codec.Fast,
	); !errors.Is(got[0].Err, memory) || got[1].Err != nil {
		t.Errorf("no encoder: %v", got)
	}
	if got := bench.Inflate(
		t.Context(), []codec.Engine{broken{good, memory, memory, false}, good},
	); !errors.Is(got[0].Err, memory) || got[1].Err != nil {
		t.Errorf("no decoder: %v", got)
	}
	if got := bench.Inflate(t.Context(), []codec.Engine{good, broken{good, nil, nil, true}}); got[0].Err != nil ||
		got[1].Err == nil || !strings.Contains(got[1].Err.Error(), "other bytes") {
		t.Errorf("wrong bytes: %v", got)
	}
	if got := bench.Inflate(
		t.Context(), []codec.Engine{broken{good, memory, nil, false}},
	); !errors.Is(got[0].Err, memory) {
		t.Errorf("nothing to inflate: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := bench.Compress(ctx, []codec.Engine{good}, codec.Fast); !errors.Is(got[0].Err, context.Canceled) {
		t.Errorf("told to stop: %v", got)
	}
}

func TestSampleIsTheSameEverywhere(t *testing.T) {
	a, b := calibrate.Sample(100_000), calibrate.Sample(100_000)
	if len(a) != 100_000 || !bytes.Equal(a, b) {
		t.Error("two samples differ")
	}
	if !bytes.Equal(a[:5000], calibrate.Sample(5000)) {
		t.Error("a shorter sample is not the beginning of a longer one")
	}
}

// counting counts what its encoders encode.
type counting struct {
	codec.Engine
	blocks *int
}

func (c counting) NewEncoder(level codec.Level) (codec.Encoder, error) {
	e, err := c.Engine.NewEncoder(level)
	return countingEncoder{e, c.blocks}, err
}

type countingEncoder struct {
	codec.Encoder
	blocks *int
}

func (c countingEncoder) Encode(dst, src []byte) (int, error) {
	*c.blocks++
	return c.Encoder.Encode(dst, src)
}

// TestRounds: no figure that engines are compared by is of a first round, however little time there is.
func TestRounds(t *testing.T) {
	var blocks int
	bench := calibrate.Bench{Sample: calibrate.Sample(10_000), Budget: time.Nanosecond, Rounds: 2}
	if got := bench.Compress(
		t.Context(), []codec.Engine{counting{goflate.New(), &blocks}}, codec.Fast,
	); got[0].Err != nil || blocks != 2 {
		t.Errorf("%d rounds of a block: %v", blocks, got)
	}
	blocks = 0
	calibrate.Ways(
		t.Context(),
		calibrate.Options{
			Engines: []codec.Engine{counting{goflate.New(), &blocks}}, Level: codec.Fast, Budget: time.Nanosecond,
		},
	)
	if blocks != 2 {
		t.Errorf("%d rounds of the sample's block", blocks)
	}
}
