// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"io"
	"sort"
)

// Dir is the directory that a journal is kept in.
type Dir interface {
	// Create makes an empty file, in the place of one that has the name.
	Create(name string) (File, error)
	// Open opens a file. It returns fs.ErrNotExist if there is none.
	Open(name string) (File, error)
	// Rename gives a file another name, in the place of one that has it.
	Rename(from, to string) error
	// Remove removes a file. One that is not there is no error.
	Remove(name string) error
	// Sync puts the names on stable storage.
	Sync() error
}

// File is a file of a Dir.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Sync puts the bytes and the size on stable storage.
	Sync() error
	Size() (int64, error)
	Close() error
}

// Why a journal is not used. What it tells of is sent whole.
var (
	// ErrDamaged says that a journal is not what was written.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrVersion says that another version of Lighterage wrote the journal.
	ErrVersion = errors.New("the journal has a form that this version does not know")
	// ErrOther says that the journal is not of this sender, or of other chunks.
	ErrOther = errors.New("the journal is of another Transfer")
)

// Untrusted reports whether an error of Open means that there is a journal that is not to be used.
func Untrusted(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ErrVersion) || errors.Is(err, ErrOther)
}

// Header says whose journal it is. Run and Sender have at most 512 bytes each.
type Header struct {
	Run string
	// Sender is the Transfer that the sender's certificate names, and the form in which its files rest, if any.
	Sender string
	// Attempt of the run that writes the journal; those that it is taken over from may have been others.
	Attempt uint32
	// ChunkSize in bytes.
	ChunkSize uint32
}

// Entry is an unfinished file as its sender announced it.
type Entry struct {
	// Number names the staged file. It is never used again while the journal is taken over.
	Number uint64
	Path   string
	Size   int64
	// Modified and Changed in nanoseconds since 1970, see wirev1.Entry.
	Modified int64
	Changed  int64
	Mode     uint32
}

// Range are neighbouring chunks of a file.
type Range struct{ First, Count int64 }

// span is a range whose digests are in the journal file.
type span struct {
	Range
	at int64 // offset of the first digest
}

type state struct {
	Entry
	spans []span
}

// Journal is a journal that is being written. It is for one goroutine at a time.
type Journal struct {
	dir    Dir
	header Header
	file   File
	end    int64 // of what is written
	// sequence of the batch in buffer.
	sequence uint64
	buffer   []byte // the next batch: space for its fixed part, and records
	broken   error

	files map[uint64]*state
	paths map[string]uint64
	cost  int64
	// live are the bytes that the records of files take.
	live int64
}

// Create begins a journal, in the place of one that is there.
func Create(dir Dir, h Header) (*Journal, error) {
	j := newJournal(dir, h)
	if err := j.rewrite(); err != nil {
		return nil, err
	}
	return j, nil
}

// Open takes over the journal that an earlier attempt has left, of this run or of another one of the Transfer. It is
// written again first, so that a receiver which still has the old one open writes to a file without a name. The error
// is fs.ErrNotExist if there is none; see also Untrusted.
func Open(dir Dir, h Header) (*Journal, error) {
	file, err := dir.Open(Name)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	j := newJournal(dir, h)
	j.file = file
	err = j.load()
	if err == nil {
		err = j.rewrite()
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func newJournal(dir Dir, h Header) *Journal {
	return &Journal{dir: dir, header: h, files: make(map[uint64]*state), paths: make(map[string]uint64)}
}

// Close closes the journal, which stays where it is. What was not synced may be lost.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	if err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	return nil
}

// Remove closes the journal and removes it.
func (j *Journal) Remove() error {
	err := j.Close()
	if err == nil {
		err = j.dir.Remove(Name)
	}
	return err
}

// Len is the number of unfinished files.
func (j *Journal) Len() int { return len(j.files) }

// Numbers calls visit for the number of each unfinished file.
func (j *Journal) Numbers(visit func(uint64)) {
	for n := range j.files {
		visit(n)
	}
}

// Has reports whether the journal knows the unfinished file of a number.
func (j *Journal) Has(number uint64) bool {
	_, ok := j.files[number]
	return ok
}

// Find returns the unfinished file of a path.
func (j *Journal) Find(path string) (Entry, bool) {
	number, ok := j.paths[path]
	if !ok {
		return Entry{}, false
	}
	return j.files[number].Entry, true
}

// Ranges returns what is safe of a file, in ascending order and as few ranges as possible.
func (j *Journal) Ranges(number uint64) []Range {
	s := j.files[number]
	if s == nil {
		return nil
	}
	var merged []Range
	for _, r := range s.sorted() {
		if n := len(merged) - 1; n >= 0 && merged[n].First+merged[n].Count == r.First {
			merged[n].Count += r.Count
		} else {
			merged = append(merged, r.Range)
		}
	}
	return merged
}

// Digests returns the digests of neighbouring safe chunks of a file: the first of them is number from, or the next one
// that is safe, and there are at most 4096. There are none when no chunk from there on is safe.
func (j *Journal) Digests(number uint64, from int64) (first int64, digests [][DigestSize]byte, err error) {
	s := j.files[number]
	if s == nil {
		return 0, nil, nil
	}
	spans := s.sorted()
	i := sort.Search(len(spans), func(i int) bool { return spans[i].First+spans[i].Count > from })
	if i == len(spans) {
		return 0, nil, nil
	}
	r := spans[i]
	if skip := from - r.First; skip > 0 {
		r.First, r.Count, r.at = from, r.Count-skip, r.at+skip*DigestSize
	}
	b := make([]byte, r.Count*DigestSize)
	if _, err := j.file.ReadAt(b, r.at); err != nil {
		return 0, nil, fmt.Errorf("read the journal: %w", err)
	}
	digests = make([][DigestSize]byte, r.Count)
	for i := range digests {
		digests[i] = [DigestSize]byte(b[i*DigestSize:])
	}
	return r.First, digests, nil
}
