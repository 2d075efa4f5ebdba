// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/claimstore"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const archive = ".lighterage/archives/a.tar"

func open(t *testing.T) (store *claimstore.Store, root string) {
	t.Helper()
	volume := t.TempDir()
	store, err := claimstore.Open(volume, "b/c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store, filepath.Join(volume, "b/c")
}

func put(t *testing.T, s *claimstore.Store, name, content string) (etag string) {
	t.Helper()
	etag, err := s.Put(t.Context(), name, strings.NewReader(content), int64(len(content)), objectstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

func get(t *testing.T, s *claimstore.Store, name, etag string, offset, length int64) (string, error) {
	t.Helper()
	r, err := s.Get(t.Context(), name, etag, offset, length)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func TestObjects(t *testing.T) {
	s, root := open(t)
	first := put(t, s, ".lighterage/index", "first")
	second := put(t, s, ".lighterage/index", "another one")
	if o, err := s.Head(t.Context(), ".lighterage/index"); err != nil || o.ETag != second || o.Size != 11 || first == second {
		t.Errorf("%+v, %v; put as %q and %q", o, err, first, second)
	}
	if got, err := get(t, s, ".lighterage/index", second, 0, 7); got != "another" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	for what, c := range map[string]struct {
		name, etag     string
		offset, length int64
		want           error
	}{
		"another version": {".lighterage/index", first, 0, 1, objectstore.ErrChanged},
		"too long":        {".lighterage/index", "", 5, 7, objectstore.ErrChanged},
		"behind it":       {".lighterage/index", "", 1 << 62, 1 << 62, objectstore.ErrChanged},
		"none":            {".lighterage/none", "", 0, 1, objectstore.ErrNotFound},
		"a directory":     {".lighterage/writing/x", "", 0, 1, objectstore.ErrName},
	} {
		if _, err := get(t, s, c.name, c.etag, c.offset, c.length); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Put(t.Context(), ".lighterage/index", strings.NewReader("x"), 1,
		objectstore.PutOptions{IfAbsent: true}); !errors.Is(err, objectstore.ErrExists) {
		t.Errorf("put where there is one: %v", err)
	}
	put(t, s, ".lighterage/archives/journal/a.tar/00001", "1")
	put(t, s, ".lighterage/archives/journal-", "2")
	var names []string
	for o, err := range s.List(t.Context(), ".lighterage/archives/") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Name)
	}
	if want := ".lighterage/archives/journal- .lighterage/archives/journal/a.tar/00001"; strings.Join(names, " ") != want {
		t.Errorf("listed %q", names)
	}
	for range 2 {
		if err := s.Delete(t.Context(), ".lighterage/archives/journal/a.tar/00001"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, ".lighterage/archives/journal/a.tar")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a journal: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(root, ".lighterage/writing")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Parts may be put in any order and again, an end may cut the note on them anywhere, and another process goes on.
func TestUploads(t *testing.T) {
	s, root := open(t)
	u, err := s.Create(t.Context(), archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	var parts []objectstore.Part
	for _, p := range []struct {
		number  int
		offset  int64
		content string
	}{{3, 8, "ccc"}, {1, 0, "aaaa"}, {2, 4, "xxxx"}, {2, 4, "bbbb"}} {
		part, err := s.PutPart(t.Context(), u, p.number, p.offset, strings.NewReader(p.content), int64(len(p.content)))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	if got, err := s.Parts(t.Context(), u); err != nil || len(got) != 3 || got[1] != parts[3] {
		t.Errorf("parts %v, %v", got, err)
	}
	if _, err := s.Complete(t.Context(), u, []objectstore.Part{parts[1], parts[2]}, false); !errors.Is(err,
		objectstore.ErrInvalid) {
		t.Errorf("completed with a part that was replaced: %v", err)
	}
	notePath := filepath.Join(root, ".lighterage/writing", u.ID+".parts")
	note, err := os.ReadFile(notePath)
	if err != nil {
		t.Fatal(err)
	}
	for n := range note {
		if err := os.WriteFile(notePath, note[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := s.Parts(t.Context(), u)
		if n < len(archive) {
			if !errors.Is(err, objectstore.ErrNoUpload) {
				t.Fatalf("a note of %d bytes: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("a note of %d bytes: %v", n, err)
		}
		var end int64
		for _, part := range got {
			end += part.Size
		}
		if _, err := s.PutPart(t.Context(), u, len(got)+1, end, strings.NewReader("new"), 3); err != nil {
			t.Fatal(err)
		}
		if after, err := s.Parts(t.Context(), u); err != nil || len(after) < len(got)+1 || after[len(got)].Size != 3 {
			t.Fatalf("a note of %d bytes: parts %v after %v, %v", n, after, got, err)
		}
		// What was there before.
		if err := os.WriteFile(filepath.Join(root, ".lighterage/writing", u.ID), []byte("aaaabbbbccc"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(notePath, note, 0o600); err != nil {
		t.Fatal(err)
	}
	all := []objectstore.Part{parts[1], parts[3]}
	etag, err := s.Complete(t.Context(), u, all, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, s, archive, etag, 0, 8); got != "aaaabbbb" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := s.Complete(t.Context(), u, all, false); !errors.Is(err, objectstore.ErrNoUpload) {
		t.Errorf("completed again: %v", err)
	}
	if _, err := s.PutPart(t.Context(), u, 1, 0, strings.NewReader(""), 0); !errors.Is(err, objectstore.ErrNoUpload) {
		t.Errorf("put a part of an upload that has ended: %v", err)
	}
}

// Parts whose bytes are others are put again.
func TestDamagedParts(t *testing.T) {
	s, root := open(t)
	u, err := s.Create(t.Context(), archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if _, err := s.PutPart(t.Context(), u, n+1, int64(4*n), strings.NewReader("abcd"), 4); err != nil {
			t.Fatal(err)
		}
	}
	for content, want := range map[string]int{"abcdabcdabcd": 3, "abcdabcdabc": 2, "abcdabXdabcd": 1, "": 0} {
		if err := os.WriteFile(filepath.Join(root, ".lighterage/writing", u.ID), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Parts(t.Context(), u); err != nil || len(got) != want {
			t.Errorf("%q: parts %v, %v", content, got, err)
		}
	}
}

// Uploads of others stay, and what is left of no upload is found without a name.
func TestAborted(t *testing.T) {
	s, root := open(t)
	u, err := s.Create(t.Context(), archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), ".lighterage/index", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{strings.Repeat("A", 26), "none of ours"} {
		if err := os.WriteFile(filepath.Join(root, ".lighterage/writing", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	for u, err := range s.Uploads(t.Context(), ".lighterage/archives/") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, u.Name)
		if err := s.Abort(t.Context(), u); err != nil {
			t.Error(err)
		}
	}
	if len(found) != 2 || found[0]+found[1] != archive {
		t.Errorf("found %q", found)
	}
	if _, err := s.Parts(t.Context(), u); !errors.Is(err, objectstore.ErrNoUpload) {
		t.Errorf("parts of what was aborted: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(root, ".lighterage/writing")); len(left) != 3 {
		t.Errorf("%v are left", left)
	}
}

// Nothing outside of the directory is opened or removed, whatever somebody puts in the place of an object, and nobody
// waits for the other end of a FIFO.
func TestHostileDirectory(t *testing.T) {
	s, root := open(t)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := s.Create(t.Context(), archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(root, ".lighterage")
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(ours, "index")),
		os.Symlink(filepath.Dir(outside), filepath.Join(ours, "archives")),
		unix.Mkfifo(filepath.Join(ours, "writer"), 0o600),
		os.Mkdir(filepath.Join(ours, "uploads"), 0o700),
		os.Remove(filepath.Join(ours, "writing", u.ID)),
		os.Symlink(outside, filepath.Join(ours, "writing", u.ID)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"index", "archives/secret", "writer", "uploads"} {
		if o, err := s.Head(t.Context(), ".lighterage/"+name); err == nil {
			t.Errorf("%s is %+v", name, o)
		}
	}
	for o, err := range s.List(t.Context(), ".lighterage/archives/") {
		if err == nil {
			t.Errorf("listed %+v", o)
		}
	}
	if _, err := s.PutPart(t.Context(), u, 1, 0, strings.NewReader("x"), 1); err == nil {
		t.Error("a part was put through a link")
	}
	if _, err := s.Put(t.Context(), ".lighterage/archives/secret", strings.NewReader("x"), 1,
		objectstore.PutOptions{}); err == nil {
		t.Error("an object was put through a link")
	}
	put(t, s, ".lighterage/index", "ours")
	for _, name := range []string{
		"", "a", ".lighterage", ".lighterage/", ".lighterage/../../secret", "/etc/passwd", ".lighterage/writing",
		".lighterage/writing/x", ".lighterage//index",
	} {
		if err := s.Check(name); !errors.Is(err, objectstore.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := s.Put(t.Context(), name, strings.NewReader(""), 0, objectstore.PutOptions{}); err == nil {
			t.Errorf("%q was put", name)
		}
		if err := s.Delete(t.Context(), name); err == nil {
			t.Errorf("%q was deleted", name)
		}
	}
	for _, id := range []string{"", "../index", "../../secret", strings.Repeat("a", 26), u.ID + "/x"} {
		evil := objectstore.Upload{Name: archive, ID: id}
		if _, err := s.Parts(t.Context(), evil); !errors.Is(err, objectstore.ErrNoUpload) {
			t.Errorf("parts of %q: %v", id, err)
		}
		if err := s.Abort(t.Context(), evil); err != nil {
			t.Errorf("abort %q: %v", id, err)
		}
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "secret" {
		t.Errorf("the secret is %q, %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(ours, "index")); err != nil || string(b) != "ours" {
		t.Errorf("the index is %q, %v", b, err)
	}
}

// What a context ends leaves nothing under its name, and what cannot be opened says why.
func TestFailures(t *testing.T) {
	s, root := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, archive, bytes.NewReader(make([]byte, 10)), 10, objectstore.PutOptions{}); err == nil {
		t.Error("it was put")
	}
	if _, err := s.Put(t.Context(), archive, bytes.NewReader(nil), 10, objectstore.PutOptions{}); err == nil {
		t.Error("more was put than there is")
	}
	if _, err := s.Head(t.Context(), archive); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("the object: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(root, ".lighterage/writing")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, file := claimstore.Open(volume, "file")
	_, above := claimstore.Open(volume, "../x")
	_, missing := claimstore.OpenSource(t.Context(), volume, "missing")
	_, empty := claimstore.OpenSource(t.Context(), volume, ".")
	for what, c := range map[string]struct {
		err    error
		reason wirev1.FailureReason
	}{
		"file":    {file, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE},
		"above":   {above, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND},
		"missing": {missing, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND},
		"empty":   {empty, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND},
	} {
		if !failure.Is(c.err, c.reason) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
}

// TestLinkInPlaceOfArchives: what is behind a link is no archive, so nothing is listed, and swept, there.
func TestLinkInPlaceOfArchives(t *testing.T) {
	for _, name := range []string{bucket.Reserved, bucket.Reserved + "/archives", bucket.Reserved + "/writing"} {
		volume := t.TempDir()
		if err := os.MkdirAll(filepath.Join(volume, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(volume, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(volume, "data"), filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
		if store, err := claimstore.Open(volume, "."); err == nil {
			store.Close()
			t.Errorf("%s may be a link", name)
		}
	}
}
