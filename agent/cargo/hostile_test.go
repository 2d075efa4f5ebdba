// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
)

// check reads a file in every way there is, and returns the first error.
func check(t *testing.T, file []byte, index *cargo.Index, inflate bool) error {
	t.Helper()
	r, err := cargo.NewReader(bytes.NewReader(file), int64(len(file)), index, engines.Default())
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Scrub(t.Context(), inflate)
}

// TestTruncated: a file that ends at any byte before its end is found out, whether its length is looked up before or
// after it was truncated; so is one that is longer.
func TestTruncated(t *testing.T) {
	for form := range forms {
		blocks := travel(t, form, pieces(1, 40, 300, 0, 900)...)
		file, index := rest(t, form, blocks)
		whole := make(map[int]bool) // frames are whole files of their own
		if form == cargo.Zstd {
			for n := range blocks {
				_, part := rest(t, form, blocks[:n])
				if part.Size() > 0 {
					whole[int(part.StoredSize())] = true
				}
			}
		}
		for n := range file {
			if err := check(t, file[:n], index, false); !errors.Is(err, cargo.ErrIndex) {
				t.Fatalf("%v, %d bytes of %d: %v", form, n, len(file), err)
			}
			r, err := cargo.NewReader(bytes.NewReader(file[:n]), int64(len(file)), index, engines.Default())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Scrub(t.Context(), false); !errors.Is(err, cargo.ErrCorrupt) {
				t.Fatalf("%v, cut to %d bytes of %d: %v", form, n, len(file), err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			_, err = cargo.Rebuild(t.Context(), bytes.NewReader(file[:n]), engines.Default())
			if whole[n] != (err == nil) || err != nil && !errors.Is(err, cargo.ErrForeign) {
				t.Fatalf("%v, an index of %d bytes of %d: %v", form, n, len(file), err)
			}
		}
		for _, tail := range [][]byte{{0}, []byte("x"), make([]byte, 8), file[:20], []byte(codec.JoinEnd)} {
			longer := append(bytes.Clone(file), tail...)
			if err := check(t, longer, index, false); !errors.Is(err, cargo.ErrIndex) {
				t.Errorf("%v, %d bytes more: %v", form, len(tail), err)
			}
			if _, err := cargo.Rebuild(t.Context(), bytes.NewReader(longer), engines.Default()); !errors.Is(
				err, cargo.ErrForeign) {
				t.Errorf("%v, an index of %d bytes more: %v", form, len(tail), err)
			}
		}
	}
}

// TestDamage: any bit of a file that is not as it was written is found out without inflating, and no part of a block
// that is damaged is returned.
func TestDamage(t *testing.T) {
	for form := range forms {
		short := pieces(1, 40, 300, 0, 900)
		plain := bytes.Join(short, nil)
		file, index := rest(t, form, travel(t, form, short...))
		got := make([]byte, len(plain))
		for bit := range 8 * len(file) {
			flipped := bytes.Clone(file)
			flipped[bit/8] ^= 1 << (bit % 8)
			if err := check(t, flipped, index, false); !errors.Is(err, cargo.ErrCorrupt) {
				t.Fatalf("%v, bit %d: %v", form, bit, err)
			}
			rebuilt, err := cargo.Rebuild(t.Context(), bytes.NewReader(flipped), engines.Default())
			same := err == nil && bytes.Equal(rebuilt.Append(nil), index.Append(nil))
			if same || err != nil && !errors.Is(err, cargo.ErrForeign) {
				t.Fatalf("%v, an index after bit %d: %v", form, bit, err)
			}
			if bit%37 > 0 {
				continue
			}
			r := reader(t, flipped, index)
			for at := range plain {
				if n, err := r.ReadAt(got[:1], int64(at)); err == nil && (n != 1 || got[0] != plain[at]) {
					t.Fatalf("%v, bit %d: byte %d is another one", form, bit, at)
				}
			}
		}
	}
}

// TestLyingIndex: an index that is valid and not the file's is found out.
func TestLyingIndex(t *testing.T) {
	const header, entry = 32, 24
	for form := range forms {
		pieces := files["Small"]
		blocks := travel(t, form, pieces...)
		file, index := rest(t, form, blocks)
		count := index.Blocks()
		swap := func(b []byte, i, j int) {
			one, other := b[header+i*entry:][:entry], b[header+j*entry:][:entry]
			kept := bytes.Clone(one)
			copy(one, other)
			copy(other, kept)
		}
		add := func(b []byte, at, n int) {
			binary.BigEndian.PutUint32(b[at:], uint32(int(binary.BigEndian.Uint32(b[at:]))+n))
		}
		add64 := func(b []byte, at, n int) {
			binary.BigEndian.PutUint64(b[at:], uint64(int(binary.BigEndian.Uint64(b[at:]))+n))
		}
		last := header + (count-1)*entry
		for name, change := range map[string]func([]byte){
			"blocks in another order": func(b []byte) { swap(b, count-1, count-2) },
			"another checksum":        func(b []byte) { b[last+15]++ },
			"another of what rests":   func(b []byte) { b[last+23]++ },
			"a block less":            func(b []byte) { add64(b, 8, -1) },
			"a block more":            func(b []byte) { add64(b, 8, 1) },
			"2^64-1 blocks":           func(b []byte) { binary.BigEndian.PutUint64(b[8:], 1<<64-1) },
			"a longer file":           func(b []byte) { add64(b, 16, 1) },
			"a longer file at rest":   func(b []byte) { add64(b, 24, 1) },
			"a longer plain block":    func(b []byte) { add(b, last, 1); add64(b, 16, 1) },
			"a shorter plain block":   func(b []byte) { add(b, last, -1); add64(b, 16, -1) },
			"other borders":           func(b []byte) { add(b, last+4, -1); add(b, last-entry+4, 1) },
			"plain borders":           func(b []byte) { add(b, last, -1); add(b, last-entry, 1) },
			"no plain bytes": func(b []byte) {
				add64(b, 16, -int(binary.BigEndian.Uint32(b[last:])))
				binary.BigEndian.PutUint32(b[last:], 0)
			},
			"too many plain bytes": func(b []byte) { binary.BigEndian.PutUint32(b[last:], 4<<20+1) },
			"too many that rest":   func(b []byte) { binary.BigEndian.PutUint32(b[last+4:], 1<<32-1) },
			"another form":         func(b []byte) { b[5] ^= 3 },
			"no form":              func(b []byte) { b[5] = 9 },
			"another version":      func(b []byte) { b[4] = 2 },
			"what is kept free":    func(b []byte) { b[6] = 1 },
			"no magic":             func(b []byte) { b[0]++ },
		} {
			t.Run(fmt.Sprintf("%v/%s", form, name), func(t *testing.T) {
				lie, err := cargo.ParseIndex(reindexed(index, change))
				if err == nil {
					err = check(t, file, lie, true)
				}
				if !errors.Is(err, cargo.ErrCorrupt) {
					t.Errorf("got %v", err)
				}
			})
		}
		valid := index.Append(nil)
		for n := range valid {
			if _, err := cargo.ParseIndex(valid[:n]); !errors.Is(err, cargo.ErrIndex) {
				t.Fatalf("%d bytes of an index of %d: %v", n, len(valid), err)
			}
		}
		for bit := range 8 * len(valid) {
			flipped := bytes.Clone(valid)
			flipped[bit/8] ^= 1 << (bit % 8)
			if _, err := cargo.ParseIndex(flipped); !errors.Is(err, cargo.ErrIndex) {
				t.Fatalf("bit %d of an index: %v", bit, err)
			}
		}
		// One that is stale: the file was written again, at the same length.
		slices.Reverse(blocks)
		again, _ := rest(t, form, blocks)
		if err := check(t, again, index, false); len(again) != len(file) || !errors.Is(err, cargo.ErrCorrupt) {
			t.Errorf("%v, a stale index: %v", form, err)
		}
	}
}

// TestForeign: files of other programs, and bombs, have no index, and are found out before much is read or expanded.
func TestForeign(t *testing.T) {
	gz := func(header gzip.Header, write func(*gzip.Writer)) []byte {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		w.Header = header
		write(w)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	put := func(w io.Writer, p []byte) {
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	ours, unknown := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), gzip.Header{OS: 255}
	text := bytes.Join(pieces(0, 5000, 5000), nil)
	member := gz(unknown, func(w *gzip.Writer) { put(w, text[:20]) })
	member[8] = 0 // the level, which we do not state
	bomb := gz(unknown, func(w *gzip.Writer) {
		for range 64 {
			put(w, make([]byte, 1<<20))
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	})
	bomb[8] = 0
	dependent := gz(unknown, func(w *gzip.Writer) {
		for range 2 {
			put(w, text) // the second time it refers to the first
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	})
	dependent[8] = 0
	frames := func(options ...zstd.EOption) []byte {
		e, err := zstd.NewWriter(nil, options...)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		return e.EncodeAll(text, nil)
	}
	seekTable := append(
		frames(zstd.WithEncoderCRC(false)),
		"\x5e\x2a\x4d\x18\x09\x00\x00\x00\x00\x00\x00\x00\x00\xb1\xea\x92\x8f"...)
	for name, file := range map[string][]byte{
		"nothing":                nil,
		"text":                   text,
		"header":                 ours,
		"header cut":             ours[:9],
		"another header":         gz(gzip.Header{Name: "a", OS: 3}, func(w *gzip.Writer) { put(w, text) }),
		"a member":               member,
		"1,000,000 members":      bytes.Repeat(member, 1_000_000),
		"a bomb":                 bomb,
		"blocks that refer back": dependent,
		"flushes of nothing":     append(bytes.Clone(ours), bytes.Repeat([]byte("\x00\x00\x00\xff\xff"), 100_000)...),
		"a reserved type":        append(bytes.Clone(ours), 6, 0, 0, 0),
		"another end":            append(bytes.Clone(ours), "\x03\x00\x00\x00\x00\x01\x00\x00\x00\x00"...),
		"with a checksum":        frames(zstd.WithEncoderCRC(true)),
		"with a seek table":      seekTable,
		"a skippable frame":      append([]byte("\x50\x2a\x4d\x18\x01\x00\x00\x00x"), frames(zstd.WithEncoderCRC(false))...),
		"zstd's magic":           []byte("\x28\xb5\x2f\xfd"),
		"a zstd bomb": append(
			[]byte("\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x10"), bytes.Repeat([]byte("\x02\x00\x10\x00"), 2048)...),
		"two empty frames": bytes.Repeat([]byte("\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"), 2),
	} {
		t.Run(name, func(t *testing.T) {
			if index, err := cargo.Rebuild(t.Context(), bytes.NewReader(file), engines.Default()); !errors.Is(
				err, cargo.ErrForeign) || index != nil {
				t.Errorf("got %v, %v", index, err)
			}
		})
	}
}

// TestCanceled: work on a long file ends when it is no longer wanted.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	unwanted := errors.New("unwanted")
	cancel(unwanted)
	file, index := rest(t, cargo.Gzip, travel(t, cargo.Gzip, files["Small"]...))
	if err := reader(t, file, index).Scrub(ctx, false); !errors.Is(err, unwanted) {
		t.Errorf("scrub: %v", err)
	}
	if _, err := cargo.Rebuild(ctx, bytes.NewReader(file), engines.Default()); !errors.Is(err, unwanted) {
		t.Errorf("rebuild: %v", err)
	}
}

func TestNoEngine(t *testing.T) {
	file, index := rest(t, cargo.Gzip, travel(t, cargo.Gzip, files["Small"]...))
	none := codec.NewRegistry()
	if _, err := cargo.NewReader(bytes.NewReader(file), int64(len(file)), index, none); err == nil {
		t.Error("a file is read without an engine")
	}
	if _, err := cargo.Rebuild(t.Context(), bytes.NewReader(file), none); err == nil {
		t.Error("a file is read without an engine")
	}
}

func seeds(f *testing.F, add func(file, index []byte)) {
	f.Helper()
	for form := range forms {
		for _, name := range []string{"Empty", "Byte", "Small"} {
			file, index := rest(f, form, travel(f, form, files[name]...))
			add(file, index.Append(nil))
			add(file[:len(file)/2], index.Append(nil))
		}
	}
}

func FuzzParseIndex(f *testing.F) {
	seeds(f, func(_, index []byte) { f.Add(index) })
	for _, test := range recorded() {
		_, index := pack(f, bytes.Join(test.all, nil), cargo.PackOptions{
			Form: cargo.Gzip, Records: test.records, BlockSize: 9000,
		})
		f.Add(index.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range [][]byte{data, signed(data)} {
			index, err := cargo.ParseIndex(b)
			if err != nil {
				if !errors.Is(err, cargo.ErrIndex) {
					t.Fatal(err)
				}
				continue
			}
			if !bytes.Equal(index.Append(nil), b) {
				t.Fatalf("%x is an index that is written otherwise", b)
			}
		}
	})
}

// FuzzReader: a file that passes a scrub is what the tools of others read, and any other does no harm.
func FuzzReader(f *testing.F) {
	seeds(f, func(file, index []byte) { f.Add(file, index) })
	for _, test := range recorded() {
		file, index := pack(f, bytes.Join(test.all, nil), cargo.PackOptions{
			Form: cargo.Zstd, Records: test.records, BlockSize: 9000,
		})
		f.Add(file, index.Append(nil))
	}
	f.Fuzz(func(t *testing.T, file, data []byte) {
		index, err := cargo.ParseIndex(signed(data))
		if err != nil {
			return
		}
		r, err := cargo.NewReader(bytes.NewReader(file), int64(len(file)), index, engines.Default())
		if err != nil {
			return
		}
		defer r.Close()
		scrubbed := r.Scrub(t.Context(), true)
		plain, err := io.ReadAll(io.NewSectionReader(r, 0, index.Size()))
		if err != nil && !errors.Is(err, cargo.ErrCorrupt) || err != nil && scrubbed == nil {
			t.Fatal(err, scrubbed)
		}
		if n := index.RecordCount(); n > 0 {
			err := r.WriteRecords(t.Context(), io.Discard, n/2, n-n/2, 1)
			if err != nil && !errors.Is(err, cargo.ErrCorrupt) || err != nil && scrubbed == nil {
				t.Fatal(err, scrubbed)
			}
		}
		if scrubbed != nil {
			return
		}
		if want, err := standard(index.Form(), file); err != nil || !bytes.Equal(plain, want) {
			t.Fatalf("%d bytes, which others read as %d, %v", len(plain), len(want), err)
		}
	})
}

// FuzzRebuild: an index that is made of a file is true of it.
func FuzzRebuild(f *testing.F) {
	seeds(f, func(file, _ []byte) { f.Add(file) })
	f.Fuzz(func(t *testing.T, file []byte) {
		index, err := cargo.Rebuild(t.Context(), bytes.NewReader(file), engines.Default())
		if err != nil {
			if !errors.Is(err, cargo.ErrForeign) {
				t.Fatal(err)
			}
			return
		}
		if err := check(t, file, index, true); err != nil {
			t.Fatal(err)
		}
		if plain, err := standard(index.Form(), file); err != nil || int64(len(plain)) != index.Size() {
			t.Fatalf("%d bytes, which others read as %d, %v", index.Size(), len(plain), err)
		}
	})
}

// signed makes the checksum of an index fit, so that fuzzing gets past it.
func signed(b []byte) []byte {
	if len(b) < 8 {
		return b
	}
	return sign(bytes.Clone(b[:len(b)-8]))
}
