// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
)

// TestRecordCounter: a Writer whose blocks end anywhere makes the index that a scan of the file makes.
func TestRecordCounter(t *testing.T) {
	e, err := frame.NewEncoder(frame.EncoderOptions{
		Engines: engines.Default(), Codec: codec.Deflate, Joinable: true,
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for name, test := range recorded() {
		plain := bytes.Join(test.all, nil)
		for _, size := range []int{7, 1000, 1 << 20} {
			var file bytes.Buffer
			w, counter := cargo.NewWriter(&file, cargo.Gzip), cargo.NewRecordCounter(test.records)
			for block := range slices.Chunk(plain, size) {
				wire, _, err := e.AppendAt(nil, 0, block, false)
				if err != nil {
					t.Fatal(err)
				}
				h, err := frame.ParseHeader(wire)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(w.Append(h, wire[frame.HeaderSize:]), counter.Add(block)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			index, err := w.Close()
			if err == nil {
				index, err = counter.Index(index)
			}
			if err != nil {
				t.Fatalf("%s in blocks of %d: %v", name, size, err)
			}
			want, err := cargo.RebuildRecords(t.Context(), bytes.NewReader(file.Bytes()), engines.Default(), test.records)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(index.Append(nil), want.Append(nil)) {
				t.Errorf("%s in blocks of %d: the index is another than that of a scan", name, size)
			}
		}
	}
}

// TestRecordCounterRefuses: what is not of such records, or ends within one, gets no index.
func TestRecordCounterRefuses(t *testing.T) {
	empty, err := cargo.NewWriter(new(bytes.Buffer), cargo.Gzip).Close()
	if err != nil {
		t.Fatal(err)
	}
	c := cargo.NewRecordCounter(rdw)
	if err := c.Add([]byte{0, 1, 0, 0}); !errors.Is(err, cargo.ErrRecords) {
		t.Errorf("a false word: %v", err)
	}
	c = cargo.NewRecordCounter(rdw)
	if err := c.Add([]byte{0, 9, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Index(empty); err == nil {
		t.Error("an index of no blocks has the records of one")
	}
}

// TestSearchRecords: any record is found, and only blocks on the way are read.
func TestSearchRecords(t *testing.T) {
	var plain []byte
	const n = 3000
	for i := range n {
		plain = fmt.Appendf(plain, "%06d %s\n", 2*i, bytes.Repeat([]byte{'x'}, []int{0, 10, 900}[i%3]))
	}
	file, index := pack(t, plain, cargo.PackOptions{Form: cargo.Gzip, Records: lines, BlockSize: 512})
	c := &counting{Reader: bytes.NewReader(file)}
	r, err := cargo.NewReader(c, int64(len(file)), index, engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, want := range []int64{1, 2, 3, 7, 1000, 1001, 1002, n - 2, n - 1} {
		for _, less := range []int64{0, 1} { // it is there, or the one before it is not
			c.ranges = 0
			got, err := r.SearchRecords(t.Context(), 1, n, func(record []byte) (bool, error) {
				at, err := strconv.ParseInt(string(record[:6]), 10, 64)
				return at >= 2*want-less, err
			})
			if err != nil || got != want {
				t.Errorf("%d: %d, %v", want, got, err)
			}
			if c.ranges > 14 {
				t.Errorf("%d requests for one of %d blocks", c.ranges, index.Blocks())
			}
		}
	}
	for _, of := range [][2]int64{{5, 5}, {5, 900}} {
		got, err := r.SearchRecords(t.Context(), of[0], of[1], func([]byte) (bool, error) { return false, nil })
		if got != of[1] || err != nil {
			t.Errorf("none: %d, %v", got, err)
		}
	}
	if _, err := r.SearchRecords(t.Context(), 0, n+1, nil); !errors.Is(err, cargo.ErrNoRecord) {
		t.Error(err)
	}
	broken := errors.New("broken")
	if _, err := r.SearchRecords(t.Context(), 0, n, func([]byte) (bool, error) { return false, broken }); !errors.Is(
		err, broken,
	) {
		t.Error(err)
	}
}
