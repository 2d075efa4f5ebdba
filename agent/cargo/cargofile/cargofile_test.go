// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargofile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
)

var lines = cargo.Records{Layout: cargo.Lines}

// environment has the variables of a store.
func environment(t testing.TB, s *objectstoretest.Server) func(string) string {
	t.Helper()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(name string) string {
		return map[string]string{
			"AWS_ENDPOINT_URL": s.URL, "AWS_CA_BUNDLE": bundle, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		}[name]
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// where is a directory or a bucket.
type where struct {
	files cargofile.Files
	at    string // names begin with it
	// names are those of all files.
	names func() []string
	read  func(name string) []byte
	put   func(name string, content []byte)
}

func local(t testing.TB) where {
	dir := t.TempDir()
	return where{
		files: cargofile.Files{Engines: engines.Default(), Workers: 2}, at: dir + "/",
		names: func() (names []string) {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		},
		read: func(name string) []byte {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		put: func(name string, content []byte) {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func remote(t testing.TB) (where, *objectstoretest.Server) {
	s := objectstoretest.New(t, "id")
	w := where{
		files: cargofile.Files{Engines: engines.Default(), Workers: 2, Getenv: environment(t, s)},
		at:    "s3://" + objectstoretest.Bucket + "/", names: s.Keys,
	}
	w.read = func(name string) []byte {
		r, err := w.files.OpenPlain(t.Context(), w.at+name)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	w.put = func(name string, content []byte) { s.Add(name, content, time.Now()) }
	return w, s
}

func everywhere(t *testing.T, test func(t *testing.T, w where)) {
	t.Run("local", func(t *testing.T) { test(t, local(t)) })
	t.Run("remote", func(t *testing.T) {
		w, _ := remote(t)
		test(t, w)
	})
}

func open(t testing.TB, w where, name string) *cargofile.File {
	t.Helper()
	f, err := w.files.Open(t.Context(), w.at+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func pack(t testing.TB, w where, name string, plain []byte, o cargo.PackOptions) {
	t.Helper()
	if o.Form == 0 {
		o.Form = cargo.Gzip
	}
	if _, err := w.files.Pack(t.Context(), bytes.NewReader(plain), w.at+name, o, false); err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestFiles: files are packed, copied, expanded, indexed and listed, on file systems and in stores.
func TestFiles(t *testing.T) {
	plain := codectest.Corpora()[0].Generate(300_000)
	everywhere(t, func(t *testing.T, w where) {
		pack(t, w, "a.gz", plain, cargo.PackOptions{Records: lines, BlockSize: 10_000})
		equal(t, "packed", w.names(), []string{".a.gz.lgci", "a.gz"})
		f := open(t, w, "a.gz")
		if err := w.files.Copy(t.Context(), f, w.at+"b.gz", cargofile.CopyOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.files.Copy(t.Context(), f, w.at+"c.gz", cargofile.CopyOptions{Unchecked: true}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b.gz", "c.gz"} {
			if !bytes.Equal(w.read(name), w.read("a.gz")) || !bytes.Equal(w.read("."+name+".lgci"), w.read(".a.gz.lgci")) {
				t.Errorf("the copy %s is another one", name)
			}
		}
		if err := w.files.Inflate(t.Context(), open(t, w, "b.gz"), w.at+"plain", cargofile.CopyOptions{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(w.read("plain"), plain) {
			t.Error("the plain file is another one")
		}
		var record bytes.Buffer
		n := f.Index().RecordCount() / 2
		if err := f.WriteRecords(t.Context(), &record, n, 1, 1); err != nil ||
			!bytes.Equal(record.Bytes(), bytes.SplitAfter(plain, []byte("\n"))[n]) {
			t.Errorf("record %d: %q, %v", n, &record, err)
		}
		part := make([]byte, 1000)
		if _, err := f.ReadAt(part, 55_000); err != nil || !bytes.Equal(part, plain[55_000:56_000]) {
			t.Errorf("a part is another one, %v", err)
		}
		if n, err := f.ReadAt(part, int64(len(plain))-10); n != 10 || !errors.Is(err, io.EOF) {
			t.Errorf("the end: %d, %v", n, err)
		}
		if err := f.Scrub(t.Context(), true); err != nil {
			t.Error(err)
		}
		var found []string
		for name, err := range w.files.List(t.Context(), w.at) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, strings.TrimPrefix(name, w.at))
		}
		equal(t, "listed", found, []string{"a.gz", "b.gz", "c.gz"})
	})
}

// TestExisting: nothing is replaced unless that is wanted, and then as a whole.
func TestExisting(t *testing.T) {
	everywhere(t, func(t *testing.T, w where) {
		pack(t, w, "a", []byte("one"), cargo.PackOptions{})
		_, err := w.files.Pack(t.Context(), strings.NewReader("two"), w.at+"a", cargo.PackOptions{Form: cargo.Zstd}, false)
		if !errors.Is(err, cargofile.ErrExists) || !errors.Is(err, fs.ErrExist) {
			t.Fatalf("got %v", err)
		}
		if f := open(t, w, "a"); f.Index().Size() != 3 || f.Index().Form() != cargo.Gzip {
			t.Error("it was replaced")
		}
		_, err = w.files.Pack(t.Context(), strings.NewReader("two 2"), w.at+"a", cargo.PackOptions{Form: cargo.Zstd}, true)
		if err != nil {
			t.Fatal(err)
		}
		if f := open(t, w, "a"); f.Index().Size() != 5 || f.Scrub(t.Context(), true) != nil {
			t.Error("it was not replaced")
		}
		equal(t, "names", w.names(), []string{".a.lgci", "a"})
	})
}

// interrupting ends the context in the middle.
type interrupting struct {
	left   int
	cancel func()
	err    error
}

func (r *interrupting) Read(p []byte) (int, error) {
	if r.left <= 0 {
		r.cancel()
		if r.err != nil {
			return 0, r.err
		}
		return 0, context.Canceled
	}
	n := min(len(p), r.left)
	clear(p[:n])
	r.left -= n
	return n, nil
}

// TestNothingHalf: whatever fails or is interrupted leaves nothing, and what was there before stays.
func TestNothingHalf(t *testing.T) {
	everywhere(t, func(t *testing.T, w where) {
		for _, size := range []int{0, 100_000, 40 << 20} {
			ctx, cancel := context.WithCancel(t.Context())
			source := &interrupting{left: size, cancel: cancel}
			_, err := w.files.Pack(ctx, source, w.at+"a", cargo.PackOptions{Form: cargo.Gzip}, false)
			cancel()
			if err == nil {
				t.Fatal("it was not interrupted")
			}
			equal(t, "names", w.names(), nil)
		}
		pack(t, w, "a", []byte("one"), cargo.PackOptions{})
		before := w.names()
		// False records show at the end.
		_, err := w.files.Pack(t.Context(), strings.NewReader("12345"), w.at+"b",
			cargo.PackOptions{Form: cargo.Gzip, Records: cargo.Records{Layout: cargo.Fixed, Length: 4}}, false)
		if !errors.Is(err, cargo.ErrRecords) {
			t.Errorf("got %v", err)
		}
		// What rests is damaged.
		damaged := w.read("a")
		damaged[len(damaged)-1]++
		w.put("a", damaged)
		f := open(t, w, "a")
		for _, to := range []string{"a", "b"} {
			err := w.files.Copy(t.Context(), f, w.at+to, cargofile.CopyOptions{Replace: true})
			if !errors.Is(err, cargo.ErrCorrupt) {
				t.Errorf("got %v", err)
			}
		}
		equal(t, "names", w.names(), before)
		if !bytes.Equal(w.read("a"), damaged) {
			t.Error("what was there is another file")
		}
	})
}

// TestIndexes: an index that is missing, stale, or none at all is found out, and made again by scanning.
func TestIndexes(t *testing.T) {
	plain := []byte("one\ntwo\nthree\n")
	everywhere(t, func(t *testing.T, w where) {
		pack(t, w, "a", plain, cargo.PackOptions{Records: lines})
		pack(t, w, "other", []byte("something else, which is longer"), cargo.PackOptions{})
		good := w.read(".a.lgci")
		for name, index := range map[string][]byte{
			"empty": {}, "cut": good[:len(good)-1], "of another file": w.read(".other.lgci"), "text": plain,
			"damaged": append(bytes.Clone(good[:50]), good[49:]...),
		} {
			w.put(".a.lgci", index)
			if _, err := w.files.Open(t.Context(), w.at+"a"); !errors.Is(err, cargo.ErrIndex) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.put("lonely", w.read("a"))
		if _, err := w.files.Open(t.Context(), w.at+"lonely"); !errors.Is(err, cargofile.ErrNoIndex) {
			t.Errorf("got %v", err)
		}
		if _, err := w.files.Open(t.Context(), w.at+"absent"); !errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, cargofile.ErrNoIndex) {
			t.Errorf("got %v", err)
		}
		f, err := w.files.Scan(t.Context(), w.at+"lonely", lines)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.files.WriteIndex(t.Context(), w.at+"lonely", f.Index()); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(w.read(".lonely.lgci"), good) || open(t, w, "lonely").Index().RecordCount() != 3 {
			t.Error("the index that was made again is another one")
		}
		w.put("foreign", plain)
		w.put("nothing", nil)
		for _, name := range []string{"foreign", "nothing"} {
			if _, err := w.files.Scan(t.Context(), w.at+name, lines); !errors.Is(err, cargo.ErrForeign) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestNames: what is no name, or names no regular file, is an error.
func TestNames(t *testing.T) {
	w, _ := remote(t)
	write := func(name string) error {
		_, err := w.files.Pack(t.Context(), strings.NewReader("x"), name, cargo.PackOptions{Form: cargo.Gzip}, true)
		return err
	}
	for _, name := range []string{
		"", "s3://", "s3:///a", "s3://a b/c", "https://host/a", "s3://" + objectstoretest.Bucket + "/../a",
	} {
		if err := write(name); err == nil {
			t.Errorf("%q was written", name)
		}
		if _, err := w.files.Open(t.Context(), name); err == nil {
			t.Errorf("%q was opened", name)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{dir, "/dev/zero"} {
		if _, err := w.files.Open(t.Context(), name); !errors.Is(err, cargofile.ErrName) {
			t.Errorf("open %s: %v", name, err)
		}
		if err := write(name); !errors.Is(err, cargofile.ErrName) {
			t.Errorf("write %s: %v", name, err)
		}
	}
	// Half of a pair of credentials is a mistake, and credentials are sent by TLS only.
	for _, values := range []map[string]string{
		{"AWS_ACCESS_KEY_ID": "id"}, {"AWS_CA_BUNDLE": "/absent"},
		{"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s"},
	} {
		w.files.Getenv = func(name string) string { return values[name] }
		if _, err := w.files.Open(t.Context(), "s3://bucket/key"); !errors.Is(err, objectstore.ErrOptions) &&
			!errors.Is(err, objectstore.ErrCredentials) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: %v", values, err)
		}
	}
}

// TestOneRequest: a record of an object is one ranged get, and an object that was replaced meanwhile is an error.
func TestOneRequest(t *testing.T) {
	w, s := remote(t)
	var plain []byte
	for i := range 9000 {
		plain = fmt.Appendf(plain, "record %d\n", i)
	}
	pack(t, w, "a", plain, cargo.PackOptions{Records: lines, BlockSize: 2000})
	f := open(t, w, "a")
	before := len(s.Requests())
	var got bytes.Buffer
	const want = "record 4000\nrecord 4001\nrecord 4002\n"
	if err := f.WriteRecords(t.Context(), &got, 4000, 3, 2); err != nil || got.String() != want {
		t.Fatalf("%q, %v", &got, err)
	}
	if made := s.Requests()[before:]; len(made) != 1 || !strings.HasPrefix(made[0], http.MethodGet) {
		t.Errorf("requests: %q", made)
	}
	w.put("a", bytes.Repeat([]byte("x"), int(f.Index().StoredSize())))
	if err := f.WriteRecords(t.Context(), io.Discard, 8000, 1, 1); !errors.Is(err, objectstore.ErrChanged) {
		t.Errorf("an object that was replaced: %v", err)
	}
}

// TestParts: a long object is put in parts, and a failure leaves no upload.
func TestParts(t *testing.T) {
	w, s := remote(t)
	long := bytes.Repeat(noise(1<<20), 40)
	zstd := cargo.PackOptions{Form: cargo.Zstd}
	if _, err := w.files.Pack(t.Context(), bytes.NewReader(long), w.at+"a", zstd, false); err != nil {
		t.Fatal(err)
	}
	if f := open(t, w, "a"); f.Scrub(t.Context(), true) != nil || f.Index().StoredSize() < 33<<20 {
		t.Errorf("%d bytes, %v", f.Index().StoredSize(), f.Scrub(t.Context(), true))
	}
	var puts int
	for _, r := range s.Requests() {
		if strings.Contains(r, "partNumber=") {
			puts++
		}
	}
	if puts != 2 || s.Uploads() != 0 {
		t.Errorf("%d parts, %d uploads under way", puts, s.Uploads())
	}
	ctx, cancel := context.WithCancel(t.Context())
	source := io.MultiReader(bytes.NewReader(long), &interrupting{cancel: cancel})
	if _, err := w.files.Pack(ctx, source, w.at+"b", zstd, false); err == nil {
		t.Error("it was not interrupted")
	}
	if equal(t, "names", w.names(), []string{".a.lgci", "a"}); s.Uploads() != 0 {
		t.Errorf("%d uploads are left", s.Uploads())
	}
	// Another writer comes first.
	from := local(t) // the server answers one request at a time
	pack(t, from, "a", long, zstd)
	f := open(t, from, "a")
	s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.Contains(r.URL.RawQuery, "uploadId=") {
			rw.Header().Set("Content-Type", "application/xml")
			rw.WriteHeader(http.StatusPreconditionFailed)
			fmt.Fprint(rw, "<Error><Code>PreconditionFailed</Code></Error>")
			return true
		}
		return false
	})
	if err := w.files.Copy(t.Context(), f, w.at+"c", cargofile.CopyOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	s.Intercept(nil)
	if s.Uploads() != 0 {
		t.Errorf("%d uploads are left", s.Uploads())
	}
}
