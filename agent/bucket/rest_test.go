// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/bucket"
	forms "github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

var formsAtRest = []forms.Form{forms.Gzip, forms.Zstd}

// resting has each file compressed in a form.
func resting(form forms.Form) func(*bucket.WriteOptions) {
	return func(o *bucket.WriteOptions) {
		o.Resting = &bucket.RestingOptions{
			Form: form, Engines: engines.Default(), Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
		}
	}
}

// text shrinks to less than a half.
func text(seed uint64, n int) string {
	var b strings.Builder
	for noise := random(seed, n/48+2); b.Len() < n; noise = noise[1:] {
		fmt.Fprintf(&b, "2026-11-25;account %05d;%02x;EUR;ledger of the bank\n", b.Len()%977, noise[0])
	}
	return b.String()[:n]
}

// expanded is what other programs make of what rests: this language's packages, and zcat or zstd if there is one.
func expanded(t *testing.T, form forms.Form, rest []byte) string {
	t.Helper()
	program := []string{"zcat"}
	var plain []byte
	if form == forms.Zstd {
		program = []string{"zstd", "-dcq"}
		d, err := zstd.NewReader(bytes.NewReader(rest))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if plain, err = io.ReadAll(d); err != nil {
			t.Fatal(err)
		}
	} else {
		z, err := gzip.NewReader(bytes.NewReader(rest))
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false) // It is one member.
		if plain, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	if _, found := lookPath(t, program[0]); found {
		c := exec.CommandContext(t.Context(), program[0], program[1:]...)
		c.Stdin = bytes.NewReader(rest)
		if out, err := c.Output(); err != nil || !bytes.Equal(out, plain) {
			t.Errorf("%v: %v, %d bytes of %d", program, err, len(out), len(plain))
		}
	}
	return string(plain)
}

// left are the objects and uploads that a run should have removed.
func left(server *objectstoretest.Server) (left []string) {
	for _, key := range server.Keys() {
		if strings.HasPrefix(key, prefix+"/"+bucket.Reserved) && key != prefix+"/"+bucket.IndexName {
			left = append(left, key)
		}
	}
	return append(left, make([]string, server.Uploads())...)
}

// TestResting has a tree travel into a bucket in each form and back, and other programs read what rests.
func TestResting(t *testing.T) {
	for _, form := range formsAtRest {
		t.Run(form.String(), func(t *testing.T) { restingTree(t, form) })
	}
}

func restingTree(t *testing.T, form forms.Form) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"a/b/deep.txt": "deep", "a.csv": text(1, 3<<20), "a.csv-": "sorts before a.csv.gz", "a.csv.d/x": "x", "empty": "",
		"a.csv.gz": "a file of its own", "a.csv.zst": "another", ".a.csv.gz.lgci": "no index", "noise": random(2, 300<<10),
		"large": text(3, 70<<20), "ü %2F+&=?": "name",
	}
	put(t, root, files)
	for _, err := range []error{
		os.Symlink("../elsewhere", filepath.Join(root, "a/link")),
		os.Link(filepath.Join(root, "a/b/deep.txt"), filepath.Join(root, "second")),
		os.Chmod(filepath.Join(root, "noise"), 0o751),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	report, err := write(t, source(t, root, nil), store, resting(form))
	if err != nil {
		t.Fatal(err)
	}
	if p := report.GetProgress(); p.GetFiles() != uint64(len(files)) || p.GetUnchangedFiles() != 0 ||
		p.GetPartialBytes() != 0 {
		t.Errorf("progress %v", p)
	}
	if c := report.GetCompression(); c.GetCompressedBytes()*3 > c.GetUncompressedBytes()*2 {
		t.Errorf("%d bytes became %d", c.GetUncompressedBytes(), c.GetCompressedBytes())
	}
	if l := left(server); len(l) > 0 {
		t.Errorf("%q are left", l)
	}
	if got, want := len(keys(server)), 2*len(files); got != want {
		t.Errorf("%d objects, want %d: %q", got, want, keys(server))
	}
	for name, content := range files {
		rest := read(t, store, form.Name(name))
		if expanded(t, form, rest) != content {
			t.Errorf("%s has another content", name)
		}
		index, err := forms.ParseIndex(read(t, store, form.IndexPath(name)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := forms.NewReader(bytes.NewReader(rest), int64(len(rest)), index, engines.Default())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Scrub(t.Context(), true); err != nil || r.Close() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	restored(t, root, store)
	unchangedAtRest(t, server, root, form)
	finds(t, "whole", store, true, map[string]string{})

	// What is gone at the source goes, and nothing else.
	for _, name := range []string{"a.csv", "noise", "a/b/deep.txt"} {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, root, map[string]string{"noise/now a directory": "x"})
	progress := mustWrite(t, source(t, root, nil), store, and(resting(form), mirrored))
	if progress.GetRemoved() != 3 {
		t.Errorf("removed %d files", progress.GetRemoved())
	}
	restored(t, root, store)
	if got := keys(server); slices.Contains(got, form.Name("a.csv")) || slices.Contains(got, form.IndexPath("noise")) ||
		len(got) != 2*(len(files)-1) {
		t.Errorf("%q", got)
	}
}

// unchangedAtRest has another run, which puts no object but those of ours.
func unchangedAtRest(t *testing.T, server *objectstoretest.Server, root string, form forms.Form) {
	t.Helper()
	puts := func() (n int) {
		for _, r := range server.Requests() {
			if strings.HasPrefix(r, "PUT ") && !strings.Contains(r, bucket.Reserved) {
				n++
			}
		}
		return n
	}
	before := puts()
	progress := mustWrite(t, source(t, root, nil), open(t, server, prefix), and(resting(form), mirrored))
	if progress.GetUnchangedFiles() != progress.GetFiles() || progress.GetRemoved() != 0 || puts() != before {
		t.Errorf("a run without changes: %v, and %d puts", progress, puts()-before)
	}
}

// TestRestingInterrupted kills the connection to the server within a file of several parts: no more than the parts that
// were on their way, and blocks, are compressed again.
func TestRestingInterrupted(t *testing.T) {
	moves(t)
	for _, form := range formsAtRest {
		t.Run(form.String(), func(t *testing.T) {
			root := t.TempDir()
			put(t, root, map[string]string{"a": "1", "large": random(2, 60<<20), "z": "3"})
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			l := &limited{Source: source(t, root, nil)}
			l.left.Store(41 << 20)
			if _, err := write(t, l, store, resting(form)); !errors.Is(err, errLimited) {
				t.Fatalf("the first attempt: %v", err)
			}
			if server.Uploads() != 1 || slices.Contains(server.Keys(), prefix+"/"+form.Name("large")) {
				t.Fatalf("%d uploads, keys %q", server.Uploads(), server.Keys())
			}
			again := &limited{Source: source(t, root, nil)}
			again.left.Store(19<<20 + 2*8<<20 + 8<<20)
			progress := mustWrite(t, again, store, and(resting(form), attempt(2)))
			if progress.GetResumedBytes() < 16<<20 || progress.GetUnchangedFiles() < 1 {
				t.Errorf("%v, want two parts resumed", progress)
			}
			if l := left(server); len(l) > 0 {
				t.Errorf("%q are left", l)
			}
			if expanded(t, form, read(t, store, form.Name("large"))) != random(2, 60<<20) {
				t.Error("another content")
			}
			restored(t, root, store)
			unchangedAtRest(t, server, root, form)
		})
	}
}

// TestRestingAnyEnd ends attempts at each request that changes something, once before and once after it was done. The
// next attempt makes all whole, and nothing is half under its name.
func TestRestingAnyEnd(t *testing.T) {
	moves(t)
	root := t.TempDir()
	large := random(4, 17<<20)
	put(t, root, map[string]string{"a": text(1, 10_000), "large": large})
	for n, ended := 1, false; !ended; n++ {
		for _, done := range []bool{false, true} {
			server := objectstoretest.New(t, "")
			store, count, dead := open(t, server, prefix), 0, false
			server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet && r.Method != http.MethodHead {
					count++
				}
				if dead {
					w.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				if count < n {
					return false
				}
				dead = true
				if !done {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return !done
			})
			_, err := write(t, source(t, root, nil), store, resting(forms.Gzip))
			ended = !dead
			server.Intercept(nil)
			if ended && err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "large"} {
				if slices.Contains(server.Keys(), prefix+"/"+name+".gz") {
					expanded(t, forms.Gzip, read(t, store, name+".gz"))
				}
			}
			mustWrite(t, source(t, root, nil), store, and(resting(forms.Gzip), attempt(2), mirrored))
			restored(t, root, store)
			if l := left(server); len(l) > 0 || len(keys(server)) != 4 {
				t.Errorf("ended at %d, done: %v: %q are left of %q", n, done, l, keys(server))
			}
		}
	}
}

// TestRestingJournalThatLies has a journal whose parts are not those of the upload: nothing of it is taken.
func TestRestingJournalThatLies(t *testing.T) {
	moves(t)
	root := t.TempDir()
	put(t, root, map[string]string{"large": random(2, 40<<20)})
	for what, change := range map[string]func([]byte) []byte{
		"damaged": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"short":   func(b []byte) []byte { return b[:len(b)-30] },
		"empty":   func([]byte) []byte { return nil },
	} {
		server := objectstoretest.New(t, "")
		store := open(t, server, prefix)
		l := &limited{Source: source(t, root, nil)}
		l.left.Store(30 << 20)
		if _, err := write(t, l, store, resting(forms.Gzip)); !errors.Is(err, errLimited) {
			t.Fatalf("%s: %v", what, err)
		}
		for _, key := range server.Keys() {
			if strings.Contains(key, "/parts/") {
				server.Damage(key, change)
			}
		}
		mustWrite(t, source(t, root, nil), store, and(resting(forms.Gzip), attempt(2)))
		restored(t, root, store)
		if l := left(server); len(l) > 0 {
			t.Errorf("%s: %q are left", what, l)
		}
	}
}

// TestRestingOfOtherForms has a prefix change its form: nothing of the former one is left or confused.
func TestRestingOfOtherForms(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": "one", "d/b": text(1, 10_000), "d/c": text(2, 9<<20)})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	none := func(*bucket.WriteOptions) {}
	for i, form := range []func(*bucket.WriteOptions){
		none, resting(forms.Gzip), resting(forms.Zstd), archived(codec.Zstd, 0), resting(forms.Gzip), none,
	} {
		mustWrite(t, source(t, root, nil), store, and(form, mirrored))
		restored(t, root, store)
		if want := []int{3, 6, 6, 0, 6, 3}[i]; len(keys(server)) != want || len(left(server)) > 0 && want > 0 {
			t.Errorf("form %d: %q and %q", i, keys(server), left(server))
		}
	}
}

// TestRestingNames has names that cannot be in a form.
func TestRestingNames(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"sub.gz/x": "x"})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	_, err := write(t, source(t, root, nil), store, resting(forms.Gzip))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED) {
		t.Errorf("a directory with the name of a file: %v", err)
	}
	mustWrite(t, source(t, root, nil), store, resting(forms.Zstd))
	restored(t, root, store)
}

// TestRestingOpaque is against a server whose ETags are no MD5: what rests is read back.
func TestRestingOpaque(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": text(1, 10_000), "large": random(2, 20<<20)})
	server := objectstoretest.New(t, "")
	server.Set(objectstoretest.Faults{OpaqueETags: true}, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, resting(forms.Gzip))
	restored(t, root, store)

	// One that stores something else is found out.
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/b.gz") {
			server.Unlocked(func() {
				server.Damage(prefix+"/b.gz", func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
			})
		}
		return false
	})
	put(t, root, map[string]string{"b": text(3, 10_000)})
	_, err := write(t, source(t, root, nil), store, resting(forms.Gzip))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED) {
		t.Errorf("an object that was damaged on the way: %v", err)
	}
}

// TestRestingChanged has a file change while it is compressed.
func TestRestingChanged(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": "1", "large": random(2, 20<<20)})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, resting(forms.Zstd))
	r := &restless{Source: source(t, root, nil), left: map[string]int{"large": 1000}}
	put(t, root, map[string]string{"large": random(3, 21<<20)})
	_, err := write(t, r, store, resting(forms.Zstd))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) {
		t.Errorf("%v", err)
	}
	if server.Uploads() != 0 {
		t.Errorf("%d uploads are left", server.Uploads())
	}
	_, all, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if all["large"].Size != 20<<20 || contents["large"] != random(2, 20<<20) {
		t.Errorf("the version before is lost: %d bytes", all["large"].Size)
	}
	mustWrite(t, source(t, root, nil), store, resting(forms.Zstd))
	restored(t, root, store)
}

// TestRestingSource reads what others put: pairs by their names, all else as it is.
func TestRestingSource(t *testing.T) {
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	add := func(name string, content []byte) { server.Add(prefix+"/"+name, content, time.Now()) }
	for _, name := range []string{"d/a.csv", "taken", "b", "b.gz"} {
		var rest bytes.Buffer
		index, err := forms.Pack(t.Context(), &rest, strings.NewReader(text(1, 3<<20)+name), forms.PackOptions{
			Form: forms.Gzip, Engines: engines.Default(), BlockSize: 1 << 18,
		})
		if err != nil {
			t.Fatal(err)
		}
		add(forms.Gzip.Name(name), rest.Bytes())
		add(forms.Gzip.IndexPath(name), index.Append(nil))
	}
	add("taken", []byte("plain"))
	add("foreign.gz", []byte("no index"))
	add(".orphan.gz.lgci", []byte("no file"))
	s := bucket.NewSource(t.Context(), store, nil)
	s.SetForm(forms.Gzip)
	paths, all, contents := entries(t, s)
	want := []string{
		".", ".orphan.gz.lgci", ".taken.gz.lgci", "b", "b.gz", "d", "d/a.csv", "foreign.gz", "taken", "taken.gz",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
	for _, name := range []string{"d/a.csv", "b", "b.gz"} {
		if contents[name] != text(1, 3<<20)+name || all[name].Mode != 0o644 {
			t.Errorf("%s has %d bytes and mode %o", name, all[name].Size, all[name].Mode)
		}
	}
	if contents["foreign.gz"] != "no index" || contents["taken"] != "plain" {
		t.Error("foreign files have another content")
	}
	part := make([]byte, 100)
	e := all["d/a.csv"]
	if err := s.ReadAt(&e, part, 1<<18-50); err != nil || string(part) != text(1, 3<<20)[1<<18-50:1<<18+50] {
		t.Errorf("a range over the border of blocks: %v", err)
	}

	// Into another bucket, as plain files.
	other := objectstoretest.New(t, "")
	mustWrite(t, s, open(t, other, prefix), nil)
	if !slices.Contains(keys(other), "d/a.csv") || slices.Contains(keys(other), "d/a.csv.gz") {
		t.Errorf("%q", keys(other))
	}
	// An index of the prefix says that files are as they are.
	s = bucket.NewSource(t.Context(), open(t, other, prefix), nil)
	s.SetForm(forms.Gzip)
	err := s.Walk(t.Context(), func(*tree.Entry) error { return nil })
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED) {
		t.Errorf("another form than the index says: %v", err)
	}
}

// longIndex makes an index one of 2^20 blocks, which nobody verifies, of a file of the same length.
func longIndex(b []byte) []byte {
	b = append(bytes.Clone(b[:32]), make([]byte, forms.BlockSize<<20+8)...)
	binary.BigEndian.PutUint64(b[8:], 1<<20)
	return b
}

// TestRestingDamage has objects and indexes that are damaged, replaced or gone.
func TestRestingDamage(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": text(1, 100_000), "b": text(2, 5<<18)})
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	const unreadable = wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE
	for what, c := range map[string]struct {
		change func(*objectstoretest.Server)
		reason wirev1.FailureReason
		scrub  map[string]string
	}{
		"object": {func(s *objectstoretest.Server) { s.Damage(prefix+"/b.gz", flip) }, unreadable,
			map[string]string{"Damaged": "b"}},
		"index": {func(s *objectstoretest.Server) { s.Damage(prefix+"/.b.gz.lgci", flip) }, unreadable,
			map[string]string{"IndexInvalid": "b"}},
		"index of another": {func(s *objectstoretest.Server) {
			other := read(t, open(t, s, prefix), ".a.gz.lgci")
			s.Damage(prefix+"/.b.gz.lgci", func([]byte) []byte { return other })
		}, unreadable, map[string]string{"IndexInvalid": "b"}},
		"index too long": {func(s *objectstoretest.Server) { s.Damage(prefix+"/.b.gz.lgci", longIndex) }, unreadable,
			map[string]string{"IndexTooLong": "b"}},
		"no index": {func(s *objectstoretest.Server) { s.Remove(prefix + "/.b.gz.lgci") }, 0,
			map[string]string{"IndexMissing": "b", "NoChecksum": "b.gz"}},
		"no object": {func(s *objectstoretest.Server) { s.Remove(prefix + "/b.gz") }, 0,
			map[string]string{"ObjectMissing": "b", "NoChecksum": ".b.gz.lgci"}},
	} {
		t.Run(what, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			mustWrite(t, source(t, root, nil), store, resting(forms.Gzip))
			c.change(server)
			s := bucket.NewSource(t.Context(), store, nil)
			err := s.Walk(t.Context(), func(e *tree.Entry) error {
				if e.Type != tree.File {
					return nil
				}
				return s.ReadAt(e, make([]byte, e.Size), 0)
			})
			if c.reason != 0 && !failure.Is(err, c.reason) || c.reason == 0 && err != nil {
				t.Errorf("%v", err)
			}
			finds(t, what, store, true, c.scrub)
			// The next run makes it whole, if the list tells: damage within an object has no other ETag.
			if what == "object" || strings.HasPrefix(what, "index") {
				return
			}
			mustWrite(t, source(t, root, nil), store, resting(forms.Gzip))
			restored(t, root, store)
		})
	}
}

// TestRestingReplaced has objects replaced while they are read.
func TestRestingReplaced(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": text(1, 100_000)})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, resting(forms.Zstd))
	s := bucket.NewSource(t.Context(), store, nil)
	_, all, _ := entries(t, s)
	old := all["a"]
	put(t, root, map[string]string{"a": text(2, 200_000)})
	mustWrite(t, source(t, root, nil), store, resting(forms.Zstd))
	if err := s.ReadAt(&old, make([]byte, 10), 0); !errors.Is(err, tree.ErrChanged) {
		// The index that is held is that of the object before.
		t.Errorf("%v", err)
	}
	now, err := s.Again(&old)
	if err != nil || now.Size != 200_000 {
		t.Fatalf("%v %v", now, err)
	}
	b := make([]byte, now.Size)
	if err := s.ReadAt(now, b, 0); err != nil || string(b) != text(2, 200_000) {
		t.Errorf("after Again: %v", err)
	}
}
