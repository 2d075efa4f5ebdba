// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const mismatch = wirev1.FailureReason_FAILURE_REASON_ENCRYPTION_MISMATCH

func anIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// encrypted has archives encrypted for somebody by a writer with a key.
func encrypted(key byte, to ...age.Recipient) func(*bucket.WriteOptions) {
	return func(o *bucket.WriteOptions) {
		o.Archive.Encryption = &bucket.Encryption{Recipients: to, Key: agefile.Key{key}}
	}
}

// sealedTree is one whose names and contents are easily found.
func sealedTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put(t, root, map[string]string{
		"planted-name/planted-file.txt": strings.Repeat("planted content, ", 1000), "empty": "", "a/b/c": "c",
		"large.bin": random(1, 5<<20), "text": strings.Repeat("planted lines\n", 300_000),
	})
	if err := os.Symlink("planted-target", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "text"), filepath.Join(root, "planted-hard-link")); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestEncrypted has a tree travel into encrypted archives and back, while nothing in the bucket tells a name or a
// content. The next run reads the index by the key of the writer, and packs what changed.
func TestEncrypted(t *testing.T) { inPlaces(t, encryptedRuns) }

func encryptedRuns(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range codecs {
		for kind, who := range map[string]struct {
			to age.Recipient
			by age.Identity
		}{"X25519": {nil, nil}, "hybrid": {hybrid.Recipient(), hybrid}} {
			t.Run(id.String()+"/"+kind, func(t *testing.T) {
				if who.by == nil {
					i := anIdentity(t)
					who.to, who.by = i.Recipient(), i
				}
				store, root := at(t), sealedTree(t)
				options := and(archived(id, 2<<20), encrypted(1, who.to))
				first := mustWrite(t, source(t, root, nil), store, options)
				readable := bucket.Decrypted(store, []age.Identity{who.by})
				restored(t, root, readable)
				nothingPlain(t, store)
				names, others := archivesOf(t, store)
				if len(names) < 2 || len(others) > 0 || first.GetUnchangedFiles() > 0 {
					t.Errorf("%q, %q, %v", names, others, first)
				}
				again := mustWrite(t, source(t, root, nil), store, options)
				if again.GetUnchangedFiles() != again.GetFiles() || again.GetFiles() == 0 {
					t.Errorf("a second run found %d of %d files unchanged", again.GetUnchangedFiles(), again.GetFiles())
				}
				put(t, root, map[string]string{"later": "planted content"})
				later := mustWrite(t, source(t, root, nil), store, options)
				if later.GetUnchangedFiles() != later.GetFiles()-1 {
					t.Errorf("a third run found %d of %d files unchanged", later.GetUnchangedFiles(), later.GetFiles())
				}
				restored(t, root, readable)
				nothingPlain(t, store)
			})
		}
	}
}

// stored is what a server has under a key.
func stored(server *objectstoretest.Server, key string) (content []byte) {
	server.Damage(key, func(b []byte) []byte {
		content = bytes.Clone(b)
		return b
	})
	return content
}

// nothingPlain looks for what was planted in all that rests: names, contents, also what gzip would show.
func nothingPlain(t *testing.T, store place) {
	t.Helper()
	found := 0
	for key, content := range store.all() {
		for _, planted := range []string{"planted", "large.bin", "\x1f\x8b\x08\x00\x00\x00\x00\x00", "ustar\x00"} {
			if strings.Contains(key, planted) || bytes.Contains(content, []byte(planted)) {
				t.Errorf("%s shows %q", key, planted)
			}
		}
		if bytes.HasPrefix(content, []byte(agefile.Magic)) {
			found++
		} else if !strings.HasSuffix(key, "/SHA256SUMS") && !noteOfUpload(content) && !firstMissing(content) {
			t.Errorf("%s is not encrypted", key)
		}
	}
	if found < 3 {
		t.Errorf("%d encrypted objects", found)
	}
}

// noteOfUpload reports whether a file is the note on an upload in a claim, which begins with the name of its object.
func noteOfUpload(content []byte) bool { return bytes.HasPrefix(content, []byte(bucket.Reserved+"/")) }

// firstMissing reports whether the first part of an upload in a claim is missing: the attempt broke off before it, or
// another part, which is written beside it, was faster.
func firstMissing(content []byte) bool { return len(content) == 0 || content[0] == 0 }

// TestEncryptedByOtherTools has age, or its library, and tar extract archives, and sha256sum verify what rests.
func TestEncryptedByOtherTools(t *testing.T) { inPlaces(t, encryptedByOtherTools) }

func encryptedByOtherTools(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	i := anIdentity(t)
	store, root := at(t), sealedTree(t)
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Deflate, 2<<20), encrypted(1, i.Recipient())))
	names, _ := archivesOf(t, store)
	directory, into := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, "archives"), 0o700); err != nil {
		t.Fatal(err)
	}
	for object, err := range store.List(t.Context(), bucket.Reserved+"/") {
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(directory, strings.TrimPrefix(object.Name, bucket.Reserved+"/"))
		if err := os.WriteFile(path, read(t, store, object.Name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	sums.Dir = directory
	if out, err := sums.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v: %s", err, out)
	}
	key := filepath.Join(directory, "key")
	if err := os.WriteFile(key, []byte(i.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	program, found := lookPath(t, "age")
	for _, name := range names {
		path := filepath.Join(directory, "archives", name)
		tar := exec.CommandContext(t.Context(), "tar", "-xz", "-C", into)
		if found {
			decrypt := exec.CommandContext(t.Context(), program, "-d", "-i", key, path)
			out, err := decrypt.Output()
			if err != nil {
				t.Fatal(err)
			}
			tar.Stdin = bytes.NewReader(out)
		} else {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if tar.Stdin, err = age.Decrypt(bytes.NewReader(content), i); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := tar.CombinedOutput(); err != nil {
			t.Fatalf("tar: %v: %s", err, out)
		}
	}
	want, err := os.ReadFile(filepath.Join(root, "text"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(into, "planted-hard-link")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("tar extracted %d bytes of %d: %v", len(got), len(want), err)
	}
}

// walked is the error of a walk.
func walked(t *testing.T, store bucket.Store) error {
	t.Helper()
	return bucket.NewSource(t.Context(), store, nil).Walk(t.Context(), func(*tree.Entry) error { return nil })
}

func inflates(t *testing.T, store bucket.Store) error {
	t.Helper()
	_, err := scrubbed(t, store, true)
	return err
}

// TestEncryptionMismatch has who cannot read told so, and what to do, and a writer that cannot go on change nothing.
func TestEncryptionMismatch(t *testing.T) { inPlaces(t, encryptionMismatch) }

func encryptionMismatch(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	right, wrong := anIdentity(t), anIdentity(t)
	store, plain, root := at(t), at(t), sealedTree(t)
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Deflate, 2<<20), encrypted(1, right.Recipient())))
	mustWrite(t, source(t, root, nil), plain, archived(codec.Deflate, 2<<20))
	for name, err := range map[string]error{
		"another identity":      walked(t, bucket.Decrypted(store, []age.Identity{wrong})),
		"no identity":           walked(t, store),
		"a plain prefix":        walked(t, bucket.Decrypted(plain, []age.Identity{right})),
		"a scrub that inflates": inflates(t, store),
	} {
		if !failure.Is(err, mismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := walked(t, bucket.Decrypted(store, []age.Identity{wrong, right})); err != nil {
		t.Errorf("two identities: %v", err)
	}
	there := func() []string {
		return append(slices.Sorted(maps.Keys(store.all())), slices.Sorted(maps.Keys(plain.all()))...)
	}
	before := there()
	for name, c := range map[string]struct {
		store  place
		change func(*bucket.WriteOptions)
	}{
		"another key":         {store, encrypted(2, right.Recipient())},
		"not encrypted":       {store, nil},
		"encrypted from then": {plain, encrypted(1, right.Recipient())},
	} {
		change := archived(codec.Deflate, 2<<20)
		if c.change != nil {
			change = and(change, c.change)
		}
		if _, err := write(t, source(t, root, nil), c.store, and(change, mirrored)); !failure.Is(err, mismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := there(); !slices.Equal(after, before) {
		t.Errorf("there is %q, and was %q", after, before)
	}
	// Who removes the index and the archives has everything written again.
	for _, s := range []place{store, plain} {
		if err := s.Delete(t.Context(), bucket.IndexName); err != nil {
			t.Fatal(err)
		}
		names, _ := archivesOf(t, s)
		for _, name := range names {
			if err := s.Delete(t.Context(), tars+name); err != nil {
				t.Fatal(err)
			}
		}
		p := mustWrite(t, source(t, root, nil), s, and(archived(codec.Deflate, 2<<20), encrypted(2, wrong.Recipient())))
		if p.GetUnchangedFiles() > 0 {
			t.Errorf("%d files were taken over", p.GetUnchangedFiles())
		}
		restored(t, root, bucket.Decrypted(s, []age.Identity{wrong}))
		nothingPlain(t, s)
	}
}

// TestEncryptedRestart breaks attempts off: archives that are complete are taken over by the next one, the one that was
// not begins again, and its upload is aborted.
func TestEncryptedRestart(t *testing.T) {
	moves(t)
	inPlaces(t, encryptedRestart)
}

func encryptedRestart(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	i := anIdentity(t)
	store, root := at(t), t.TempDir()
	files := map[string]string{}
	for n := range 10 {
		files[string(rune('a'+n))] = random(uint64(n), 12<<20)
	}
	put(t, root, files)
	options := and(archived(codec.Deflate, 25<<20), encrypted(1, i.Recipient()))
	first := &limited{Source: source(t, root, nil)}
	first.left.Store(85 << 20)
	if _, err := write(t, first, store, options); !errors.Is(err, errLimited) {
		t.Fatal(err)
	}
	nothingPlain(t, store)
	names, _ := archivesOf(t, store)
	if _, uploads := store.left(); uploads == 0 || len(names) == 0 {
		t.Fatalf("the attempt broke off with %d uploads and the archives %q", uploads, names)
	}
	again := &limited{Source: source(t, root, nil)}
	again.left.Store(1 << 40)
	p := mustWrite(t, again, store, and(options, attempt(2)))
	// Of what the first attempt read an archive, and what was read ahead of the one before: three parts, and blocks.
	if repeated := again.read.Load() + first.read.Load() - 120<<20; repeated < 0 || repeated > 25<<20+3*8<<20+4<<20 {
		t.Errorf("%d bytes were read again", repeated)
	}
	if read := again.read.Load(); read != 120<<20-int64(p.GetUnchangedBytes()) ||
		int(p.GetUnchangedFiles()) < 2*len(names) {
		t.Errorf("%d bytes were read, and %d files taken over, with %d archives", read, p.GetUnchangedFiles(), len(names))
	}
	if _, uploads := store.left(); uploads != 0 {
		t.Errorf("%d uploads are left", uploads)
	}
	restored(t, root, bucket.Decrypted(store, []age.Identity{i}))
	nothingPlain(t, store)
	finds(t, "after a restart", store, false, nil)
}

// TestEncryptedRanges has one small file read: few bytes of its archive are got.
func TestEncryptedRanges(t *testing.T) { inPlaces(t, encryptedRanges) }

func encryptedRanges(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	i := anIdentity(t)
	store, root := at(t), t.TempDir()
	put(t, root, map[string]string{"a": random(1, 20<<20), "b": "small", "c": random(2, 20<<20)})
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Deflate, 64<<20), encrypted(1, i.Recipient())))
	counting := &countingStore{Store: store}
	s := bucket.NewSource(t.Context(), bucket.Decrypted(counting, []age.Identity{i}), nil)
	var small *tree.Entry
	if err := s.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Path == "b" {
			small = e
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	counting.got.Store(0)
	b := make([]byte, 5)
	if err := s.ReadAt(small, b, 0); err != nil || string(b) != "small" {
		t.Fatalf("%q, %v", b, err)
	}
	// Header and last chunk, the window of 4 MiB that the file is in, and the index of the archive.
	if got := counting.got.Load(); got > 5<<20 {
		t.Errorf("%d bytes were got for one small file of 40 MiB", got)
	}
}

// TestDamagedEncrypted has flipped bytes and truncated objects found, by who reads and by scrubs with an identity and
// without.
func TestDamagedEncrypted(t *testing.T) {
	moves(t)
	inPlaces(t, damagedEncrypted)
}

func damagedEncrypted(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	i := anIdentity(t)
	for name, object := range map[string]func(archive string) string{
		"archive":          func(archive string) string { return tars + archive },
		"index of archive": func(archive string) string { return tars + "." + archive + ".lgci" },
		"index":            func(string) string { return bucket.IndexName },
	} {
		for how, damage := range map[string]func([]byte) []byte{
			"flipped":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			"header":    func(b []byte) []byte { b[60] ^= 1; return b },
			"truncated": func(b []byte) []byte { return b[:len(b)-1] },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				store, root := at(t), sealedTree(t)
				mustWrite(t, source(t, root, nil), store, and(archived(codec.Deflate, 2<<20), encrypted(1, i.Recipient())))
				archives, _ := archivesOf(t, store)
				object := object(archives[0])
				store.damage(object, damage)
				finds(t, "without an identity", store, false, map[string]string{scrub.Damaged: object})
				readable := bucket.Decrypted(store, []age.Identity{i})
				if err := readAll(t, readable); !failure.Is(err, mismatch) &&
					!failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
					t.Errorf("reading: %v", err)
				}
				report, err := scrubbed(t, readable, true)
				if err == nil && len(report.GetOmissions()) == 0 || err != nil && !failure.Is(err, mismatch) {
					t.Errorf("a scrub with an identity found %v: %v", report.GetOmissions(), err)
				}
			})
		}
	}
}

// readAll reads all that a prefix has.
func readAll(t *testing.T, store bucket.Store) error {
	t.Helper()
	s := bucket.NewSource(t.Context(), store, nil)
	return s.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Type != tree.File || e.Size == 0 {
			return nil
		}
		return s.ReadAt(e, make([]byte, e.Size), 0)
	})
}

// TestScrubOfEncrypted needs no identity, and finds what is missing.
func TestScrubOfEncrypted(t *testing.T) { inPlaces(t, scrubOfEncrypted) }

func scrubOfEncrypted(t *testing.T, at func(*testing.T) place) {
	t.Helper()
	i := anIdentity(t)
	store, root := at(t), sealedTree(t)
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Deflate, 2<<20), encrypted(1, i.Recipient())))
	report := finds(t, "whole", store, false, nil)
	if got := report.GetProgress().GetFiles(); got < 5 || report.GetProgress().GetFilesTotal() != got {
		t.Errorf("%v", report.GetProgress())
	}
	finds(t, "with an identity", bucket.Decrypted(store, []age.Identity{i}), true, nil)
	names, _ := archivesOf(t, store)
	gone := tars + names[0]
	if err := store.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	finds(t, "without an archive", store, false, map[string]string{tree.OmittedMissing: gone})
	sums := bucket.Reserved + "/SHA256SUMS"
	store.damage(sums, func([]byte) []byte { return []byte("nonsense\n") })
	finds(t, "nonsense", store, false, map[string]string{scrub.IndexInvalid: sums})
	if err := store.Delete(t.Context(), sums); err != nil {
		t.Fatal(err)
	}
	finds(t, "without sums", store, false, map[string]string{scrub.IndexMissing: sums})
	// The next run packs again what nobody can verify.
	mustWrite(t, source(t, root, nil), store, and(archived(codec.Deflate, 2<<20), encrypted(1, i.Recipient())))
	finds(t, "after a run", store, false, nil)
	kept, _ := archivesOf(t, store)
	if slices.Contains(kept, names[1]) {
		t.Errorf("%q has no sum and was kept", names[1])
	}
	store.damage(sums, func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] })
	finds(t, "without a line", store, false, map[string]string{scrub.NoChecksum: tars + "." + kept[0] + ".lgci"})
}

type countingStore struct {
	bucket.Store
	got atomic.Int64
}

func (c *countingStore) Get(
	ctx context.Context, name, etag string, offset, length int64,
) (objectstore.Content, error) {
	c.got.Add(length)
	return c.Store.Get(ctx, name, etag, offset, length)
}
