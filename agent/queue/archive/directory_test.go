// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lighterage/lighterage/agent/cargo"
)

func TestNames(t *testing.T) {
	life := Life(time.Date(2026, 11, 21, 20, 25, 12, 123456789, time.FixedZone("", 3600)))
	if want := "20261121T192512.123456789Z"; life != want {
		t.Errorf("a life is called %s", life)
	}
	queue, of, ok := parseName(Name("my-orders", life))
	if queue != "my-orders" || of != life || !ok {
		t.Errorf("%q %q %v", queue, of, ok)
	}
	for _, name := range []string{
		"", "orders", "orders.", "." + life, "orders." + life + "0", "orders.20261121T192512Z",
		"orders.20261321T192512.123456789Z",
	} {
		if _, _, ok := parseName(name); ok {
			t.Errorf("%q is a name", name)
		}
	}
	r := Range{First: 7, Last: 1 << 63}
	if got, ok := parseRange(r.name()); !ok || got != r {
		t.Errorf("%s is %+v", r.name(), got)
	}
	for _, r := range []Range{
		{First: 7, Last: 9, form: cargo.Gzip, tag: 0xff}, {First: 1, Last: 1 << 63, form: cargo.Zstd, tag: 1<<32 - 1},
	} {
		for _, name := range []string{r.name(), r.indexName()} {
			if got, ok := parseRange(name); !ok || got != r {
				t.Errorf("%s is %+v", name, got)
			}
		}
	}
	const sequences = "00000000000000000007-00000000000000000008"
	for _, name := range []string{
		sequences + ".jsonl.gz", sequences + "-000000ff.jsonl", sequences + "-000000fF.jsonl.gz",
		sequences + "-00000000ff.jsonl.gz", sequences + "-ff.jsonl.zst", sequences + "-000000ff.jsonl.gz.lgci",
		"." + sequences + "-000000ff.jsonl.gz",
		"", "index", "a.range", "00000000000000000000-00000000000000000007.range",
		"00000000000000000008-00000000000000000007.range", "8-9.range",
	} {
		if _, ok := parseRange(name); ok {
			t.Errorf("%q is a name", name)
		}
	}
}

func TestChain(t *testing.T) {
	// Two members wrote at once.
	ranges := []Range{
		{First: 5, Last: 100},
		{First: 5, Last: 150},
		{First: 101, Last: 120},
		{First: 121, Last: 200},
		{First: 300, Last: 400},
	}
	for after, want := range map[uint64][]uint64{
		3: nil, 4: {150, 200}, 99: {150, 200}, 120: {200}, 150: {200}, 200: nil, 299: {400}, 400: nil, math.MaxUint64: nil,
	} {
		way, end := Chain(ranges, after)
		var got []uint64
		for _, r := range way {
			got = append(got, r.Last)
		}
		if last := max(after, append([]uint64{0}, want...)[len(want)]); !slices.Equal(got, want) || end != last {
			t.Errorf("after %d come %v and it ends at %d", after, got, end)
		}
	}
}

// A directory with as many files as some years make is gone through once.
func TestLongChain(t *testing.T) {
	var ranges []Range
	for i := range uint64(100_000) {
		ranges = append(ranges, Range{First: 3*i + 1, Last: 3*i + 3})
	}
	if way, end := Chain(ranges, 0); len(way) != len(ranges) || end != 300_000 {
		t.Errorf("%d ranges to %d", len(way), end)
	}
}

func TestLatest(t *testing.T) {
	below := t.TempDir()
	lives := []string{Life(time.Unix(1, 0)), Life(time.Unix(3, 0)), Life(time.Unix(2, 0)), Life(time.Unix(4, 0))}
	for _, life := range lives {
		d, err := Make(below, Name("orders", life))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{Name("orders-2", Life(time.Unix(9, 0))), "orders.zzz"} {
		if err := os.Mkdir(filepath.Join(below, other), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// That of the queue itself is not the one to restore.
	if got, err := Latest(below, "orders", lives[3]); got != Name("orders", lives[1]) || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Latest(below, "invoices", ""); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := Open(below, "orders"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := Open(below, "../"+filepath.Base(below)); err == nil {
		t.Error("a path leads out of the claim")
	}
	if d, err := Open(below, "/"+Name("orders", lives[0])+"/"); err != nil || d.Name() != Name("orders", lives[0]) {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestIndex(t *testing.T) {
	x := &Index{
		Version: linesVersion, Queue: "orders", Life: testHead.Life, From: 1, To: 20, Below: 4,
		Left: runs([]uint64{5, 6, 7, 9, 21}, 20),
	}
	if diff := cmp.Diff([]Run{{5, 3}, {9, 1}}, x.Left); diff != "" {
		t.Error(diff)
	}
	for sequence := uint64(1); sequence < 25; sequence++ {
		want := sequence >= 4 && (sequence < 5 || sequence > 7) && sequence != 9
		if x.Remains(sequence) != want {
			t.Errorf("message %d remains: %v", sequence, !want)
		}
	}
	d, err := Make(t.TempDir(), Name("orders", testHead.Life))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	e, decoder := testEncoders(t), testDecoder(t)
	if _, err := d.ReadIndex(decoder); !absent(err) {
		t.Errorf("without an index: %v", err)
	}
	for range 2 { // The second takes the place of the first.
		x.Bytes++
		if err := d.writeIndex(x, e, "orders-0"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.ReadIndex(decoder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x, got); diff != "" {
		t.Error(diff)
	}
	other := *x
	other.Queue = "invoices"
	if err := d.writeIndex(&other, e, "orders-0"); err != nil {
		t.Fatal(err)
	}
	var wrong *FileError
	if _, err := d.ReadIndex(decoder); !errors.Is(err, ErrOther) || !errors.As(err, &wrong) {
		t.Error(err)
	}
	// As many runs as there may be fit.
	var holes []uint64
	for i := range uint64(maxRuns + 5) {
		holes = append(holes, 1<<62+2*i)
	}
	x.Left = runs(holes, 1<<63)
	if len(x.Left) != maxRuns {
		t.Errorf("%d runs", len(x.Left))
	}
	x.From, x.To = 1, 1<<63
	if err := d.writeIndex(x, e, "orders-0"); err != nil {
		t.Error(err)
	}
}
