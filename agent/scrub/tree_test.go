// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scrub_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// content has some blocks, which shrink and are not alike.
func content(seed string) string {
	var b strings.Builder
	for i := range 40_000 {
		b.WriteString(seed)
		b.WriteString(string(rune('a' + i%26*i%17)))
	}
	return b.String()
}

const block = 64 << 10

// pack writes a file as it rests, with its index.
func pack(t *testing.T, path string, form cargo.Form, plain string, records cargo.Records) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	files := cargofile.Files{Engines: engines.Default()}
	_, err := files.Pack(t.Context(), strings.NewReader(plain), path,
		cargo.PackOptions{Form: form, BlockSize: block, Records: records, Engines: engines.Default()}, true)
	if err != nil {
		t.Fatal(err)
	}
}

// rested is a tree of two files in a form.
func rested(t *testing.T, form cargo.Form) string {
	t.Helper()
	root := t.TempDir()
	pack(t, filepath.Join(root, form.Name("sub/a.csv")), form, content("ledger"), cargo.Records{})
	pack(t, filepath.Join(root, form.Name("b.csv")), form, "one\ntwo\n", cargo.Records{Layout: cargo.Lines})
	return root
}

// looked is what a scrub of a tree reports.
func looked(t *testing.T, root string, form cargo.Form, inflate bool, pauses ...time.Duration) *wirev1.Report {
	t.Helper()
	source, err := tree.OpenSource(root, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if pauses == nil {
		pauses = []time.Duration{0, 0}
	}
	inflated := &meter.Meter{}
	report := send.NewReport()
	report.Inflating(inflated, "SoftwareUsed")
	err = scrub.Tree(t.Context(), source, form, scrub.Options{
		Inflate: inflate, Engines: meter.Decoders(engines.Default(), inflated), Workers: 2, Pauses: pauses, Report: report,
	})
	if err != nil {
		t.Fatal(err)
	}
	return report.Report()
}

// findings are the examples by kind.
func findings(r *wirev1.Report) map[string]string {
	found := map[string]string{}
	for _, o := range r.GetOmissions() {
		found[o.GetWhat()] = strings.Join(o.GetExamples(), " ")
	}
	return found
}

func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o644); err != nil {
		t.Fatal(err)
	}
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[(len(b)+at)%len(b)] ^= 1
		return b
	}
}

// long makes an index one of so many blocks, of a file of which so many more bytes rest.
func long(blocks int, more uint64) func([]byte) []byte {
	return func(b []byte) []byte {
		b = append(bytes.Clone(b[:32]), make([]byte, blocks*cargo.BlockSize+8)...)
		binary.BigEndian.PutUint64(b[8:], uint64(blocks))
		binary.BigEndian.PutUint64(b[24:], binary.BigEndian.Uint64(b[24:])+more)
		return b
	}
}

// lies makes an index valid again that was changed.
func lies(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b = flip(at)(b)
		return binary.BigEndian.AppendUint64(b[:len(b)-8], xxh3.Hash(b[:len(b)-8]))
	}
}

func TestIntactTree(t *testing.T) {
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
		for _, inflate := range []bool{false, true} {
			root := rested(t, form)
			report := looked(t, root, form, inflate)
			if len(report.GetOmissions()) > 0 {
				t.Errorf("%v, %v: %v", form, inflate, report.GetOmissions())
			}
			var size uint64
			for _, name := range []string{"sub/a.csv", "b.csv"} {
				info, err := os.Stat(filepath.Join(root, form.Name(name)))
				if err != nil {
					t.Fatal(err)
				}
				size += uint64(info.Size())
			}
			p := report.GetProgress()
			if p.GetFiles() != 2 || p.GetFilesTotal() != 2 || p.GetBytes() != size || p.GetBytesTotal() != size || !p.GetScanned() {
				t.Errorf("%v, %v: %v, want %d bytes", form, inflate, p, size)
			}
			operations, plain := report.GetDecompression().GetSoftware().GetOperations(), uint64(0)
			if inflate {
				plain = uint64(len(content("ledger")) + len("one\ntwo\n"))
			}
			if (operations > 0) != inflate || report.GetDecompression().GetSoftware().GetBytes() < plain {
				t.Errorf("%v, %v: inflated %v, want %d bytes", form, inflate, report.GetDecompression(), plain)
			}
			if report.GetCompression().GetUncompressedBytes() != size {
				t.Errorf("%v, %v: read %v of %d", form, inflate, report.GetCompression(), size)
			}
		}
	}
}

// TestDamage: each kind is found under its name, and named.
func TestDamage(t *testing.T) {
	const a = "sub/a.csv"
	data := func(root string, f cargo.Form) string { return filepath.Join(root, f.Name(a)) }
	index := func(root string, f cargo.Form) string { return filepath.Join(root, f.IndexPath(a)) }
	type damage func(t *testing.T, root string, form cargo.Form)
	change := func(of func(string, cargo.Form) string, how func([]byte) []byte) damage {
		return func(t *testing.T, root string, form cargo.Form) { edit(t, of(root, form), how) }
	}
	remove := func(of func(string, cargo.Form) string) damage {
		return func(t *testing.T, root string, form cargo.Form) {
			if err := os.Remove(of(root, form)); err != nil {
				t.Fatal(err)
			}
		}
	}
	half := func(b []byte) []byte { return b[:len(b)/2] }
	for name, test := range map[string]struct {
		do damage
		// sums and inflating are what is found of the checksums alone, and with inflating. Form Gzip tells then which
		// is wrong.
		sums, inflating string
		only            cargo.Form
	}{
		"a flipped byte":               {change(data, flip(1000)), scrub.Damaged, scrub.Damaged, 0},
		"a flipped bit in the trailer": {change(data, flip(-6)), scrub.Damaged, scrub.Damaged, cargo.Gzip},
		"truncated":                    {change(data, half), scrub.Damaged, scrub.Damaged, 0},
		"trailing bytes": {change(data, func(b []byte) []byte { return append(b, 0) }), scrub.Damaged, scrub.Damaged,
			cargo.Gzip},
		"empty":                       {change(data, func([]byte) []byte { return nil }), scrub.Damaged, scrub.Damaged, 0},
		"no index":                    {remove(index), scrub.IndexMissing, scrub.IndexMissing, 0},
		"no data":                     {remove(data), tree.OmittedMissing, tree.OmittedMissing, 0},
		"a flipped byte in the index": {change(index, flip(40)), scrub.IndexInvalid, scrub.IndexInvalid, 0},
		"an index cut short":          {change(index, half), scrub.IndexInvalid, scrub.IndexInvalid, 0},
		"an empty index": {change(index, func([]byte) []byte { return nil }), scrub.IndexInvalid,
			scrub.IndexInvalid, 0},
		"an index of too many bytes": {change(index, long(1<<20, 0)), scrub.IndexTooLong, scrub.IndexTooLong, 0},
		"one byte more than too many": {
			change(index, func(b []byte) []byte { return append(long(1<<20, 0)(b), 0) }),
			scrub.IndexInvalid, scrub.IndexInvalid, 0,
		},
		"one of too many bytes of another file": {change(index, long(1<<20, 1)), scrub.Damaged, scrub.Damaged, 0},
		"an index that lies of what rests":      {change(index, lies(32+23)), scrub.Damaged, scrub.IndexInvalid, cargo.Gzip},
		"an index that lies of the plain bytes": {change(index, lies(32+15)), "", scrub.IndexInvalid, cargo.Zstd},
	} {
		for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
			if test.only != 0 && test.only != form {
				continue
			}
			for inflate, what := range map[bool]string{false: test.sums, true: test.inflating} {
				root := rested(t, form)
				test.do(t, root, form)
				want := map[string]string{}
				if what != "" {
					want[what] = form.Name(a)
				}
				report := looked(t, root, form, inflate)
				if found := findings(report); !maps.Equal(found, want) {
					t.Errorf("%s, %v, inflate %v: found %v, want %v", name, form, inflate, found, want)
				}
				if p := report.GetProgress(); what != "" && p.GetFiles() != 1 {
					t.Errorf("%s, %v, inflate %v: %d files are verified", name, form, inflate, p.GetFiles())
				}
			}
		}
	}
}

// TestOtherFiles: nothing says what they should hold.
func TestOtherFiles(t *testing.T) {
	root := rested(t, cargo.Gzip)
	for name, text := range map[string]string{"plain.txt": "x", "other.zst": "y"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found := findings(looked(t, root, cargo.Gzip, true)); len(found) != 1 ||
		found[scrub.NoChecksum] != "other.zst plain.txt" {
		t.Errorf("found %v", found)
	}
}

// TestRecordNumbersThatLie are found by inflating.
func TestRecordNumbersThatLie(t *testing.T) {
	root := rested(t, cargo.Gzip)
	edit(t, filepath.Join(root, cargo.Gzip.IndexPath("b.csv")), func(b []byte) []byte {
		b[48+31], b[47] = b[48+31]+1, b[47]+1 // one record more, in the header and in the block
		return binary.BigEndian.AppendUint64(b[:len(b)-8], xxh3.Hash(b[:len(b)-8]))
	})
	if found := findings(looked(t, root, cargo.Gzip, true)); found[scrub.IndexInvalid] != "b.csv.gz" {
		t.Errorf("found %v", found)
	}
}

// TestReplacedMeanwhile: a file and its index that are replaced are looked at again, whatever was seen of them before.
func TestReplacedMeanwhile(t *testing.T) {
	root := rested(t, cargo.Gzip)
	path := filepath.Join(root, "sub/a.csv.gz")
	// The index of what is coming is there before the file.
	index := filepath.Join(root, cargo.Gzip.IndexPath("sub/a.csv"))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pack(t, path, cargo.Gzip, content("another"), cargo.Records{})
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(index); err != nil {
		t.Fatal(err)
	}
	source, err := tree.OpenSource(root, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	report := send.NewReport()
	passes := 0
	o := scrub.Options{Engines: engines.Default(), Workers: 1, Pauses: []time.Duration{0, 0}, Report: report}
	err = scrub.Run(t.Context(), &o, source.Omissions(), scrub.PassOf(source, cargo.Gzip, &o, func() {
		if passes++; passes == 2 { // the writer has come to the file
			if err := os.WriteFile(path, after, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}))
	if err != nil || passes != 2 || len(report.Report().GetOmissions()) > 0 ||
		report.Report().GetProgress().GetFiles() != 2 {
		t.Errorf("%d passes: %v, %v", passes, report.Report(), err)
	}
	if bytes.Equal(data, after) {
		t.Error("nothing was replaced")
	}
}

// TestWritesNothing: not even times change.
func TestWritesNothing(t *testing.T) {
	root := rested(t, cargo.Gzip)
	state := func() map[string]time.Time {
		all := map[string]time.Time{}
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			all[path] = info.ModTime()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := state()
	looked(t, root, cargo.Gzip, true)
	if !maps.Equal(before, state()) {
		t.Error("the tree has changed")
	}
}

func TestEmptyTree(t *testing.T) {
	source, err := tree.OpenSource(t.TempDir(), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	err = scrub.Tree(t.Context(), source, cargo.Gzip, scrub.Options{
		Engines: engines.Default(), Workers: 1, Report: send.NewReport(),
	})
	if err == nil {
		t.Error("nothing to verify is a success")
	}
}
