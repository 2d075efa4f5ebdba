// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package estimate_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/meter"
)

func encoder(t testing.TB, engine codec.Engine, level codec.Level) codec.Encoder {
	t.Helper()
	e, err := engine.NewEncoder(level)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func predict(t testing.TB, block []byte, trial estimate.Trial) estimate.Prediction {
	t.Helper()
	p, err := estimate.Predict(block, make([]byte, len(block)), trial)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKinds holds predictions against what every engine of this build makes of every kind of data. Where a block
// shrinks by a 64th to a 16th, either verdict will do: little is won or lost.
func TestKinds(t *testing.T) {
	const size = 1 << 20
	packed := make([]byte, size)
	for _, k := range kinds() {
		block := k.generate(size)
		if len(block) != size {
			t.Fatalf("%s: %d bytes", k.name, len(block))
		}
		for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
			for _, engine := range engines.Default().ForCodec(id) {
				trial := encoder(t, engine, codec.Fast)
				got := predict(t, block, trial)
				n, err := trial.Encode(packed[:size-1], block)
				if errors.Is(err, codec.ErrDoesNotFit) {
					n, err = size, nil
				}
				if err != nil {
					t.Fatal(err)
				}
				if wrong := max(got.Size-n, n-got.Size); wrong > size*k.tolerance/100 {
					t.Errorf("%s, %s: predicted %d of %d bytes, true are %d", k.name, engine.Name(), got.Size, size, n)
				}
				if saved := size - n; saved >= size/16 && !got.Worth || saved < size/64 && got.Worth {
					t.Errorf("%s, %s: worth is %v, and %d of %d bytes are saved", k.name, engine.Name(), got.Worth, saved, size)
				}
			}
		}
	}
}

// TestSmallBlocks: they are judged by less, and still noise is told from what is not.
func TestSmallBlocks(t *testing.T) {
	trial := encoder(t, goflate.New(), codec.High)
	for _, k := range kinds() {
		if k.name == "a tenth of text in noise" {
			continue // too little to see among few slices
		}
		for _, n := range []int{1025, 1300, 3000, 5000, 20_000, 32 << 10, 65_537, 200_000} {
			block := k.generate(n)
			got := predict(t, block, trial)
			size, err := trial.Encode(make([]byte, 2*n), block)
			if err != nil {
				t.Fatal(err)
			}
			if size < n*7/8 && !got.Worth {
				t.Errorf("%s, %d bytes: called hopeless, and becomes %d", k.name, n, size)
			}
			if size >= n && got.Worth {
				t.Errorf("%s, %d bytes: called worth it, and becomes %d", k.name, n, size)
			}
			if wrong := max(got.Size-size, size-got.Size); wrong > n*45/100 {
				t.Errorf("%s, %d bytes: predicted %d, true are %d", k.name, n, got.Size, size)
			}
		}
	}
}

func TestRepetition(t *testing.T) {
	trial := encoder(t, goflate.New(), codec.Fast)
	random := generate("random", 1<<20)
	for _, test := range []struct {
		name  string
		block []byte
		worth bool
	}{
		{"noise that repeats", bytes.Repeat(random[:20_000], 52), true},
		{"noise that repeats, a small block", bytes.Repeat(random[:1000], 5), true},
		{"noise that repeats out of the sample's reach", bytes.Repeat(random[:30_000], 2), false},
		{"noise that repeats out of deflate's reach", bytes.Repeat(random[:100_000], 10), false},
	} {
		if got := predict(t, test.block, trial); got.Worth != test.worth {
			t.Errorf("%s: worth is %v", test.name, got.Worth)
		}
	}
}

func TestTooSmallToJudge(t *testing.T) {
	for _, n := range []int{0, 1, 1024} {
		got, err := estimate.Predict(make([]byte, n), nil, nil)
		if want := (estimate.Prediction{Size: n, Worth: true}); got != want || err != nil {
			t.Errorf("%d bytes: %+v, %v", n, got, err)
		}
		if estimate.Judged(n) {
			t.Errorf("%d bytes are judged", n)
		}
	}
	if !estimate.Judged(1025) {
		t.Error("1025 bytes are not judged")
	}
}

// trialFunc is a trial that does what a test wants.
type trialFunc func(dst, src []byte) (int, error)

func (f trialFunc) Encode(dst, src []byte) (int, error) { return f(dst, src) }

func TestTrialErrors(t *testing.T) {
	block, scratch := generate("random", 1<<20), make([]byte, 1<<20)
	broken := errors.New("broken")
	if _, err := estimate.Predict(block, scratch, trialFunc(func(_, _ []byte) (int, error) {
		return 0, broken
	})); !errors.Is(err, broken) {
		t.Errorf("a broken engine: %v", err)
	}
	got, err := estimate.Predict(block, scratch, trialFunc(func(_, _ []byte) (int, error) {
		return 0, codec.ErrDoesNotFit
	}))
	if err != nil || got.Worth || got.Size != len(block) {
		t.Errorf("an engine that makes nothing smaller: %+v, %v", got, err)
	}
}

// TestSampleIsSmall bounds what is compressed of a block, which is what a prediction costs.
func TestSampleIsSmall(t *testing.T) {
	const size = 1 << 20
	for name, most := range map[string]int{"xml": 4 << 10, "random": 24 << 10} {
		tried := 0
		scratch := make([]byte, size)
		_, err := estimate.Predict(generate(name, size), scratch, trialFunc(func(_, src []byte) (int, error) {
			tried += len(src)
			if name == "random" {
				return len(src), nil
			}
			return len(src) / 2, nil
		}))
		if err != nil || tried == 0 || tried > most {
			t.Errorf("%s: %d bytes are tried, %v", name, tried, err)
		}
	}
}

func FuzzPredict(f *testing.F) {
	f.Add([]byte("x"), 3, 0)
	f.Add([]byte("ab\x00"), 1000, 17)
	f.Add([]byte("0123456789abcdef"), 5000, -1)
	trial := encoder(f, goflate.New(), codec.Balanced)
	f.Fuzz(func(t *testing.T, b []byte, times, lie int) {
		if times < 1 || times > 1<<16 || len(b) == 0 || len(b)*times > 1<<18 {
			return
		}
		block := bytes.Repeat(b, times)
		got := predict(t, block, trial)
		if got.Size < 0 || got.Size > len(block) {
			t.Errorf("of %d bytes %d are predicted", len(block), got.Size)
		}
		if !got.Worth && len(b) <= 512 && times > 3 {
			t.Errorf("%d times %x is called hopeless", times, b)
		}
		// Even an engine that lies cannot make a prediction impossible.
		got = predict(t, block, trialFunc(func(_, _ []byte) (int, error) { return lie, nil }))
		if got.Size < 0 || got.Size > len(block) {
			t.Errorf("of %d bytes %d are predicted after a lie", len(block), got.Size)
		}
	})
}

// BenchmarkPredict reports what a prediction costs beside compressing the block, in the same run.
func BenchmarkPredict(b *testing.B) {
	const size = 1 << 20
	scratch := make([]byte, size)
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		for _, engine := range engines.Default().ForCodec(id) {
			for _, name := range []string{"xml", "json", "records", "csv", "source", "packed", "random"} {
				block := generate(name, size)
				trial := encoder(b, engine, codec.Fast)
				b.Run(engine.Name()+"/"+name, func(b *testing.B) {
					b.ReportAllocs()
					var cpu, whole time.Duration
					for b.Loop() {
						cpu += meter.ThreadCPU(func() {
							if _, err := estimate.Predict(block, scratch, trial); err != nil {
								b.Fatal(err)
							}
						})
						whole += meter.ThreadCPU(func() {
							if _, err := trial.Encode(scratch[:size-1], block); err != nil && !errors.Is(err, codec.ErrDoesNotFit) {
								b.Fatal(err)
							}
						})
					}
					b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "cpu-ns/op")
					b.ReportMetric(100*cpu.Seconds()/whole.Seconds(), "%-of-compressing")
				})
			}
		}
	}
}
