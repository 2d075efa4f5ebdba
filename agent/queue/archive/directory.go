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
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
)

// The names of files in an archive.
const (
	blocksSuffix   = ".range"
	linesSuffix    = ".jsonl"
	temporary      = ".tmp"
	indexName      = "index"
	sequenceDigits = 20
	tagDigits      = 8
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
	// form in which its lines rest; 0: it consists of blocks, as releases before this form wrote it.
	form cargo.Form
	// tag is a random one, so that two members never write the same file, of which one would have the data and the
	// other the index.
	tag uint32
}

// newTag returns a random one.
func newTag() uint32 { return rand.Uint32() }

// plainName is that of its file without what the form adds.
func (r Range) plainName() string {
	return fmt.Sprintf("%0*d-%0*d-%0*x%s", sequenceDigits, r.First, sequenceDigits, r.Last, tagDigits, r.tag, linesSuffix)
}

// name of its file.
func (r Range) name() string {
	if r.form == 0 {
		return fmt.Sprintf("%0*d-%0*d%s", sequenceDigits, r.First, sequenceDigits, r.Last, blocksSuffix)
	}
	return r.form.Name(r.plainName())
}

// indexName is that of the index beside it; empty: it has none.
func (r Range) indexName() string {
	if r.form == 0 {
		return ""
	}
	return r.form.IndexName(r.plainName())
}

func parseRange(name string) (Range, bool) {
	if text, found := strings.CutSuffix(name, blocksSuffix); found {
		return parseSequences(text)
	}
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
		plain, ok := form.PlainName(name)
		text, lines := strings.CutSuffix(plain, linesSuffix)
		if at := strings.LastIndexByte(text, '-'); ok && lines && at >= 0 {
			r, ok := parseSequences(text[:at])
			tag, err := strconv.ParseUint(text[at+1:], 16, 32)
			r.form, r.tag = form, uint32(tag)
			return r, ok && err == nil && (r.name() == name || r.indexName() == name)
		}
	}
	return Range{}, false
}

func parseSequences(text string) (Range, bool) {
	first, last, both := strings.Cut(text, "-")
	if !both || len(first) != sequenceDigits || len(last) != sequenceDigits {
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
	all, _, err := d.list(time.Time{})
	return all, err
}

// list returns the ranges, by their first sequence, and those of which there is only the index, since before a time: an
// end, or a failure, came before the data.
func (d *Directory) list(since time.Time) (all, lost []Range, err error) {
	err = d.files.list(func(f file) bool {
		r, ok := parseRange(f.name)
		switch {
		case !ok:
		case strings.HasSuffix(f.name, cargo.IndexSuffix):
			if f.modified.Before(since) {
				lost = append(lost, r)
			}
		default:
			r.Size = f.size
			all = append(all, r)
		}
		return max(len(all), len(lost)) <= maxRanges
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list the archive %s: %w", d.name, err)
	}
	if max(len(all), len(lost)) > maxRanges {
		return nil, nil, fmt.Errorf("list the archive %s: %w", d.name, damaged("it has more than %d ranges", maxRanges))
	}
	slices.SortFunc(all, compareRanges)
	lost = slices.DeleteFunc(lost, func(r Range) bool {
		_, found := slices.BinarySearchFunc(all, r, compareRanges)
		return found
	})
	return all, lost, nil
}

func compareRanges(a, b Range) int {
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), cmp.Compare(a.form, b.form),
		cmp.Compare(a.tag, b.tag))
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

// write writes a file of a content. Its draft has a name of its own.
func (d *Directory) write(name string, content []byte, draft string) error {
	f, err := d.create(draft)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(fmt.Errorf("write %s/%s: %w", d.name, name, err), f.abandon())
	}
	return f.commit(name)
}

// remove removes a range, and the index beside it last: a range that is there has one.
func (d *Directory) remove(r Range) error {
	for _, name := range []string{r.name(), r.indexName()} {
		if name == "" {
			continue
		}
		if err := d.files.remove(name); err != nil {
			return fmt.Errorf("delete %s/%s: %w", d.name, name, err)
		}
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
