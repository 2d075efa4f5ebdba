// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// archived has files packed with a codec into archives of a size.
func archived(id codec.ID, size int64) func(*bucket.WriteOptions) {
	return func(o *bucket.WriteOptions) {
		o.Archive = &bucket.ArchiveOptions{
			Codec: id, Engines: engines.Default(), Size: size,
			Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
		}
	}
}

// and does one change after the other.
func and(all ...func(*bucket.WriteOptions)) func(*bucket.WriteOptions) {
	return func(o *bucket.WriteOptions) {
		for _, change := range all {
			change(o)
		}
	}
}

func mirrored(o *bucket.WriteOptions) { o.Delete = true }

func attempt(n uint32) func(*bucket.WriteOptions) {
	return func(o *bucket.WriteOptions) { o.Attempt = n }
}

// read returns an object.
func read(t *testing.T, store bucket.Store, name string) []byte {
	t.Helper()
	object, err := store.Head(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Get(t.Context(), name, "", 0, object.Size)
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

// archivesOf are the names of the archives, in order, and what else is in their directory but for their indexes.
func archivesOf(t *testing.T, store bucket.Store) (names, others []string) {
	t.Helper()
	indexes := map[string]bool{}
	for object, err := range store.List(t.Context(), bucket.Reserved+"/archives/") {
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(object.Name)
		switch {
		case strings.HasSuffix(name, ".lgci"):
			indexes[name] = true
		case strings.Contains(name, ".tar"):
			names = append(names, name)
		default:
			others = append(others, object.Name)
		}
	}
	for _, name := range names {
		if !indexes["."+name+".lgci"] {
			t.Errorf("%s has no index", name)
		}
		delete(indexes, "."+name+".lgci")
	}
	for name := range indexes {
		others = append(others, name)
	}
	return names, others
}

// restored reports differences between a tree and what is read from a bucket.
func restored(t *testing.T, root string, store bucket.Store) {
	t.Helper()
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
}

var codecs = []codec.ID{codec.None, codec.Deflate, codec.Zstd}

// TestArchives has a tree travel into archives and back, and tar extract them.
func TestArchives(t *testing.T) { inPlaces(t, archives) }

func archives(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	long := strings.Repeat("a long name/", 30)
	root := t.TempDir()
	put(t, root, map[string]string{
		"a/b/deep.txt": "deep", "a-b": "sorts before", "a.txt": "x", "empty": "", "b": "b",
		"large.bin": random(1, 5<<20), "text": strings.Repeat("lines\n", 300_000), long + "end": "long",
		"exact": strings.Repeat("x", 512), "ümlaut": "y", "not UTF-8 \xff": "z",
	})
	for i := range 3000 {
		put(t, root, map[string]string{fmt.Sprintf("many/%02d/%04d", i%40, i): strings.Repeat("content ", i%50)})
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(root, "nothing"), 0o711),
		os.Symlink("../elsewhere", filepath.Join(root, "a/link")),
		os.Link(filepath.Join(root, "a/b/deep.txt"), filepath.Join(root, "second")),
		os.Link(filepath.Join(root, "a.txt"), filepath.Join(root, "a.txt.again")),
		unix.Mkfifo(filepath.Join(root, "pipe"), 0o600),
		os.Chmod(filepath.Join(root, "b"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = unix.Setxattr(filepath.Join(root, "b"), "user.colour", []byte("blue"), 0)
	for _, id := range codecs {
		t.Run(id.String(), func(t *testing.T) {
			store := at(t)
			progress := mustWrite(t, source(t, root, nil), store, archived(id, 1<<20))
			if progress.GetFiles() != 3011 || progress.GetUnchangedFiles() != 0 {
				t.Errorf("progress %v, want 3011 new files", progress)
			}
			if left, uploads := store.left(); len(left) > 0 || uploads > 0 {
				t.Errorf("objects %q and %d uploads beside the archives", left, uploads)
			}
			names, others := archivesOf(t, store)
			if len(names) < 4 || len(others) > 0 {
				t.Errorf("archives %q, beside them %q", names, others)
			}
			restored(t, root, store)

			before := 0
			if store.server != nil {
				before = len(store.server.Requests())
			}
			progress = mustWrite(t, source(t, root, nil), store, archived(id, 1<<20))
			again, _ := archivesOf(t, store)
			if progress.GetUnchangedFiles() != 3011 || !slices.Equal(again, names) {
				t.Errorf("nothing changed: %v, archives %q", progress, again)
			}
			if store.server != nil && len(store.server.Requests()) > before+40 {
				t.Errorf("%d requests where nothing changed", len(store.server.Requests())-before)
			}

			into := untar(t, store, names)
			_, want, contents := entries(t, source(t, root, nil))
			_, got, tarred := entries(t, source(t, into, nil))
			for path, w := range want {
				g, ok := got[path]
				// Of further names tar has those in the archive of the file. The root's attributes are the index's.
				if path == "." || !ok && w.Type == tree.HardLink {
					continue
				}
				if g.Type != w.Type || g.Mode != w.Mode || g.Target != w.Target || tarred[path] != contents[path] ||
					w.Type == tree.File && g.Modified != w.Modified/1e9*1e9 {
					t.Errorf("%s by tar: got %+v, want %+v", path, g, w)
				}
			}
			if got["a.txt.again"].Type != tree.HardLink {
				t.Error("tar does not have the further name of a file beside it")
			}
		})
	}
}

// TestArchivesOfRuns has the next runs pack what changed, and pack again what is left of archives.
func TestArchivesOfRuns(t *testing.T) { inPlaces(t, archivesOfRuns) }

func archivesOfRuns(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{}
	for i := range 60 {
		files[fmt.Sprintf("f%02d", i)] = random(uint64(i), 100<<10)
	}
	put(t, root, files)
	store := at(t)
	mustWrite(t, source(t, root, nil), store, archived(codec.Zstd, 2<<20))
	first, _ := archivesOf(t, store)
	put(t, root, map[string]string{"f30": "changed", "new": "new"})
	progress := mustWrite(t, source(t, root, nil), store, archived(codec.Zstd, 2<<20))
	second, _ := archivesOf(t, store)
	if progress.GetUnchangedFiles() != 59 || len(second) != len(first)+1 || !slices.Equal(second[:len(first)], first) {
		t.Errorf("%v, archives %q after %q", progress, second, first)
	}
	restored(t, root, store)
	if contents := untar(t, store, second); true {
		if b, err := os.ReadFile(filepath.Join(contents, "f30")); err != nil || string(b) != "changed" {
			t.Errorf("tar extracts %q, %v last", b, err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "hollow"), 0o700); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, source(t, root, nil), store, archived(codec.Zstd, 2<<20))
	if again, _ := archivesOf(t, store); !slices.Equal(again, second) {
		t.Errorf("a directory has an archive: %q", again)
	}
	restored(t, root, store)
	// What the source does not have any more stays, and its archives do.
	for i := range 60 {
		if i%20 > 2 {
			if err := os.Remove(filepath.Join(root, fmt.Sprintf("f%02d", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustWrite(t, source(t, root, nil), store, archived(codec.Zstd, 2<<20))
	if _, all, _ := entries(t, bucket.NewSource(t.Context(), store, nil)); len(all) != 63 {
		t.Errorf("%d entries without delete, want all 63", len(all))
	}
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Zstd, 2<<20), mirrored))
	restored(t, root, store)
	// Of some archives less than a half is left. The next run packs that again.
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Zstd, 2<<20), mirrored))
	restored(t, root, store)
	third, others := archivesOf(t, store)
	stored := 0
	for _, name := range third {
		stored += len(read(t, store, bucket.Reserved+"/archives/"+name))
		if slices.Contains(first, name) && len(third) > 2 {
			t.Errorf("%s is kept for a few of its files", name)
		}
	}
	if stored > 2<<20 || len(others) > 0 {
		t.Errorf("%d bytes are stored for 900 KiB, in %q and %q", stored, third, others)
	}
	// An empty source does not empty the archives unasked.
	_, err := write(t, source(t, t.TempDir(), nil), store, and(archived(codec.Zstd, 0), mirrored))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY) {
		t.Errorf("an empty source: %v", err)
	}
	mustWrite(t, source(t, t.TempDir(), nil), store, and(
		archived(codec.Zstd, 0), mirrored, func(o *bucket.WriteOptions) { o.AllowEmpty = true },
	))
	if left, _ := archivesOf(t, store); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestArchivesBesideObjects changes the form, and has others put objects where files are in archives.
func TestArchivesBesideObjects(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": "1", "b/c": "2", "d": "3"})
	if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "z")); err != nil {
		t.Fatal(err)
	}
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	mustWrite(t, source(t, root, nil), store, archived(codec.Deflate, 0))
	if left := keys(server); len(left) > 0 {
		t.Errorf("objects %q are left beside archives", left)
	}
	restored(t, root, store)

	if _, err := store.Put(t.Context(), "b/c", strings.NewReader("theirs"), 6, objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if contents["b/c"] != "theirs" || contents["a"] != "1" {
		t.Errorf("the bucket has %q", contents)
	}
	mustWrite(t, source(t, root, nil), store, archived(codec.Deflate, 0))
	restored(t, root, store)

	mustWrite(t, source(t, root, nil), store, nil)
	if names, others := archivesOf(t, store); len(names)+len(others) > 0 || len(keys(server)) != 3 {
		t.Errorf("archives %q and %q, objects %q", names, others, keys(server))
	}
	restored(t, root, store)
}

// limited is a source that fails behind so many bytes, and counts them.
type limited struct {
	*tree.Source
	left, read atomic.Int64
}

var errLimited = errors.New("the node goes away")

func (l *limited) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	if l.left.Add(-int64(len(p))) < 0 {
		return errLimited
	}
	l.read.Add(int64(len(p)))
	return l.Source.ReadAt(e, p, offset)
}

// TestArchivesResumed ends attempts in the middle of archives, and of a file that has one of its own.
func TestArchivesResumed(t *testing.T) {
	moves(t)
	inPlaces(t, archivesResumed)
}

func archivesResumed(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	root := t.TempDir()
	files, total := map[string]string{"large": random(9, 60<<20)}, int64(60<<20)
	for i := range 120 {
		files[fmt.Sprintf("f%03d", i)] = random(uint64(i), 500<<10)
		total += 500 << 10
	}
	put(t, root, files)
	if err := os.Mkdir(filepath.Join(root, "directory"), 0o750); err != nil {
		t.Fatal(err)
	}
	for id, stops := range map[codec.ID][]int64{codec.Zstd: {50 << 20}, codec.Deflate: {90 << 20}} {
		for _, stop := range stops {
			t.Run(fmt.Sprintf("%v/%d", id, stop>>20), func(t *testing.T) {
				store := at(t)
				l := &limited{Source: source(t, root, nil)}
				l.left.Store(stop)
				if _, err := write(t, l, store, archived(id, 40<<20)); !errors.Is(err, errLimited) {
					t.Fatalf("the first attempt: %v", err)
				}
				// Two parts at once, of 8 MiB, may be on their way, beside one that is filled, and blocks.
				again := &limited{Source: source(t, root, nil)}
				again.left.Store(total - stop + 32<<20)
				progress := mustWrite(t, again, store, and(archived(id, 40<<20), attempt(2)))
				t.Logf("read %d MiB again of %d: %v", again.read.Load()>>20, total>>20, progress)
				restored(t, root, store)
				names, others := archivesOf(t, store)
				if left, uploads := store.left(); uploads > 0 || len(others)+len(left) > 0 {
					t.Errorf("%d uploads, %q and %q are left", uploads, others, left)
				}
				_, _, want := entries(t, source(t, root, nil))
				if _, _, got := entries(t, source(t, untar(t, store, names), nil)); len(got) != len(want) ||
					got["large"] != want["large"] || got["f100"] != want["f100"] {
					t.Errorf("tar extracts %d files of %d, or another content", len(got), len(want))
				}
			})
		}
	}
}

// TestArchivesResumedElsewhere ends an attempt within a file that is another one for the next.
func TestArchivesResumedElsewhere(t *testing.T) {
	moves(t)
	root := t.TempDir()
	put(t, root, map[string]string{"a": "1", "large": random(9, 40<<20)})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	l := &limited{Source: source(t, root, nil)}
	l.left.Store(30 << 20)
	if _, err := write(t, l, store, archived(codec.Zstd, 0)); !errors.Is(err, errLimited) {
		t.Fatalf("the first attempt: %v", err)
	}
	put(t, root, map[string]string{"large": random(10, 39<<20)})
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Zstd, 0), attempt(2)))
	restored(t, root, store)
	if names, others := archivesOf(t, store); server.Uploads() > 0 || len(names) != 1 || len(others) > 0 {
		t.Errorf("%d uploads, archives %q, and %q are left", server.Uploads(), names, others)
	}
	// Another form begins with the archives of another attempt as well.
	put(t, root, map[string]string{"large": random(11, 40<<20)})
	l.left.Store(30 << 20)
	if _, err := write(t, l, store, archived(codec.Zstd, 0)); !errors.Is(err, errLimited) {
		t.Fatalf("the second attempt: %v", err)
	}
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Deflate, 0), attempt(2)))
	restored(t, root, store)
	mustWrite(t, source(t, root, nil), store, attempt(3))
	if names, others := archivesOf(t, store); server.Uploads() > 0 || len(names)+len(others) > 0 {
		t.Errorf("%d uploads, archives %q, and %q are left", server.Uploads(), names, others)
	}
}

// restless is a source of whose files some are others each time they are read, so many times.
type restless struct {
	*tree.Source
	mu   sync.Mutex
	left map[string]int
}

func (r *restless) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	r.mu.Lock()
	left := r.left[e.Path]
	r.left[e.Path] = max(left-1, 0)
	r.mu.Unlock()
	if left > 0 {
		return tree.ErrChanged
	}
	return r.Source.ReadAt(e, p, offset)
}

// TestArchivesOfChangedFiles has files change while they are packed.
func TestArchivesOfChangedFiles(t *testing.T) { inPlaces(t, archivesOfChangedFiles) }

func archivesOfChangedFiles(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"large": random(1, 3<<20)}
	for i := range 50 {
		files[fmt.Sprintf("f%02d", i)] = strings.Repeat(fmt.Sprint(i), 1000)
	}
	put(t, root, files)
	store := at(t)
	origin := &restless{Source: source(t, root, nil), left: map[string]int{"f07": 1, "large": 2}}
	mustWrite(t, origin, store, archived(codec.Deflate, 0))
	restored(t, root, store)
	names, _ := archivesOf(t, store)
	if b, err := os.ReadFile(filepath.Join(untar(t, store, names), "f07")); err != nil || string(b) != files["f07"] {
		t.Errorf("tar extracts %d bytes last, %v", len(b), err)
	}
	put(t, root, map[string]string{"f07": "changes all the time", "new": "does so as well"})
	if err := os.Link(filepath.Join(root, "new"), filepath.Join(root, "newer")); err != nil {
		t.Fatal(err)
	}
	origin.left = map[string]int{"f07": 9, "new": 9}
	_, err := write(t, origin, store, archived(codec.Deflate, 0))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) {
		t.Errorf("files that change all the time: %v", err)
	}
	_, all, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if contents["f07"] != files["f07"] || all["new"].Type != 0 || all["newer"].Type != 0 {
		t.Errorf("the bucket has %q, %+v and %+v", contents["f07"], all["new"], all["newer"])
	}
	mustWrite(t, source(t, root, nil), store, archived(codec.Deflate, 0))
	restored(t, root, store)
}

// TestArchivesWait has a file in an unfinished block that others wait for: a changed one at the begin of many that are
// not.
func TestArchivesWait(t *testing.T) {
	moves(t)
	if testing.Short() {
		t.Skip("it makes many files")
	}
	root := t.TempDir()
	put(t, root, map[string]string{"a": "1"})
	directory := strings.Repeat("d", 200) + "/" + strings.Repeat("e", 200) + "/" + strings.Repeat("f", 200)
	if err := os.MkdirAll(filepath.Join(root, directory), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 40_000 {
		name := fmt.Sprintf("%s/%s%06d", directory, strings.Repeat("n", 200), i)
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, archived(codec.Zstd, 0))
	put(t, root, map[string]string{"a": "12"})
	progress := mustWrite(t, source(t, root, nil), store, archived(codec.Zstd, 0))
	if progress.GetUnchangedFiles() != 40_000 {
		t.Errorf("%v", progress)
	}
}

// TestDamagedArchives reads archives and indexes that are not what was written.
func TestDamagedArchives(t *testing.T) { inPlaces(t, damagedArchives) }

func damagedArchives(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	root := t.TempDir()
	put(t, root, map[string]string{"a": random(1, 100<<10), "b": random(2, 100<<10), "c": strings.Repeat("c", 1000)})
	for _, id := range codecs {
		t.Run(id.String(), func(t *testing.T) {
			store := at(t)
			mustWrite(t, source(t, root, nil), store, archived(id, 0))
			names, _ := archivesOf(t, store)
			archive := bucket.Reserved + "/archives/" + names[0]
			index := bucket.Reserved + "/archives/." + names[0] + ".lgci"
			goodArchive, goodIndex := read(t, store, archive), read(t, store, index)
			set := func(name string, content []byte) {
				if _, err := store.Put(t.Context(), name, bytes.NewReader(content), int64(len(content)),
					objectstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			changed := func(b []byte, at int) []byte {
				b = bytes.Clone(b)
				b[at] ^= 1
				return b
			}
			invalid := wirev1.FailureReason_FAILURE_REASON_INVALID_DATA
			gone := wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED
			for what, c := range map[string]struct {
				damage func()
				want   wirev1.FailureReason
			}{
				"a bit":              {func() { set(archive, changed(goodArchive, len(goodArchive)/2)) }, invalid},
				"a short archive":    {func() { set(archive, goodArchive[:len(goodArchive)-9]) }, invalid},
				"a long archive":     {func() { set(archive, append(bytes.Clone(goodArchive), 1)) }, invalid},
				"a bit of the index": {func() { set(index, changed(goodIndex, 40)) }, invalid},
				"a short index":      {func() { set(index, goodIndex[:20]) }, invalid},
				"no archive":         {func() { _ = store.Delete(t.Context(), archive) }, gone},
				"no index":           {func() { _ = store.Delete(t.Context(), index) }, gone},
			} {
				set(archive, goodArchive)
				set(index, goodIndex)
				c.damage()
				s := bucket.NewSource(t.Context(), store, nil)
				var failed error
				err := s.Walk(t.Context(), func(e *tree.Entry) error {
					if e.Type == tree.File && failed == nil {
						failed = s.ReadAt(e, make([]byte, e.Size), 0)
					}
					return nil
				})
				if err != nil || !failure.Is(failed, c.want) {
					t.Errorf("%s: %v, %v", what, err, failed)
				}
			}
			// The next run packs what no archive has any more.
			set(index, goodIndex)
			if err := store.Delete(t.Context(), archive); err != nil {
				t.Fatal(err)
			}
			mustWrite(t, source(t, root, nil), store, archived(id, 0))
			restored(t, root, store)
		})
	}
}

// TestArchiveFaults has a server fail for a moment with each request of a run, and then for good.
func TestArchiveFaults(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": random(1, 9<<20), "b": "2", "c/d": "3"})
	for n := int64(0); ; n += 3 {
		server := objectstoretest.New(t, "")
		store := open(t, server, prefix)
		var requests atomic.Int64
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			if requests.Add(1) <= n {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		_, err := write(t, source(t, root, nil), store, archived(codec.Zstd, 8<<20))
		server.Intercept(nil)
		if err != nil {
			mustWrite(t, source(t, root, nil), store, and(archived(codec.Zstd, 8<<20), attempt(2)))
		}
		restored(t, root, store)
		if names, others := archivesOf(t, store); server.Uploads() > 0 || len(others) > 0 || len(names) > 3 {
			t.Errorf("after request %d: %d uploads, archives %q, and %q", n, server.Uploads(), names, others)
		}
		if err == nil && requests.Load() <= n {
			t.Logf("a run has %d requests", n)
			return
		}
	}
}
