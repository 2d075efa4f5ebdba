// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc_test

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/lighterage/lighterage/test/dfltcc"
)

// roundTrip compresses on the model, and expands with Go's library and on the
// model.
func roundTrip(t *testing.T, f dfltcc.Format, level int, src []byte, p pieces) {
	t.Helper()
	compressed, expanded := dfltcc.Calls(dfltcc.Compress), dfltcc.Calls(dfltcc.Expand)
	packed, err := pack(t, f, level, false, src, p)
	if err != nil {
		t.Fatalf("compress %d bytes: %v", len(src), err)
	}
	if len(src) > 0 && dfltcc.Calls(dfltcc.Compress) == compressed {
		t.Fatal("compressed without the model")
	}
	out, err := goUnpack(f, packed)
	if err != nil || !bytes.Equal(out, src) {
		t.Fatalf("%d bytes, compressed to %d, expand in Go to %d, %v", len(src), len(packed), len(out), err)
	}
	out, err = unpack(t, f, packed, len(src), p)
	if err != nil || !bytes.Equal(out, src) {
		t.Fatalf("%d bytes, compressed to %d, expand on the model to %d, %v", len(src), len(packed), len(out), err)
	}
	if dfltcc.Calls(dfltcc.Expand) == expanded {
		t.Fatal("expanded without the model")
	}
}

// TestPresence is the proof in short: the instruction makes other bytes than
// software.
func TestPresence(t *testing.T) {
	model(t, dfltcc.DefaultStep, "")
	src := plain(100000)
	hardware, err := pack(t, dfltcc.Raw, 4, false, src, whole)
	if err != nil {
		t.Fatal(err)
	}
	if dfltcc.Calls(dfltcc.Query) == 0 || dfltcc.Calls(dfltcc.Compress) == 0 {
		t.Fatal("the model was not called")
	}
	calls := dfltcc.Calls(dfltcc.Compress)
	software, err := pack(t, dfltcc.Raw, 4, true, src, whole)
	if err != nil {
		t.Fatal(err)
	}
	if dfltcc.Calls(dfltcc.Compress) != calls {
		t.Error("a reproducible stream took the model")
	}
	if bytes.Equal(hardware, software) {
		t.Error("the model and the software make the same bytes")
	}
}

// TestSizes goes through sizes, formats and steps; a stream in one piece.
func TestSizes(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 100, 257, 258, 259, 4095, 4096, 4097, 32767, 32768, 32769, 65536, 100001}
	for _, step := range []int{1, 100, 4096, dfltcc.DefaultStep} {
		for name, f := range formats {
			t.Run(fmt.Sprintf("step%d/%s", step, name), func(t *testing.T) {
				model(t, step, "")
				for _, size := range sizes {
					if step == 1 && size > 10000 && name != "zlib" {
						continue
					}
					roundTrip(t, f, 1, plain(size), whole)
				}
				if step == 100 && (dfltcc.Partial(dfltcc.Compress) == 0 || dfltcc.Partial(dfltcc.Expand) == 0) {
					t.Error("no call ended early")
				}
			})
		}
	}
}

// TestEmpty needs no instruction, and the library makes none.
func TestEmpty(t *testing.T) {
	for name, f := range formats {
		packed, err := pack(t, f, 1, false, nil, whole)
		if err != nil {
			t.Fatal(err)
		}
		for _, unpacked := range []func() ([]byte, error){
			func() ([]byte, error) { return goUnpack(f, packed) },
			func() ([]byte, error) { return unpack(t, f, packed, 0, whole) },
		} {
			if out, err := unpacked(); err != nil || len(out) != 0 {
				t.Errorf("%s: %d bytes, %v", name, len(out), err)
			}
		}
	}
}

// TestPieces cuts what streams are given and the space they get, with all ways to
// flush that the library knows, at all levels.
func TestPieces(t *testing.T) {
	flushes := map[string][]dfltcc.Flush{
		"none":  {dfltcc.NoFlush},
		"sync":  {dfltcc.SyncFlush},
		"full":  {dfltcc.FullFlush},
		"mixed": {dfltcc.NoFlush, dfltcc.SyncFlush, dfltcc.NoFlush, dfltcc.NoFlush, dfltcc.FullFlush},
	}
	level := 0
	for name, f := range flushes {
		for _, step := range []int{3, 1000, dfltcc.DefaultStep} {
			for _, in := range []int{1, 5000, 1 << 30} {
				for _, out := range []int{1, 20, 300, 1 << 30} {
					if out < 20 && name != "none" {
						continue // less than a flush itself takes; zlib's rule is to give more
					}
					size := 60000
					if in < 100 || out < 100 || step < 10 {
						size = 3000
					}
					if in == 1 && name != "none" {
						size = 400 // a block for each byte
					}
					level = level%9 + 1
					t.Run(fmt.Sprintf("%s/step%d/in%d/out%d/level%d", name, step, in, out, level), func(t *testing.T) {
						model(t, step, "")
						roundTrip(t, dfltcc.Zlib, level, plain(size), pieces{in: in, out: out, flushes: f})
					})
				}
			}
		}
	}
}

// TestBlocksOfOthers expands what the model does not write: stored blocks, blocks
// that begin within a byte, tables with runs of zeros.
func TestBlocksOfOthers(t *testing.T) {
	for _, step := range []int{1, 50, dfltcc.DefaultStep} {
		for _, level := range []int{-2, 0, 1, 6, 9} {
			for _, in := range []int{1, 13, 1 << 30} {
				model(t, step, "")
				size := 150000
				if step < 10 || in < 100 {
					size = 5000
				}
				src := plain(size)
				out, err := unpack(t, dfltcc.Raw, goPack(t, level, src), size, pieces{in: in, out: 1 << 30})
				if err != nil || !bytes.Equal(out, src) {
					t.Errorf("step %d, level %d, pieces of %d: %d bytes, %v", step, level, in, len(out), err)
				}
			}
		}
	}
}

// TestLong goes beyond all buffers and blocks.
func TestLong(t *testing.T) {
	size := 64 << 20
	if testing.Short() {
		size = 5 << 20
	}
	model(t, dfltcc.DefaultStep, "")
	roundTrip(t, dfltcc.Gzip, 1, plain(size), pieces{in: 1 << 20, out: 1 << 20, flushes: []dfltcc.Flush{dfltcc.NoFlush}})
}

// TestGoroutines has threads come and go and the collector run while the model
// works in the handler of a signal, on the stacks that Go has for those.
func TestGoroutines(t *testing.T) {
	model(t, 2000, "")
	stop := make(chan struct{})
	var collector, workers sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for i := range 16 {
		workers.Go(func() {
			for round := range 4 {
				src := plain(20000 + 1000*i + round)
				packed, err := pack(t, dfltcc.Zlib, 1+i%9, false, src, whole)
				if err != nil {
					t.Error(err)
					return
				}
				out, err := unpack(t, dfltcc.Zlib, packed, len(src), whole)
				if err != nil || !bytes.Equal(out, src) {
					t.Errorf("goroutine %d: %d bytes of %d, %v", i, len(out), len(src), err)
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	collector.Wait()
}
