// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// windowSize is how much of a tar is read at once, in bytes.
	windowSize = 4 << 20
	// maxWindows are held. Who unpacks a tree in its order needs few at once.
	maxWindows = 12
	// maxIndexes bounds the indexes of archives that are held, in bytes as they rest. One is held in any case.
	maxIndexes = 32 << 20
)

// unpacker reads files out of archives, in windows that neighbours share. It is safe for concurrent use.
type unpacker struct {
	ctx     context.Context //nolint:containedctx // It is that of the attempt, as a Source's.
	store   Store
	engines func() *codec.Registry

	mu      sync.Mutex
	names   []string // of archives, by Place.Archive less 1
	numbers map[string]uint32
	opened  []*opened // the last used one last
	windows []*window // likewise
}

// opened is an archive with its index.
type opened struct {
	number uint32
	once   sync.Once
	file   objectFile
	size   int64
	index  *cargo.Index
	weight int64
	err    error
}

// window is a part of a tar.
type window struct {
	archive uint32
	number  int64
	ready   chan struct{}
	plain   []byte
	err     error
}

// entry is a file in an archive.
func (u *unpacker) entry(r *record) (*tree.Entry, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	number, ok := u.numbers[r.archive]
	if !ok {
		if len(u.names) == maxArchives {
			return nil, unusable(u.ctx, u.store, fmt.Errorf("%w: it names more than %d archives", errIndex, maxArchives))
		}
		u.names = append(u.names, r.archive)
		number = uint32(len(u.names))
		u.numbers[r.archive] = number
	}
	e := r.entry
	e.Place = &tree.Place{Archive: number, Offset: r.offset, CRC32: r.crc}
	e.Changed, e.Sparse = version(fmt.Sprintf("%s %d", r.archive, r.offset)), false
	return &e, nil
}

// readAt fills p with the bytes of a file from offset on.
func (u *unpacker) readAt(e *tree.Entry, p []byte, offset int64) error {
	whole := offset == 0 && int64(len(p)) == e.Size
	for rest, at := p, e.Place.Offset+offset; len(rest) > 0; {
		plain, err := u.window(e.Place.Archive, at/windowSize)
		if err != nil {
			return u.explain(e, err)
		}
		from := at % windowSize
		if from >= int64(len(plain)) {
			return u.explain(e, fmt.Errorf("%w: it ends at byte %d, before the file does", cargo.ErrCorrupt, at))
		}
		n := copy(rest, plain[from:])
		rest, at = rest[n:], at+int64(n)
	}
	// Blocks have checksums of their own: this one tells that the index and the archive belong together.
	if whole && crc32.ChecksumIEEE(p) != e.Place.CRC32 {
		return u.explain(e, fmt.Errorf("%w: it has another content than the index says", cargo.ErrCorrupt))
	}
	return nil
}

// explain gives an error a reason.
func (u *unpacker) explain(e *tree.Entry, err error) error {
	u.mu.Lock()
	name := u.names[e.Place.Archive-1]
	u.mu.Unlock()
	switch {
	case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, objectstore.ErrChanged):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
			"the archive %s, which has %q, or its index is not there any more (%w): another run may have packed its files "+
				"elsewhere meanwhile; run again, or restore the object", name, failure.Shorten(e.Path, 256), err)
	case errors.Is(err, cargo.ErrCorrupt):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"%q cannot be read from the archive %s (%w): restore an earlier version of this object and of its index, or run "+
				"the Transfer that wrote it after removing both", failure.Shorten(e.Path, 256), name, err)
	default:
		return err
	}
}

// window returns a part of a tar. Who reads one after the other finds the next one on its way.
func (u *unpacker) window(archive uint32, number int64) ([]byte, error) {
	u.mu.Lock()
	w, made := u.take(archive, number)
	var next *window
	if i := u.find(archive, number-1); number > 0 && i >= 0 {
		if ahead, made := u.take(archive, number+1); made {
			next = ahead
		}
	}
	u.mu.Unlock()
	if made {
		go u.load(w)
	}
	if next != nil {
		go u.load(next)
	}
	select {
	case <-w.ready:
		return w.plain, w.err
	case <-u.ctx.Done():
		return nil, context.Cause(u.ctx)
	}
}

func (u *unpacker) find(archive uint32, number int64) int {
	return slices.IndexFunc(u.windows, func(w *window) bool { return w.archive == archive && w.number == number })
}

// take returns a window, as the one that was used last. made: it is to be loaded. The mutex is held.
func (u *unpacker) take(archive uint32, number int64) (w *window, made bool) {
	if i := u.find(archive, number); i >= 0 {
		w = u.windows[i]
		u.windows = append(slices.Delete(u.windows, i, i+1), w)
		return w, false
	}
	if len(u.windows) == maxWindows {
		u.windows = slices.Delete(u.windows, 0, 1)
	}
	w = &window{archive: archive, number: number, ready: make(chan struct{})}
	u.windows = append(u.windows, w)
	return w, true
}

// load reads a window. One that failed is forgotten.
func (u *unpacker) load(w *window) {
	defer close(w.ready)
	if w.plain, w.err = u.read(w); w.err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.windows = slices.DeleteFunc(u.windows, func(other *window) bool { return other == w })
	}
}

func (u *unpacker) read(w *window) ([]byte, error) {
	o, err := u.open(w.archive)
	if err != nil {
		return nil, err
	}
	begin := w.number * windowSize
	size := min(windowSize, o.index.Size()-begin)
	if size <= 0 {
		return nil, nil
	}
	r, err := cargo.NewReader(o.file, o.size, o.index, u.engines())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	plain := &filling{make([]byte, 0, size)}
	if err := r.WriteRange(u.ctx, plain, begin, size, runtime.GOMAXPROCS(0)); err != nil {
		return nil, err
	}
	return plain.bytes, nil
}

// filling is a writer into memory that is there.
type filling struct{ bytes []byte }

func (f *filling) Write(p []byte) (int, error) {
	f.bytes = append(f.bytes, p...)
	return len(p), nil
}

// open returns an archive with its index.
func (u *unpacker) open(number uint32) (*opened, error) {
	u.mu.Lock()
	name := u.names[number-1]
	i := slices.IndexFunc(u.opened, func(o *opened) bool { return o.number == number })
	var o *opened
	if i >= 0 {
		o = u.opened[i]
		u.opened = slices.Delete(u.opened, i, i+1)
	} else {
		o = &opened{number: number}
	}
	u.opened = append(u.opened, o)
	u.mu.Unlock()
	o.once.Do(func() { o.err = u.openArchive(o, name) })
	u.mu.Lock()
	defer u.mu.Unlock()
	if o.err != nil {
		u.opened = slices.DeleteFunc(u.opened, func(other *opened) bool { return other == o })
		return nil, o.err
	}
	var weight int64
	for i := len(u.opened) - 1; i >= 0; i-- {
		if weight += u.opened[i].weight; weight > maxIndexes && i < len(u.opened)-1 {
			u.opened = slices.Delete(u.opened, 0, i+1)
			break
		}
	}
	return o, nil
}

func (u *unpacker) openArchive(o *opened, name string) error {
	form, _ := archiveForm(name) // The record was checked.
	object, err := u.store.Head(u.ctx, archiveIndex(name))
	if err != nil {
		return err
	}
	if object.Size < 1 || object.Size > cargo.MaxIndex {
		return fmt.Errorf("%w: it has %d bytes", cargo.ErrIndex, object.Size)
	}
	r, err := u.store.Get(u.ctx, archiveIndex(name), object.ETag, 0, object.Size)
	if err != nil {
		return err
	}
	content := make([]byte, object.Size)
	_, err = io.ReadFull(r, content)
	_ = r.Close() // It was only read.
	if err != nil {
		return err
	}
	if o.index, err = cargo.ParseIndex(content); err != nil {
		return err
	}
	if o.index.Form() != form {
		return fmt.Errorf("%w: it is of form %v", cargo.ErrIndex, o.index.Form())
	}
	if object, err = u.store.Head(u.ctx, archivesName+name); err != nil {
		return err
	}
	o.file, o.size = objectFile{u.ctx, u.store, archivesName + name, object.ETag}, object.Size
	u.mu.Lock() // Others sum up weights meanwhile.
	o.weight = int64(len(content))
	u.mu.Unlock()
	return nil
}
