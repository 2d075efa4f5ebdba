// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/claimstore"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// claimed is a claim with archives of some files, and the directory that they were packed from.
func claimed(t *testing.T, id codec.ID) (store *claimstore.Store, root, volume string, names []string) {
	t.Helper()
	root, volume = t.TempDir(), t.TempDir()
	files := map[string]string{"empty": "", "z/big": random(2, 5<<18)}
	for i := range 20 {
		files[fmt.Sprintf("d%d/f%d", i%3, i)] = fmt.Sprintf("%x", random(uint64(100+i), 30_000))
	}
	put(t, root, files)
	writer, err := claimstore.Open(volume, "p")
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	mustWrite(t, source(t, root, nil), writer, archived(id, 1<<20))
	store, err = claimstore.OpenRead(volume, "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if names, _ = archivesOf(t, store); len(names) < 2 {
		t.Fatalf("there are the archives %q", names)
	}
	return store, root, filepath.Join(volume, "p"), names
}

// TestScrubOfAClaim: archives in a claim are verified like those in an object store, and nothing is written.
func TestScrubOfAClaim(t *testing.T) {
	for _, id := range codecs {
		store, _, volume, names := claimed(t, id)
		// What else is in the path is not looked at.
		put(t, volume, map[string]string{"notes": "nobody's"})
		before := listing(t, volume)
		for _, inflate := range []bool{false, true} {
			report := finds(t, id.String(), store, inflate, map[string]string{})
			p, d := report.GetProgress(), report.GetDecompression().GetSoftware().GetOperations()
			if p.GetFiles() != uint64(len(names)) || p.GetBytes() != p.GetBytesTotal() || report.GetCopyTime() == nil ||
				(d > 0) != (inflate && id != codec.None) {
				t.Errorf("%v, inflate %v: %v, %d operations", id, inflate, p, d)
			}
		}
		if after := listing(t, volume); after != before {
			t.Errorf("%v: there is\n%s, and was\n%s", id, after, before)
		}
	}
}

// listing is what a directory has, with times.
func listing(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, info.Size(), info.Mode(), info.ModTime())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestScrubOfADamagedClaim(t *testing.T) {
	edit := func(path string, change func([]byte) []byte) {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := func(path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	const index = bucket.IndexName
	for name, test := range map[string]struct {
		do func(archive, beside, index string)
		// sums and inflating are what is found, of the archive unless of says another name.
		sums, inflating, of string
	}{
		"a flipped byte": {func(a, _, _ string) { edit(a, flip) }, scrub.Damaged, scrub.Damaged, ""},
		"truncated": {func(a, _, _ string) { edit(a, func(b []byte) []byte { return b[:len(b)/2] }) },
			scrub.Damaged, scrub.Damaged, ""},
		"trailing bytes": {func(a, _, _ string) { edit(a, func(b []byte) []byte { return append(b, "more"...) }) },
			scrub.Damaged, scrub.Damaged, ""},
		"emptied":  {func(a, _, _ string) { edit(a, func([]byte) []byte { return nil }) }, scrub.Damaged, scrub.Damaged, ""},
		"gone":     {func(a, _, _ string) { remove(a) }, tree.OmittedMissing, tree.OmittedMissing, ""},
		"no index": {func(_, b, _ string) { remove(b) }, scrub.IndexMissing, scrub.IndexMissing, ""},
		"an index that is none": {func(_, b, _ string) { edit(b, func([]byte) []byte { return []byte("none") }) },
			scrub.IndexInvalid, scrub.IndexInvalid, ""},
		"an index that lies of what rests": {func(_, b, _ string) {
			edit(b, func(b []byte) []byte {
				b[32+23] ^= 1
				return binary.BigEndian.AppendUint64(b[:len(b)-8], xxh3.Hash(b[:len(b)-8]))
			})
		}, scrub.Damaged, scrub.IndexInvalid, ""},
		"a directory in its place": {func(a, _, _ string) {
			remove(a)
			if err := os.Mkdir(a, 0o700); err != nil {
				t.Fatal(err)
			}
		}, tree.OmittedMissing, tree.OmittedMissing, ""},
		"a link in its place": {func(a, _, _ string) {
			remove(a)
			if err := os.Symlink("/etc/passwd", a); err != nil {
				t.Fatal(err)
			}
		}, tree.OmittedMissing, tree.OmittedMissing, ""},
		"the index of all": {func(_, _, i string) { edit(i, func(b []byte) []byte { return b[:9] }) },
			scrub.IndexInvalid, scrub.IndexInvalid, index},
		"no index of all": {func(_, _, i string) { remove(i) }, scrub.IndexMissing, scrub.IndexMissing, index},
	} {
		store, _, volume, names := claimed(t, codec.Deflate)
		test.do(filepath.Join(volume, tars+names[1]), filepath.Join(volume, tars+"."+names[1]+".lgci"),
			filepath.Join(volume, index))
		of := test.of
		if of == "" {
			of = tars + names[1]
		}
		for inflate, what := range map[bool]string{false: test.sums, true: test.inflating} {
			finds(t, name, store, inflate, map[string]string{what: of})
		}
	}
	volume := t.TempDir()
	put(t, volume, map[string]string{"a": "plain files"})
	store, err := claimstore.OpenRead(volume, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := scrubbed(t, store, false); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND) {
		t.Errorf("without archives: %v", err)
	}
}

// badDisk is a claim on a disk that cannot read the objects whose names end with some text, from a byte on.
type badDisk struct {
	bucket.Store
	end  string
	from int64
}

func (d badDisk) Get(ctx context.Context, name, etag string, offset, length int64) (objectstore.Content, error) {
	content, err := d.Store.Get(ctx, name, etag, offset, length)
	if err == nil && strings.HasSuffix(name, d.end) {
		return &badSector{content, name, max(d.from-offset, 0)}, nil
	}
	return content, err
}

type badSector struct {
	objectstore.Content
	name string
	left int64
}

func (s *badSector) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, &fs.PathError{Op: "read", Path: s.name, Err: syscall.EIO}
	}
	n, err := s.Content.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// TestWriteFromABadDisk: a run does not go on behind what it cannot read of the index, which it would forget.
func TestWriteFromABadDisk(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"file": "content"})
	for i := range 2000 {
		target := fmt.Sprintf("%x", random(uint64(i), 100))
		if err := os.Symlink(target, filepath.Join(root, fmt.Sprintf("link%04d", i))); err != nil {
			t.Fatal(err)
		}
	}
	store := open(t, objectstoretest.New(t, ""), prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	before, err := store.Head(t.Context(), bucket.IndexName)
	if err != nil || before.Size < 160<<10 {
		t.Fatalf("the index has %d bytes, %v", before.Size, err)
	}
	disk := badDisk{store, bucket.IndexName, before.Size - 1000}
	if _, err := write(t, source(t, root, nil), disk, nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("the run ends with %v", err)
	}
	if after, err := store.Head(t.Context(), bucket.IndexName); err != nil || after.ETag != before.ETag {
		t.Errorf("the index was replaced, %v", err)
	}
}

// TestScrubOfABadDisk: what cannot be read is damaged, and the rest is verified.
func TestScrubOfABadDisk(t *testing.T) {
	store, _, _, names := claimed(t, codec.Zstd)
	for end, want := range map[string]map[string]string{
		names[0]:           {scrub.Damaged: tars + names[0]},
		names[0] + ".lgci": {scrub.IndexInvalid: tars + names[0]},
		"/index":           {scrub.IndexInvalid: bucket.IndexName},
	} {
		for _, inflate := range []bool{false, true} {
			finds(t, "a bad "+end, badDisk{store, end, 0}, inflate, want)
		}
	}
}

// onceBad is a disk that cannot read the index the nth time.
type onceBad struct {
	bucket.Store
	n int
}

func (d *onceBad) Get(ctx context.Context, name, etag string, offset, length int64) (objectstore.Content, error) {
	content, err := d.Store.Get(ctx, name, etag, offset, length)
	if err == nil && name == bucket.IndexName {
		if d.n--; d.n == 0 {
			return &badSector{content, name, 0}, nil
		}
	}
	return content, err
}

// TestScrubOfADiskThatRecovers: when the index can be read again, all that it names is looked at, and counted once.
func TestScrubOfADiskThatRecovers(t *testing.T) {
	store, _, volume, names := claimed(t, codec.Deflate)
	for n := range 3 { // The first pass has the second time, and when it inflates the third.
		for _, inflate := range []bool{false, true} {
			p := finds(t, fmt.Sprint("intact, ", n), &onceBad{store, n + 1}, inflate, map[string]string{}).GetProgress()
			if p.GetFiles() != uint64(len(names)) || p.GetFilesTotal() != p.GetFiles() || p.GetBytes() != p.GetBytesTotal() {
				t.Errorf("%d, inflate %v: %v", n, inflate, p)
			}
		}
	}
	path := filepath.Join(volume, tars+names[1])
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range 7 {
		for _, inflate := range []bool{false, true} {
			report, err := scrubbed(t, &onceBad{store, n}, inflate)
			if err != nil {
				t.Fatal(err)
			}
			found := uint64(0)
			for _, o := range report.GetOmissions() {
				if o.GetWhat() == scrub.Damaged {
					found = o.GetCount()
				}
			}
			if found != 1 {
				t.Errorf("%d, inflate %v: found %v", n, inflate, report.GetOmissions())
			}
		}
	}
}

// TestScrubOfAFirstRun: archives of a run that has written no index yet are no damage.
func TestScrubOfAFirstRun(t *testing.T) {
	store, _, volume, _ := claimed(t, codec.Deflate)
	if err := os.Remove(filepath.Join(volume, bucket.IndexName)); err != nil {
		t.Fatal(err)
	}
	put(t, volume, map[string]string{bucket.Reserved + "/writer": "a run"})
	if _, err := scrubbed(t, store, false); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND) {
		t.Errorf("the scrub ends with %v", err)
	}
}

// TestScrubOfAClaimThatIsWritten: archives that a run replaces meanwhile are no damage.
func TestScrubOfAClaimThatIsWritten(t *testing.T) {
	store, root, volume, _ := claimed(t, codec.Deflate)
	for i := range 20 {
		put(t, root, map[string]string{fmt.Sprintf("d%d/f%d", i%3, i): fmt.Sprintf("%x", random(uint64(300+i), 30_000))})
	}
	writer, err := claimstore.Open(filepath.Dir(volume), "p")
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	written := false
	report := finds(t, "a run meanwhile", firstArchive{store, sync.OnceFunc(func() {
		written = true
		mustWrite(t, source(t, root, nil), writer, and(archived(codec.Deflate, 1<<20), mirrored, attempt(2)))
	})}, false, map[string]string{})
	if !written || report.GetProgress().GetFiles() == 0 {
		t.Errorf("nobody wrote: %v", report.GetProgress())
	}
}

// firstArchive calls then before an archive is looked at.
type firstArchive struct {
	bucket.Store
	then func()
}

func (f firstArchive) Head(ctx context.Context, name string) (objectstore.Object, error) {
	if strings.HasPrefix(name, tars) {
		f.then()
	}
	return f.Store.Head(ctx, name)
}
