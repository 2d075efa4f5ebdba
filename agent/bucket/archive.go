// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	archivesName = Reserved + "/archives/"
	// journalName is the directory of the journals of archives that no index knows yet.
	journalName = archivesName + "journal/"
	// ArchiveSize is about how many bytes of a tar are in one archive. What is longer has one of its own.
	ArchiveSize = 256 << 20
	// archivePart is the most bytes of a part of an archive, unless that would have too many. They are held in memory.
	archivePart = 16 << 20
	// partsAtOnce are the parts that are put at once.
	partsAtOnce = 2
	// maxArchives bounds the archives of a prefix, and the objects of their journals.
	maxArchives = 100_000
	// maxPartMessage bounds what the journal has of a part but for its files, in bytes: 24 for each block.
	maxPartMessage = 16 << 20
	// archiveBlock is the length of a block of a tar in bytes.
	archiveBlock = frame.DefaultBlock
)

// ArchiveOptions say how files are packed into archives.
type ArchiveOptions struct {
	// Codec of what is not stored; codec.None: the archives are plain tars.
	Codec       codec.ID
	Policy      policy.Settings
	Engines     *codec.Registry
	Accelerator policy.Accelerator
	// Size is that of ArchiveSize, for tests; 0: ArchiveSize.
	Size int64
	// Encryption, unless nil, has archives, indexes and the journal encrypted.
	Encryption *Encryption
}

// form is how archives rest.
func (o *ArchiveOptions) form() cargo.Form {
	switch o.Codec {
	case codec.Deflate:
		return cargo.Gzip
	case codec.Zstd:
		return cargo.Zstd
	default:
		return cargo.Plain
	}
}

// archivePattern is what archives are called: in the order in which they were written, and never twice the same.
var archivePattern = regexp.MustCompile(`^([0-9]{8})-[0-9a-f]{8}\.tar(\.gz|\.zst)?(\.age)?$`)

// archiveForm returns how an archive rests, by its name. ok is false for names of none.
func archiveForm(name string) (form cargo.Form, ok bool) {
	m := archivePattern.FindStringSubmatch(name)
	switch {
	case m == nil:
		return 0, false
	case m[2] == ".gz":
		return cargo.Gzip, true
	case m[2] == ".zst":
		return cargo.Zstd, true
	default:
		return cargo.Plain, true
	}
}

// archiveIndex returns the object with the index of an archive.
func archiveIndex(name string) string { return archivesName + "." + name + cargo.IndexSuffix }

// archives are those of a prefix, as a Write sees them.
type archives struct {
	store Store
	// present are those that are complete, with the lengths of their indexes.
	present map[string]int64
	// bare are those that have lost their indexes, which can be made again. They are among others as well.
	bare map[string]bool
	// others are all objects in the directory that are none of present and their indexes, journals excepted.
	others []string
	// journal are the objects of journals, in order.
	journal []string
	// last is the greatest number that was given.
	last int
	// sparse are archives of which less than a half is of files.
	sparse map[string]bool
	// used are those that the new index names. It is for the goroutine that writes it.
	used map[string]bool
	// made are those that this attempt completed. It is for the goroutine that does.
	made []madeArchive
	// sums of those that are encrypted. They are for the goroutine that completes archives, and then for who writes the
	// index.
	sums sums
}

// madeArchive is an archive with as many parts.
type madeArchive struct {
	name  string
	parts int
}

// listArchives lists what is there.
func listArchives(ctx context.Context, store Store) (*archives, error) {
	a := &archives{
		store: store, present: make(map[string]int64), bare: make(map[string]bool), sparse: make(map[string]bool),
		used: make(map[string]bool),
	}
	indexes, found := make(map[string]int64), []string(nil)
	count := 0
	for object, err := range store.List(ctx, archivesName) {
		if err != nil {
			return nil, err
		}
		if count++; count > 3*maxArchives {
			return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT,
				"there are more than %d objects in %s: remove those that are none of Lighterage's", 3*maxArchives, archivesName)
		}
		name := strings.TrimPrefix(object.Name, archivesName)
		plain, isIndex := strings.CutSuffix(strings.TrimPrefix(name, "."), cargo.IndexSuffix)
		_, ok := archiveForm(name)
		switch {
		case strings.HasPrefix(object.Name, journalName):
			a.journal = append(a.journal, object.Name)
		case ok:
			found = append(found, name)
		case isIndex && archiveIndex(plain) == object.Name:
			indexes[plain] = object.Size
			a.others = append(a.others, object.Name)
		default:
			a.others = append(a.others, object.Name)
		}
	}
	for _, name := range found {
		a.numbered(name)
		if size, ok := indexes[name]; ok {
			a.present[name] = size
		} else {
			a.bare[name] = true
			a.others = append(a.others, archivesName+name)
		}
	}
	return a, nil
}

// numbered takes note of the number of an archive.
func (a *archives) numbered(name string) {
	if m := archivePattern.FindStringSubmatch(name); m != nil {
		n, _ := strconv.Atoi(m[1]) // It has eight digits.
		a.last = max(a.last, n)
	}
}

// lacks reports whether an archive or its index is missing.
func (a *archives) lacks(name string) bool {
	_, ok := a.present[name]
	return !ok
}

// gone reports whether an archive is missing, not just its index.
func (a *archives) gone(name string) bool { return a.lacks(name) && !a.bare[name] }

// any reports whether there are archives, so that an index may name some.
func (a *archives) any() bool { return len(a.present)+len(a.bare) > 0 }

// name returns the name of a new archive.
func (a *archives) name(form cargo.Form, encrypted bool) (string, error) {
	if a.last++; a.last > 99_999_999 {
		return "", failure.New(wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT,
			"archives have used up their numbers: write below another spec.destination.objectStore.path")
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := form.Name(fmt.Sprintf("%08d-%s.tar", a.last, hex.EncodeToString(random[:])))
	if encrypted {
		name += agefile.Suffix
	}
	return name, nil
}

// prepareArchives finds out what there is of archives to go on with.
func (w *writing) prepareArchives(ctx context.Context) (err error) {
	live, err := w.liveBytes(ctx)
	if err != nil {
		return err
	}
	if w.options.Archive == nil {
		if len(w.archives.journal) > 0 {
			return w.abortArchives(ctx, "")
		}
		return nil
	}
	if w.encryption() != nil {
		if w.archives.sums, err = allSums(ctx, w.options.Store); err != nil {
			return err
		}
	}
	if w.resumed, err = w.resumeArchives(ctx); err != nil {
		return err
	}
	if err := w.archives.weigh(ctx, live); err != nil || w.encryption() == nil {
		return err
	}
	for name := range w.archives.present {
		// Nobody could verify it without an identity, so that its files are packed again.
		if w.archives.sums.of(archivesName+name) == nil || w.archives.sums.of(archiveIndex(name)) == nil {
			w.archives.sparse[name] = true
		}
	}
	return nil
}

// weigh finds archives of which less than a half is live, unless they are of a block. Their files are packed again.
func (a *archives) weigh(ctx context.Context, live map[string]int64) error {
	maps.Copy(a.sparse, a.bare)
	for name, size := range a.present {
		if 2*live[name] >= cargo.BlocksIn(size)*archiveBlock {
			continue
		}
		// Blocks may be short.
		plain, err := a.plainSize(ctx, name, size)
		if err != nil && !errors.Is(err, cargo.ErrCorrupt) && !errors.Is(err, objectstore.ErrNotFound) {
			return err
		}
		a.sparse[name] = err != nil || plain > archiveBlock && 2*live[name] < plain
	}
	return nil
}

// plainSize returns the length of a tar by its index, which has so many bytes as it rests.
func (a *archives) plainSize(ctx context.Context, name string, size int64) (plain int64, err error) {
	form, _ := archiveForm(name)
	if sealedArchive(name) {
		object, err := a.store.Head(ctx, archiveIndex(name))
		if err != nil {
			return 0, err
		}
		size = object.Size
	}
	plain, _, _, err = cargo.Sizes(form, objectFile{ctx, a.store, archiveIndex(name), ""}, size)
	return plain, err
}

// encryption is how archives are encrypted; nil: they are not.
func (w *writing) encryption() *Encryption {
	if w.options.Archive == nil {
		return nil
	}
	return w.options.Archive.Encryption
}

// sweepArchives removes what the new index, which is in place, does not name.
func (w *writing) sweepArchives(ctx context.Context) error {
	a := w.archives
	names := a.journal
	for _, made := range a.made {
		a.present[made.name] = 0
		for n := range made.parts {
			names = append(names, journalOf(made.name, n+1))
		}
	}
	for name := range a.present {
		if !a.used[name] {
			names = append(names, archivesName+name)
			a.others = append(a.others, archiveIndex(name))
		}
	}
	for _, name := range a.others {
		plain, _ := strings.CutSuffix(strings.TrimPrefix(strings.TrimPrefix(name, archivesName), "."), cargo.IndexSuffix)
		if !a.used[plain] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := w.hold.check(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(w.small.count())
	for _, name := range names {
		if gctx.Err() != nil {
			break
		}
		if err := w.hold.checkOften(ctx); err != nil {
			return errorsOf(g, err)
		}
		g.Go(func() error { return a.store.Delete(gctx, name) })
	}
	return g.Wait()
}

// stays reports whether the content of a file may stay where a record has it.
func (w *writing) stays(r *record) bool {
	if w.options.Archive == nil {
		return r.archive == "" && r.rests() == (w.form() != 0)
	}
	return r.archive != "" && !w.archives.sparse[r.archive]
}

// header of an index that is to be written.
func (w *writing) header() *wirev1.StoreIndexHeader {
	switch {
	case w.form() != 0:
		return &wirev1.StoreIndexHeader{Version: indexVersionResting, Form: protocol.FormToWire(w.form())}
	case w.options.Archive != nil || w.archives.any():
		return &wirev1.StoreIndexHeader{Version: indexVersionArchives}
	default:
		return &wirev1.StoreIndexHeader{Version: indexVersion}
	}
}

// mayHave reports whether a file's path is one that can be stored: that of an object must be a name.
func (w *writing) mayHave(path string) bool {
	if form := w.form(); form != 0 {
		return w.storable(form.Name(path)) && w.storable(form.IndexPath(path))
	}
	return w.options.Archive != nil || w.storable(path)
}

// indexed takes note of a record that the new index has, and reports whether it may have it: not what is a further name
// of a file that was left out.
func (w *writing) indexed(s *slot) bool {
	if s.dropped {
		if len(w.lost) < objectstore.DefaultMaxNames {
			w.lost[s.record.entry.Path] = true
		}
		return false
	}
	if s.record.entry.Type == tree.HardLink && w.lost[s.record.entry.Target] {
		return false
	}
	if s.record.archive != "" {
		w.archives.used[s.record.archive] = true
	}
	return true
}
