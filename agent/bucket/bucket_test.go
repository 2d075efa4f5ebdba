// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const prefix = "east/bank"

func open(t *testing.T, server *objectstoretest.Server, prefix string) *objectstore.Store {
	t.Helper()
	return objectstoretest.Open(t, server.Options(prefix))
}

// put writes files below a directory.
func put(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(1700000000+int64(len(content)), 123456789)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
}

func source(t *testing.T, root string, f *filter.Filter) *tree.Source {
	t.Helper()
	s, err := tree.OpenSource(root, ".")
	if err != nil {
		t.Fatal(err)
	}
	s.SetFilter(f)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// write is one attempt, whose options change may change. It returns the report.
func write(
	t *testing.T, origin bucket.Origin, store bucket.Store, change func(*bucket.WriteOptions),
) (*wirev1.Report, error) {
	t.Helper()
	report := send.NewReport()
	o := bucket.WriteOptions{
		Origin: origin, Store: store, Transfer: "bank/nightly (1)", RunID: "r", Attempt: 1, Verify: true, Streams: 2,
		Report: report, ChangedPauses: []time.Duration{0, 0},
	}
	if change != nil {
		change(&o)
	}
	err := bucket.Write(t.Context(), o)
	return report.Report(), err
}

func mustWrite(
	t *testing.T, origin bucket.Origin, store bucket.Store, change func(*bucket.WriteOptions),
) *wirev1.Progress {
	t.Helper()
	report, err := write(t, origin, store, change)
	if err != nil {
		t.Fatal(err)
	}
	return report.GetProgress()
}

// entries are what a source walks over, the content of files included.
func entries(t *testing.T, s send.Source) (paths []string, all map[string]tree.Entry, contents map[string]string) {
	t.Helper()
	all, contents = map[string]tree.Entry{}, map[string]string{}
	err := s.Walk(t.Context(), func(e *tree.Entry) error {
		paths = append(paths, e.Path)
		all[e.Path] = *e
		if e.Type == tree.File {
			b := make([]byte, e.Size)
			if e.Size > 0 {
				if err := s.ReadAt(e, b, 0); err != nil {
					return fmt.Errorf("%q: %w", e.Path, err)
				}
			}
			contents[e.Path] = string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths, all, contents
}

func random(seed uint64, n int) string {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = source.Read(b) // never fails
	return string(b)
}

// keys are those of files.
func keys(server *objectstoretest.Server) []string {
	var files []string
	for _, key := range server.Keys() {
		if name, ok := strings.CutPrefix(key, prefix+"/"); ok && !strings.HasPrefix(name, bucket.Reserved) {
			files = append(files, name)
		}
	}
	return files
}

func TestRoundTrip(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{
		"a/b/deep.txt": "deep", "a-b": "before a/ in the order of keys", "a.txt": "x", "empty": "", "b": "b",
		"large.bin": random(1, 20<<20), "spaces and ümlauts/%2F+&?.txt": "y",
	})
	for _, err := range []error{
		os.Mkdir(filepath.Join(root, "nothing"), 0o711),
		os.Symlink("../elsewhere", filepath.Join(root, "a/link")),
		os.Link(filepath.Join(root, "a/b/deep.txt"), filepath.Join(root, "second")),
		unix.Mkfifo(filepath.Join(root, "pipe"), 0o600),
		os.Chmod(filepath.Join(root, "b"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	xattrs := unix.Setxattr(filepath.Join(root, "b"), "user.colour", []byte("blue"), 0) == nil
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	progress := mustWrite(t, source(t, root, nil), store, nil)
	if progress.GetFiles() != 7 || progress.GetUnchangedFiles() != 0 || !progress.GetScanned() {
		t.Errorf("progress %v, want 7 new files", progress)
	}
	if got := server.Uploads(); got != 0 {
		t.Errorf("%d uploads are left", got)
	}
	for _, key := range server.Keys() {
		if strings.HasPrefix(key, prefix+"/"+bucket.Reserved) && key != prefix+"/"+bucket.Reserved+"/index" {
			t.Errorf("%s is left", key)
		}
	}
	wantPaths, want, wantContents := entries(t, source(t, root, nil))
	gotPaths, got, gotContents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if !slices.Equal(gotPaths, wantPaths) {
		t.Fatalf("the bucket has %q, want %q", gotPaths, wantPaths)
	}
	for path, w := range want {
		g := got[path]
		if g.Type != w.Type || g.Mode != w.Mode || g.Size != w.Size || g.Modified != w.Modified ||
			g.Target != w.Target || g.Xattrs != w.Xattrs || g.UID != w.UID {
			t.Errorf("%s: got %+v, want %+v", path, g, w)
		}
		if gotContents[path] != wantContents[path] {
			t.Errorf("%s has another content", path)
		}
	}
	if xattrs && got["b"].Xattrs == "" {
		t.Error("extended attributes are lost")
	}
	if mtime := server.Header(prefix + "/b").Get("X-Amz-Meta-Mtime"); mtime != "1700000001.123456789" {
		t.Errorf("mtime %q", mtime)
	}

	// A second run puts nothing, and neither does one from the bucket into another place.
	puts := func() int {
		n := 0
		for _, r := range server.Requests() {
			if strings.HasPrefix(r, "PUT ") && !strings.Contains(r, bucket.Reserved) {
				n++
			}
		}
		return n
	}
	before := puts()
	progress = mustWrite(t, source(t, root, nil), store, nil)
	if progress.GetUnchangedFiles() != 7 || puts() != before {
		t.Errorf("progress %v and %d puts, want all unchanged", progress, puts()-before)
	}
	second := objectstoretest.New(t, "") // a server answers one request at a time
	other := open(t, second, "copy")
	mustWrite(t, bucket.NewSource(t.Context(), store, nil), other, nil)
	copied, again, copiedContents := entries(t, bucket.NewSource(t.Context(), other, nil))
	if !slices.Equal(copied, wantPaths) || copiedContents["large.bin"] != wantContents["large.bin"] ||
		again["b"].Mode != want["b"].Mode {
		t.Errorf("the copy has %q", copied)
	}
	progress = mustWrite(t, bucket.NewSource(t.Context(), store, nil), other, nil)
	if progress.GetUnchangedFiles() != 7 {
		t.Errorf("second copy: %v", progress)
	}
}

func TestDelete(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"keep": "1", "dir/gone": "2", "dir/kept.log": "3", "file": "4", "was/dir": "5"})
	server := objectstoretest.New(t, "")
	server.Add("east/banking", []byte("beside"), time.Now())
	server.Add("east/bank", []byte("above"), time.Now())
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	server.Add(prefix+"/foreign", []byte("theirs"), time.Now())
	f, err := filter.New(nil, []string{"*.log"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"dir/gone", "dir/kept.log", "file", "was"} {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, root, map[string]string{"file/inside": "6", "was": "7"})
	if _, err := write(t, source(t, root, f), store, nil); !failure.Is(
		err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
	) {
		t.Errorf("a file in the place of a directory, without delete: %v", err)
	}
	progress := mustWrite(t, source(t, root, f), store, func(o *bucket.WriteOptions) { o.Delete, o.Filter = true, f })
	if got, want := keys(server), []string{"dir/kept.log", "file/inside", "keep", "was"}; !slices.Equal(got, want) {
		t.Errorf("the bucket has %q, want %q", got, want)
	}
	if progress.GetRemoved() < 3 {
		t.Errorf("removed %d", progress.GetRemoved())
	}
	_, all, _ := entries(t, bucket.NewSource(t.Context(), store, nil))
	if e := all["dir/kept.log"]; e.Mode != 0o640 {
		t.Errorf("what the filter protects has lost its attributes: %+v", e)
	}
	if all := server.Keys(); !slices.Contains(all, "east/banking") || !slices.Contains(all, "east/bank") {
		t.Errorf("something outside of the prefix was removed: %q", all)
	}

	empty := t.TempDir()
	_, err = write(t, source(t, empty, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY) || len(keys(server)) != 4 {
		t.Errorf("an empty source: %v, and %q are left", err, keys(server))
	}
	mustWrite(t, source(t, empty, nil), store, func(o *bucket.WriteOptions) { o.Delete, o.AllowEmpty = true, true })
	if left := keys(server); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// TestInterrupted ends attempts in the middle, as a kill does: nothing that they would do at their end happens.
func TestInterrupted(t *testing.T) {
	root := t.TempDir()
	large := random(2, 40<<20)
	put(t, root, map[string]string{"a": "1", "b": "2", "large": large, "z": "3"})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	killed := false
	parts := 0
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && r.URL.Query().Has("partNumber") {
			parts++
		}
		if killed = killed || parts > 3; !killed {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	if _, err := write(t, source(t, root, nil), store, nil); err == nil {
		t.Fatal("a server that went away is no error")
	}
	if server.Uploads() != 1 || !slices.Contains(server.Keys(), prefix+"/.lighterage/writer") {
		t.Fatalf("%d uploads, keys %q", server.Uploads(), server.Keys())
	}
	server.Intercept(nil)
	if _, err := write(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Transfer = "other" }); !failure.Is(
		err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE,
	) {
		t.Errorf("another Transfer: %v", err)
	}
	progress := mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Attempt = 2 })
	if progress.GetResumedBytes() < 16<<20 || progress.GetUnchangedFiles() < 2 {
		t.Errorf("%v, want two parts resumed and the small files unchanged", progress)
	}
	if server.Uploads() != 0 {
		t.Errorf("%d uploads are left", server.Uploads())
	}
	_, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if contents["large"] != large || len(contents) != 4 {
		t.Errorf("%d files, or another content", len(contents))
	}
}

func TestChangedUploads(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"large": random(3, 20<<20)})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	broken := false
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		broken = broken || r.URL.Query().Get("partNumber") == "2"
		if broken {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return broken
	})
	if _, err := write(t, source(t, root, nil), store, nil); err == nil {
		t.Fatal("no error")
	}
	server.Intercept(nil)
	put(t, root, map[string]string{"large": random(4, 21<<20)})
	if progress := mustWrite(t, source(t, root, nil), store, nil); progress.GetResumedBytes() != 0 {
		t.Errorf("parts of another version were taken: %v", progress)
	}
	if server.Uploads() != 0 {
		t.Errorf("%d uploads are left", server.Uploads())
	}
	if _, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil)); contents["large"] != random(4, 21<<20) {
		t.Error("another content")
	}
}

func TestForeignObjects(t *testing.T) {
	server := objectstoretest.New(t, "")
	when := time.Unix(1700000000, 0)
	long := strings.Repeat("n", 300)
	for _, name := range []string{
		"plain", "dir/one", "both", "both/below", "bad//name", "up/../x", "ctrl\x01", "back\\slash", long, "mark/",
		"marked/", "marked/x", ".lighterage-probe/x", "Case", "case",
	} {
		content := []byte(name)
		if strings.HasSuffix(name, "/") {
			content = nil
		}
		server.Add(prefix+"/"+name, content, when)
	}
	store := open(t, server, prefix)
	s := bucket.NewSource(t.Context(), store, nil)
	paths, all, contents := entries(t, s)
	want := []string{
		".", "Case", "bad", "both", "both/below", "case", "dir", "dir/one", "mark", "marked", "marked/x", "plain", "up",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
	if all["both"].Type != tree.Directory || all["plain"].Mode != 0o644 || all["plain"].Modified != when.UnixNano() ||
		contents["dir/one"] != "dir/one" {
		t.Errorf("entries %+v", all)
	}
	omissions := s.Omissions().ToWire()
	if len(omissions) != 1 || omissions[0].GetWhat() != tree.OmittedObject || omissions[0].GetCount() != 6 {
		t.Errorf("omissions %v", omissions)
	}
	err := bucket.NewSource(t.Context(), open(t, server, "nowhere"), nil).Walk(
		t.Context(), func(*tree.Entry) error { return nil },
	)
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND) {
		t.Errorf("nothing at the source: %v", err)
	}
}

// TestOverwritten has somebody else write objects: they are neither taken for ours nor lost.
func TestOverwritten(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": "same length", "b": "b"})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	if err := os.Chmod(filepath.Join(root, "a"), 0o750|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	_ = unix.Setxattr(filepath.Join(root, "a"), "user.colour", []byte("blue"), 0) // where there are such
	mustWrite(t, source(t, root, nil), store, nil)
	server.Add(prefix+"/a", []byte("other bytes"), time.Unix(5, 0))
	_, all, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if contents["a"] != "other bytes" || all["a"].Mode != 0o750 || all["a"].Xattrs != "" ||
		all["a"].Modified != time.Unix(5, 0).UnixNano() || all["b"].Mode != 0o640 {
		t.Errorf("%+v", all)
	}
	mustWrite(t, source(t, root, nil), store, nil)
	if _, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil)); contents["a"] != "same length" {
		t.Errorf("a is %q", contents["a"])
	}
	s := bucket.NewSource(t.Context(), store, nil)
	err := s.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Path == "a" {
			server.Add(prefix+"/a", []byte("another one"), time.Now())
			b := make([]byte, e.Size)
			if err := s.ReadAt(e, b, 0); !errors.Is(err, tree.ErrChanged) {
				return fmt.Errorf("read of another version: %w", err)
			}
			now, err := s.Again(e)
			if err != nil || s.ReadAt(now, b, 0) != nil || string(b) != "another one" || now.Mode != 0o750 {
				return fmt.Errorf("again: %q, %w", b, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDamagedIndex(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": "1", "b": "2"})
	for name, damage := range map[string]func([]byte) []byte{
		"cut":   func(b []byte) []byte { return b[:len(b)/2] },
		"other": func([]byte) []byte { return []byte("hello") },
		"bits":  func(b []byte) []byte { b[len(b)-6] ^= 0xff; return b },
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			mustWrite(t, source(t, root, nil), store, nil)
			const index = ".lighterage/index"
			object, err := store.Head(t.Context(), index)
			if err != nil {
				t.Fatal(err)
			}
			r, err := store.Get(t.Context(), index, "", 0, object.Size)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			server.Add(prefix+"/"+index, damage(bytes.Clone(b)), time.Now())
			err = bucket.NewSource(t.Context(), store, nil).Walk(t.Context(), func(*tree.Entry) error { return nil })
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
				t.Errorf("reading: %v", err)
			}
			// Writing finds out by the objects what is there.
			if progress := mustWrite(t, source(t, root, nil), store, nil); progress.GetUnchangedFiles() != 2 {
				t.Errorf("writing: %v", progress)
			}
			entries(t, bucket.NewSource(t.Context(), store, nil))
		})
	}
}

func TestFaults(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": random(5, 100_000), "b/c": "2", "large": random(6, 17<<20)})
	for name, fault := range map[string]func(*objectstoretest.Server){
		"throttled": func(s *objectstoretest.Server) { s.Intercept(objectstoretest.Times(3, "PUT", 503, "SlowDown")) },
		"reset":     func(s *objectstoretest.Server) { s.Reset(3, http.MethodPut, false) },
		"lost":      func(s *objectstoretest.Server) { s.Reset(3, http.MethodPut, true) },
		"completed": func(s *objectstoretest.Server) { s.Reset(2, http.MethodPost, true) },
		"lists":     func(s *objectstoretest.Server) { s.Intercept(objectstoretest.Times(3, "GET", 503, "SlowDown")) },
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			fault(server)
			mustWrite(t, source(t, root, nil), store, nil)
			if server.Uploads() > 0 {
				t.Errorf("%d uploads", server.Uploads())
			}
			server.Truncate(3)
			_, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
			for name, content := range contents {
				b, err := os.ReadFile(filepath.Join(root, name))
				if err != nil || string(b) != content {
					t.Errorf("%s: another content (%v)", name, err)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		status int
		code   string
		want   wirev1.FailureReason
	}{
		"full":    {507, "XMinioStorageFull", wirev1.FailureReason_FAILURE_REASON_STORE_FULL},
		"expired": {403, "ExpiredToken", wirev1.FailureReason_FAILURE_REASON_STORE_DENIED},
		"locked":  {403, "AccessDenied", wirev1.FailureReason_FAILURE_REASON_STORE_DENIED},
		"gone":    {404, "NoSuchBucket", wirev1.FailureReason_FAILURE_REASON_STORE_NOT_FOUND},
		"clock":   {403, "RequestTimeTooSkewed", wirev1.FailureReason_FAILURE_REASON_STORE_CLOCK_SKEW},
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/a") {
					return false
				}
				objectstoretest.Times(1, r.Method, c.status, c.code)(w, r)
				return true
			})
			if _, err := write(t, source(t, root, nil), store, nil); !failure.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// changing is a source one of whose files is another one each time it is read, times times.
type changing struct {
	*tree.Source
	path  string
	times int
}

func (c *changing) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	if e.Path == c.path && c.times > 0 {
		c.times--
		return tree.ErrChanged
	}
	return c.Source.ReadAt(e, p, offset)
}

func TestChangedFiles(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": "1", "b": "2", "c": "3"})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, &changing{Source: source(t, root, nil), path: "b", times: 2}, store, nil)
	if got := keys(server); len(got) != 3 {
		t.Errorf("%q", got)
	}
	put(t, root, map[string]string{"b": "new and longer"})
	if err := os.Remove(filepath.Join(root, "c")); err != nil {
		t.Fatal(err)
	}
	_, err := write(t, &changing{Source: source(t, root, nil), path: "b", times: 9}, store, func(o *bucket.WriteOptions) {
		o.Delete = true
	})
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a file that does not come to rest: %v", err)
	}
	if got := keys(server); len(got) != 3 {
		t.Errorf("something was removed although the run is not complete: %q", got)
	}
	if _, all, contents := entries(t, bucket.NewSource(t.Context(), store, nil)); contents["b"] != "2" ||
		all["b"].Mode != 0o640 {
		t.Errorf("the version before is lost: %+v", all["b"])
	}
}

// TestUploadsOfOthers leaves an upload alone that another tool has begun of an object that is put. Where the answer to
// the request that began ours was lost, nobody could tell the two apart.
func TestUploadsOfOthers(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"large": random(8, 9<<20)})
	for lost, want := range []int{1, 0} {
		server := objectstoretest.New(t, "")
		store := open(t, server, prefix)
		if _, err := store.Create(t.Context(), "large", nil); err != nil {
			t.Fatal(err)
		}
		server.Reset(lost, http.MethodPost, true)
		mustWrite(t, source(t, root, nil), store, nil)
		if got := server.Uploads(); got != want {
			t.Errorf("with %d answers lost %d uploads are left, want %d", lost, got, want)
		}
	}
}
