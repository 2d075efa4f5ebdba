// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// messages are compressed as an index is.
func messages(t testing.TB, all ...proto.Message) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for _, m := range all {
		if _, err := protodelim.MarshalTo(w, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func header(version uint32) *wirev1.StoreIndexHeader {
	return &wirev1.StoreIndexHeader{Version: version}
}

func archivedEntry(e tree.Entry, archive string, offset uint64) *wirev1.StoreIndexEntry {
	return &wirev1.StoreIndexEntry{
		Entry: e.ToWire(), Archived: &wirev1.StoreArchived{Archive: archive, Offset: offset},
	}
}

const goodName = "00000001-0123abcd.tar.zst"

// TestHostileArchives reads records that somebody made.
func TestHostileArchives(t *testing.T) {
	file := tree.Entry{Path: "a", Type: tree.File, Size: 100}
	for what, m := range map[string]*wirev1.StoreIndexEntry{
		"climbs":            archivedEntry(file, "../index", 0),
		"climbs as well":    archivedEntry(file, "00000001-0123abcd.tar/../../x.tar", 0),
		"another ending":    archivedEntry(file, "00000001-0123abcd.zip", 0),
		"a line more":       archivedEntry(file, goodName+"\n", 0),
		"no archive":        archivedEntry(file, "", 0),
		"far away":          archivedEntry(file, goodName, math.MaxInt64-99),
		"farther away":      archivedEntry(file, goodName, math.MaxUint64),
		"directory":         archivedEntry(tree.Entry{Path: "a", Type: tree.Directory}, goodName, 0),
		"link with archive": archivedEntry(tree.Entry{Path: "b", Type: tree.HardLink, Target: "a"}, goodName, 0),
	} {
		r := &indexReader{unfit: func(string) {}}
		if err := r.begin(bytes.NewReader(messages(t, header(2), m)), nil); err != nil {
			t.Fatal(err)
		}
		if found, err := r.next(); !errors.Is(err, errIndex) {
			t.Errorf("%s: %+v, %v", what, found, err)
		}
	}
	// An index of version 1 has no archives.
	r := &indexReader{unfit: func(string) {}}
	if err := r.begin(bytes.NewReader(messages(t, header(1), archivedEntry(file, goodName, 0))), nil); err != nil {
		t.Fatal(err)
	}
	if found, err := r.next(); err != nil || found.archive != "" {
		t.Errorf("version 1: %+v, %v", found, err)
	}
}

// TestHostilePlaces has an index whose offsets are not those of files.
func TestHostilePlaces(t *testing.T) {
	for offset, size := range map[uint64]int64{0: 100, 512: 1 << 20, 1 << 40: 100, math.MaxInt64 - 100: 100} {
		server := objectstoretest.New(t, "")
		store := objectstoretest.Open(t, server.Options("p"))
		origin := &memoryOrigin{tree.Entry{Path: "a", Type: tree.File, Size: 100, Mode: 0o644}}
		if err := Write(t.Context(), optionsOf(origin, store)); err != nil {
			t.Fatal(err)
		}
		archives, err := listArchives(t.Context(), store)
		if err != nil || len(archives.present) != 1 {
			t.Fatalf("%v, %v", archives, err)
		}
		for name := range archives.present {
			index := messages(t, header(2), archivedEntry(tree.Entry{Path: "a", Type: tree.File, Size: size}, name, offset))
			if _, err := store.Put(t.Context(), IndexName, bytesAt(index), int64(len(index)),
				objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s := NewSource(t.Context(), store, nil)
		var failed error
		err = s.Walk(t.Context(), func(e *tree.Entry) error {
			if e.Type == tree.File {
				failed = s.ReadAt(e, make([]byte, e.Size), 0)
			}
			return nil
		})
		if err != nil || !failure.Is(failed, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
			t.Errorf("%d bytes at %d: %v, %v", size, offset, err, failed)
		}
	}
}

// TestHostileJournal has a journal that no attempt wrote. It is no reason to fail, and is gone after the run.
func TestHostileJournal(t *testing.T) {
	note := func(change func(*wirev1.StoreArchivePart)) []byte {
		n := &wirev1.StoreArchivePart{Number: 1, Etag: "x", Size: 10, UploadId: "none", Blocks: make([]byte, 24)}
		change(n)
		return messages(t, n, header(2))
	}
	file := tree.Entry{Path: "a", Type: tree.File, Size: 1 << 50}
	for what, content := range map[string][]byte{
		"nothing": nil, "text": []byte("text"), "zeros": note(func(*wirev1.StoreArchivePart) {}),
		"no blocks": note(func(n *wirev1.StoreArchivePart) { n.Blocks = nil }),
		"a half":    note(func(n *wirev1.StoreArchivePart) { n.Blocks = make([]byte, 23) }),
		"ended":     note(func(n *wirev1.StoreArchivePart) { n.Blocks, n.Ended = nil, true }),
		"no upload": note(func(n *wirev1.StoreArchivePart) { n.Blocks, n.UploadId = nil, "" }),
		"open": note(func(n *wirev1.StoreArchivePart) {
			n.Blocks, n.Open, n.OpenDone = nil, file.ToWire(), 1<<63
			n.OpenAt = &wirev1.StoreArchived{Offset: math.MaxUint64}
		}),
	} {
		server := objectstoretest.New(t, "")
		store := objectstoretest.Open(t, server.Options("p"))
		for _, name := range []string{journalOf(goodName, 1), journalOf(goodName, 7), journalName + "x/y"} {
			if _, err := store.Put(t.Context(), name, bytesAt(content), int64(len(content)),
				objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		origin := &memoryOrigin{tree.Entry{Path: "a", Type: tree.File, Size: 100, Mode: 0o644}}
		if err := Write(t.Context(), optionsOf(origin, store)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, key := range server.Keys() {
			if strings.Contains(key, journalName) {
				t.Errorf("%s: %s is left", what, key)
			}
		}
	}
}

// FuzzArchiveRecords reads what is no index as one, and as a part of a journal.
func FuzzArchiveRecords(f *testing.F) {
	file := tree.Entry{Path: "a", Type: tree.File, Size: 100}
	f.Add(messages(f, header(2), archivedEntry(file, goodName, 512)), false)
	f.Add(messages(f, &wirev1.StoreArchivePart{Number: 1, Blocks: make([]byte, 48)}, header(2)), true)
	f.Add([]byte("\x1f\x8b"), true)
	object := &wirev1.StoreIndexEntry{Entry: file.ToWire(), Etag: "0123456789abcdef", DigestPart: math.MaxUint64}
	f.Add(messages(f, header(1), object), false)
	rests := &wirev1.StoreIndexEntry{Entry: file.ToWire(), Resting: &wirev1.StoreResting{Size: 60, IndexEtag: "e"}}
	f.Add(messages(f, &wirev1.StoreIndexHeader{Version: 3, Form: wirev1.Form_FORM_GZIP}, rests), false)
	f.Fuzz(func(t *testing.T, data []byte, journal bool) {
		var before *wirev1.StoreArchivePart
		if journal {
			before = &wirev1.StoreArchivePart{}
		}
		// As it comes, and as what something compresses to.
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(data)
		_ = w.Close()
		for _, b := range [][]byte{data, packed.Bytes()} {
			r := &indexReader{unfit: func(string) {}, unordered: journal}
			if err := r.begin(bytes.NewReader(b), before); err != nil {
				continue
			}
			if before != nil {
				_ = checkBlocks(1, before.GetBlocks())
			}
			for {
				found, err := r.next()
				if err != nil {
					break
				}
				// By this a scrub cuts an object, to compute its ETag.
				if found.part < 0 || found.part > objectstore.MaxPut {
					t.Errorf("the ETag is of parts of %d bytes", found.part)
				}
				sums := newPartSums(max(found.part, 1<<20))
				sums.add(found.etag)
				_ = sums.etag()
				if found.rests() && (r.form == 0 || found.stored < 0 || found.archive != "" || !found.isObject()) {
					t.Errorf("%+v", found)
				}
				if _, ok := archiveForm(found.archive); found.archive != "" && (!ok || found.entry.Type != tree.File ||
					found.offset < 0 || found.offset+found.entry.Size < 0) {
					t.Errorf("%+v", found)
				}
			}
		}
	})
}

// TestTarHeaders has names and attributes that a tar can hold, and others.
func TestTarHeaders(t *testing.T) {
	long := strings.Repeat("x", 250)
	for _, e := range []tree.Entry{
		{Path: "a", Type: tree.File, Size: 1 << 40, Modified: -1, UID: math.MaxUint32 - 1, Mode: 0o7777},
		{Path: long + "/" + long, Type: tree.Directory, Modified: math.MaxInt64},
		{Path: "\xff\xfe", Type: tree.Symlink, Target: long + "\xff"},
		{Path: "b", Type: tree.File, Modified: math.MinInt64},
	} {
		b, err := tarHeader(&e)
		if err != nil || len(b) == 0 || len(b)%tarBlock != 0 || len(b) > archiveBlock {
			t.Errorf("%+v: %d bytes, %v", e, len(b), err)
		}
		if got := tarLength(&e); got < int64(len(b)) && len(e.Path) > 100 {
			t.Errorf("%+v takes %d bytes, not %d", e, len(b), got)
		}
	}
}

// memoryOrigin is a file of zeros.
type memoryOrigin struct{ entry tree.Entry }

func (m *memoryOrigin) Walk(_ context.Context, visit func(*tree.Entry) error) error {
	root := tree.Entry{Path: tree.Root, Type: tree.Directory, Mode: 0o755}
	if err := visit(&root); err != nil {
		return err
	}
	e := m.entry
	return visit(&e)
}

func (m *memoryOrigin) Again(*tree.Entry) (*tree.Entry, error) {
	e := m.entry
	return &e, nil
}

func (m *memoryOrigin) ReadAt(_ *tree.Entry, p []byte, _ int64) error {
	clear(p)
	return nil
}

func (m *memoryOrigin) Omissions() *tree.Omissions { return &tree.Omissions{} }

// optionsOf packs with zstd.
func optionsOf(origin Origin, store *objectstore.Store) WriteOptions {
	return WriteOptions{
		Origin: origin, Store: store, Transfer: "t", RunID: "r", Attempt: 1, Streams: 2, Report: send.NewReport(),
		Archive: &ArchiveOptions{
			Codec: codec.Zstd, Engines: engines.Default(), Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
		},
	}
}
