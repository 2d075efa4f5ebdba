// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Rest says that files rest in a form: under the names that the form gives them, with an index beside each. Everything
// else has its own name. Indexes are to know records; the zero value: none. It must be called before the first Look and
// before Mirror. Entries of Look are those of the plain files; what is staged gets its name by an entry of Resting or
// RestingIndex.
func (d *Destination) Rest(form cargo.Form, records cargo.Records) { d.form, d.records = form, records }

// Resting returns the entry of what rests of a file, which has so many bytes.
func Resting(form cargo.Form, e *Entry, size int64) Entry {
	r := *e
	r.Path, r.Size, r.Sparse = form.Name(e.Path), size, false
	return r
}

// RestingIndex is Resting for the file's index. Who may read the file may read it; nobody executes it.
func RestingIndex(form cargo.Form, e *Entry, size int64) Entry {
	r := Resting(form, e, size)
	r.Path, r.Mode, r.Xattrs = form.IndexPath(e.Path), e.Mode&0o666, ""
	return r
}

// CheckResting returns an error with a reason if an entry cannot be where files rest in a form.
func CheckResting(form cargo.Form, e *Entry) error {
	_, name := Split(e.Path)
	const fix = "rename it, add it to spec.exclude, or make a Transfer without spec.destination.form"
	if e.Type != File && e.Type != HardLink {
		if _, taken := form.PlainName(name); taken {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
				"%q is no file, and its name is one that files of form %v get: %s", printable(e.Path), form, fix)
		}
		return nil
	}
	if len(name) > form.LongestName(MaxName) || len(form.IndexPath(e.Path)) > MaxPath {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
			"the name of %q is too long for a file of form %v, which adds to it: %s", printable(e.Path), form, fix)
	}
	return nil
}

// lookAtResting compares a file with what rests under its name, by the lengths that the index has of it. It counts one
// that stays as it is without the numbers of its records.
func (d *Destination) lookAtResting(e *Entry, name string) (needed bool, err error) {
	size, stored, records, err := d.restingSizes(e, name)
	if err != nil {
		return false, err
	}
	index, rest := RestingIndex(d.form, e, size), Resting(d.form, e, stored)
	without, err := d.compareFile(&index, d.form.IndexName(name))
	if err != nil {
		return false, err
	}
	needed, err = d.compareFile(&rest, d.form.Name(name))
	if needed = needed || without; !needed && err == nil && d.records.Layout != cargo.NoRecords && records != d.records {
		d.omissions.Add(OmittedRecords, e.Path)
	}
	return needed, err
}

// noSize is that of no file.
const noSize = -1

// restingSizes returns the lengths of a file's index and of what rests of it, noSize unless the index is of a file of
// the entry's length, and which records it knows.
func (d *Destination) restingSizes(e *Entry, name string) (index, stored int64, records cargo.Records, err error) {
	if n := len(d.fresh); n > 0 && d.fresh[n-1] == d.parentPath {
		return noSize, noSize, records, nil
	}
	f, err := openFile(d.parent, d.form.IndexName(name))
	if f == nil || err != nil {
		return noSize, noSize, records, err
	}
	defer f.Close()
	plain, stored, records, err := cargo.Sizes(d.form, f, f.Size())
	if err != nil || plain != e.Size {
		return noSize, noSize, records, nil // What cannot be read comes again.
	}
	return f.Size(), stored, records, nil
}

// resting is a name in a directory of a destination whose files rest in a form, and that of the plain file.
type resting struct {
	name, plain string
	// file: the name is one that a file or an index gets.
	file bool
}

// restingDirectory is directory where files rest in a form: in the order in which plain names were announced. A
// directory comes before what rests under the same plain name, for what is in it was announced behind that.
func (s *sweep) restingDirectory(fd int, path string, names *names) (empty bool, err error) {
	all := make([]resting, names.len())
	for i := range all {
		r := resting{name: names.name(i)}
		if r.plain, r.file = s.destination.form.PlainName(r.name); !r.file {
			r.plain = r.name
		}
		all[i] = r
	}
	slices.SortStableFunc(all, func(a, b resting) int {
		switch {
		case a.plain != b.plain:
			return cmp.Compare(b.plain, a.plain)
		case a.file == b.file:
			return 0
		case a.file:
			return 1
		default:
			return -1
		}
	})
	empty = true
	for _, r := range all {
		if path == Root && r.name == StagingName {
			continue
		}
		gone, err := s.restingEntry(dir(fd), path, r)
		if err != nil {
			return false, err
		}
		empty = empty && gone
	}
	return empty, nil
}

// restingEntry reports whether a name is there no more.
func (s *sweep) restingEntry(in dir, path string, r resting) (gone bool, err error) {
	full := join(path, r.name)
	var st unix.Stat_t
	switch err := in.lstat(r.name, &st); err {
	case nil:
	case unix.ENOENT:
		return true, nil
	default:
		return false, writeError("look at", full, err)
	}
	// Whatever has a name of the wrong kind was not announced, nor was what is in it: it is out of order to ask.
	none := *s
	none.known = unknown
	switch directory, regular := st.Mode&unix.S_IFMT == unix.S_IFDIR, st.Mode&unix.S_IFMT == unix.S_IFREG; {
	case directory && r.file:
		return none.subdirectory(in, full, r.name)
	case directory:
		return s.subdirectory(in, full, r.name)
	case regular && r.file:
		return s.other(in, join(path, r.plain), r.name, true)
	case regular, r.file:
		return none.other(in, full, r.name, false)
	default:
		return s.other(in, full, r.name, false)
	}
}

// record is what a mirror remembers of an entry: its path, and where files rest in a form a NUL behind that of a file.
func (m *mirror) record(e *Entry) []byte {
	if m.destination.form != 0 && (e.Type == File || e.Type == HardLink) {
		return append([]byte(e.Path), 0)
	}
	return []byte(e.Path)
}

// ofRecord is the path of a record, and whether a NUL is behind it.
func ofRecord(record []byte) (path string, file bool) {
	record, file = bytes.CutSuffix(record, []byte{0})
	return string(record), file
}
