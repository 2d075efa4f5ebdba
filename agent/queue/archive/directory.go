// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
)

// The names of files in an archive.
const (
	rangeSuffix    = ".range"
	temporary      = ".tmp"
	indexName      = "index"
	sequenceDigits = 20
	lifeLayout     = "20060102T150405.000000000Z"
)

// Life names the life of a stream by the moment at which it was made.
func Life(created time.Time) string { return created.UTC().Format(lifeLayout) }

// Name is that of the archive of a queue in one life of its stream.
func Name(queue, life string) string { return queue + "." + life }

// parseName takes the name of an archive apart.
func parseName(name string) (queue, life string, ok bool) {
	queue, life, found := strings.Cut(name, ".")
	if !found || queue == "" {
		return "", "", false
	}
	if t, err := time.Parse(lifeLayout, life); err != nil || Life(t) != life {
		return "", "", false
	}
	return queue, life, true
}

// Range is a file with messages.
type Range struct {
	First, Last uint64
	// Size of the file in bytes.
	Size int64
}

// name of its file.
func (r Range) name() string {
	return fmt.Sprintf("%0*d-%0*d%s", sequenceDigits, r.First, sequenceDigits, r.Last, rangeSuffix)
}

func parseRange(name string) (Range, bool) {
	text, found := strings.CutSuffix(name, rangeSuffix)
	first, last, both := strings.Cut(text, "-")
	if !found || !both || len(first) != sequenceDigits || len(last) != sequenceDigits {
		return Range{}, false
	}
	from, err1 := strconv.ParseUint(first, 10, 64)
	to, err2 := strconv.ParseUint(last, 10, 64)
	if err1 != nil || err2 != nil || from == 0 || to < from {
		return Range{}, false
	}
	return Range{First: from, Last: to}, true
}

// Directory is an archive. Nothing that is in it leads out of it.
type Directory struct {
	files files
	name  string
}

// Make opens the archive of a name below a directory, and makes it if it is not there.
func Make(below, name string) (*Directory, error) {
	outer, err := os.OpenRoot(below)
	if err != nil {
		return nil, fmt.Errorf("open the directory of archives: %w", err)
	}
	defer outer.Close()
	if err := outer.Mkdir(name, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the archive %s: %w", name, err)
	} else if err == nil {
		if err := syncDirectory(outer); err != nil {
			return nil, err
		}
	}
	return openIn(outer, name)
}

// Open opens the archive at a path below a directory.
func Open(below, path string) (*Directory, error) {
	outer, err := os.OpenRoot(below)
	if err != nil {
		return nil, fmt.Errorf("open the directory of archives: %w", err)
	}
	defer outer.Close()
	return openIn(outer, path)
}

func openIn(outer *os.Root, path string) (*Directory, error) {
	inner, err := outer.OpenRoot(filepath.Clean(strings.TrimPrefix(path, "/")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the archive %s: %w", path, err)
	}
	return &Directory{files: folder{inner}, name: filepath.Base(path)}, nil
}

// Latest returns the name of the latest archive of a queue below a directory, of those that begin with another life
// than one.
func Latest(below, queue, but string) (string, error) {
	entries, err := os.ReadDir(below)
	if err != nil {
		return "", fmt.Errorf("look for archives: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return latest(names, queue, but)
}

func latest(names []string, queue, but string) (string, error) {
	best := ""
	for _, name := range names {
		if of, life, ok := parseName(name); ok && of == queue && life != but && life > best {
			best = life
		}
	}
	if best == "" {
		return "", fmt.Errorf("%w: of queue %s", ErrNotFound, queue)
	}
	return Name(queue, best), nil
}

// inStore is the archive of a name below a path of an object store. The context bounds its requests.
func inStore(ctx context.Context, store *objectstore.Store, below, name string) *Directory {
	return &Directory{files: newBucket(ctx, store, below, name), name: name}
}

// Close closes the directory.
func (d *Directory) Close() error { return d.files.Close() }

// Name is that of the archive.
func (d *Directory) Name() string { return d.name }

func (d *Directory) wrong(file string, err error) error {
	return &FileError{Name: d.name + "/" + file, Err: err}
}

// Ranges lists the files with messages, by their first sequence. Others are of no importance.
func (d *Directory) Ranges() ([]Range, error) {
	var all []Range
	err := d.files.list(func(f file) bool {
		if r, ok := parseRange(f.name); ok {
			r.Size = f.size
			all = append(all, r)
		}
		return len(all) <= maxRanges
	})
	if err != nil {
		return nil, fmt.Errorf("list the archive %s: %w", d.name, err)
	}
	if len(all) > maxRanges {
		return nil, fmt.Errorf("list the archive %s: %w", d.name, damaged("it has more than %d ranges", maxRanges))
	}
	slices.SortFunc(all, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	return all, nil
}

// Chain returns the ranges that lead on from a sequence without a gap, and the sequence that they lead to. Of several
// that go on at a place it is the one that goes furthest: two members that both thought that they lead may have written
// ranges that overlap. Ranges are as Ranges returns them.
func Chain(ranges []Range, after uint64) (way []Range, end uint64) {
	end = after
	var best Range
	for i := 0; ; {
		for ; i < len(ranges) && ranges[i].First <= end+1; i++ {
			if ranges[i].Last > best.Last {
				best = ranges[i]
			}
		}
		if best.Last <= end {
			return way, end
		}
		way, end = append(way, best), best.Last
	}
}

// inPlace reports whether the archive is where it was opened: while it is open somebody may have moved or deleted it.
// An object store has no open directories: an archive whose index was written is gone there if the index is.
func (d *Directory) inPlace(below string, written bool) bool {
	own, ok := d.files.(folder)
	if !ok {
		_, err := d.files.stat(indexName)
		return !written || !errors.Is(err, fs.ErrNotExist)
	}
	at, err := os.Stat(filepath.Join(below, d.name))
	if err != nil {
		return false
	}
	opened, err := own.root.Stat(".")
	return err == nil && os.SameFile(at, opened)
}

// indexed is an error that matches fs.ErrNotExist if it has no index.
func (d *Directory) indexed() error {
	if _, err := d.files.stat(indexName); err != nil {
		return fmt.Errorf("look at %s/%s: %w", d.name, indexName, err)
	}
	return nil
}

// open opens a range to be read.
func (d *Directory) open(r Range) (io.ReadCloser, error) {
	f, err := d.files.open(r.name())
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", d.name, r.name(), err)
	}
	return f, nil
}

// create begins a file. Each member has one of its own.
func (d *Directory) create(member string) (draft, error) {
	f, err := d.files.create(member)
	if err != nil {
		return nil, fmt.Errorf("write to the archive %s: %w", d.name, err)
	}
	return &named{draft: f, directory: d}, nil
}

// named is a draft whose errors name the file.
type named struct {
	draft
	directory *Directory
}

func (n *named) commit(name string) error {
	if err := n.draft.commit(name); err != nil {
		return fmt.Errorf("write %s/%s: %w", n.directory.name, name, err)
	}
	return nil
}

// remove removes a range.
func (d *Directory) remove(r Range) error {
	if err := d.files.remove(r.name()); err != nil {
		return fmt.Errorf("delete %s/%s: %w", d.name, r.name(), err)
	}
	return nil
}

// written is when a range was.
func (d *Directory) written(r Range) (time.Time, error) {
	f, err := d.files.stat(r.name())
	if err != nil {
		return time.Time{}, fmt.Errorf("look at %s/%s: %w", d.name, r.name(), err)
	}
	return f.modified, nil
}

func syncDirectory(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("sync a directory of archives: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync a directory of archives: %w", err)
	}
	return nil
}
