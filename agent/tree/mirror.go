// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// mirror removes what was not announced.
type mirror struct {
	destination *Destination
	filter      *filter.Filter
	seen        *spool // paths
	removed     atomic.Uint64
	allowEmpty  bool
	// content: something else than directories was announced.
	content bool
	// keep: Finish removes nothing.
	keep bool
	// forgotten count as if they had not been announced.
	forgotten map[string]struct{}

	// path is the last record of seen that was read; started and ended tell whether there is one. file: it is of a file
	// that rests in a form.
	path           string
	file           bool
	started, ended bool
}

// Mirror makes the destination one that has nothing but what is announced: an entry replaces the directory in its
// place, and Finish removes what was not announced, the contents of a directory before itself. What the filter excludes
// is never removed, nor a directory that has some of it; neither is lost+found at the root of a volume. Unless
// allowEmpty, Finish fails instead of removing anything when nothing but directories was announced. It must be called
// before the first Look. The list of what was announced takes about the length of its path for each entry, on the
// volume.
func (d *Destination) Mirror(f *filter.Filter, allowEmpty bool) error {
	seen, err := d.openSpool(seenName)
	if err != nil {
		return err
	}
	d.mirror = &mirror{destination: d, filter: f, seen: seen, allowEmpty: allowEmpty}
	return nil
}

// KeepOthers has Finish remove nothing: not everything that was announced is there.
func (d *Destination) KeepOthers() {
	if d.mirror != nil {
		d.mirror.keep = true
	}
}

// Removed is how many files, directories and others Mirror has removed.
func (d *Destination) Removed() uint64 {
	if d.mirror == nil {
		return 0
	}
	return d.mirror.removed.Load()
}

// Forget has a mirror remove what is under a path although it was announced.
func (d *Destination) Forget(path string) {
	if d.mirror == nil {
		return
	}
	if d.mirror.forgotten == nil {
		d.mirror.forgotten = make(map[string]struct{})
	}
	d.mirror.forgotten[path] = struct{}{}
}

func (m *mirror) announce(e *Entry) error {
	m.content = m.content || e.Type != Directory
	return m.seen.add(m.record(e), e.Path)
}

func (m *mirror) close() {
	if m.seen != nil {
		_ = m.seen.close()
		m.seen = nil
	}
}

// announced reports whether a path was, with file as that of a file that rests in a form. It must be called in
// descending order of Compare.
func (m *mirror) announced(path string, file bool) (bool, error) {
	for !m.ended && (!m.started || Compare(m.path, path) > 0) {
		record, err := m.seen.previous()
		switch {
		case err == nil:
			m.started = true
			m.path, m.file = ofRecord(record)
		case errors.Is(err, io.EOF):
			m.ended = true
		default:
			return false, err
		}
	}
	_, forgotten := m.forgotten[path]
	return !m.ended && m.path == path && m.file == file && !forgotten, nil
}

// finish removes what was not announced.
func (m *mirror) finish() error {
	if m.keep {
		return nil
	}
	fd, err := m.destination.root.open(Root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return writeError("open", Root, err)
	}
	defer unix.Close(fd)
	s := sweep{mirror: m, known: m.announced, brake: !m.allowEmpty && !m.content}
	_, err = s.directory(fd, Root)
	return err
}

// remove makes space for an entry in a directory.
func (m *mirror) remove(e *Entry, in dir, name string, directory bool) error {
	s := sweep{mirror: m, known: unknown}
	if !directory {
		return s.unlink(in, e.Path, name, 0)
	}
	if e.Path == lostAndFound && m.destination.volumeRoot {
		return occupied(e, true)
	}
	empty, err := s.enter(in, e.Path, name)
	if err == nil && empty {
		empty, err = s.removeDirectory(in, e.Path, name)
	}
	if err == nil && !empty {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"a directory is in the place of %q at the destination and has files that the filters exclude: remove it, or "+
				"change spec.exclude", printable(e.Path))
	}
	return err
}

// unknown is of a sweep that keeps nothing.
func unknown(string, bool) (bool, error) { return false, nil }

// sweep removes what is in a directory and not known, from the last name to the first and from the bottom to the top.
type sweep struct {
	*mirror
	known func(path string, file bool) (bool, error)
	// brake: nothing may be removed.
	brake bool
}

// errEmpty is why a mirror of nothing removes nothing.
func errEmpty(path string) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY,
		"the source has no files that spec.include and spec.exclude let through, and spec.delete would remove all that the "+
			"destination has, such as %q: nothing was removed; check the claim, the path and the patterns, or set "+
			"spec.allowEmptySource: true to empty the destination", printable(path))
}

// directory reports whether nothing is left in an open directory.
func (s *sweep) directory(fd int, path string) (empty bool, err error) {
	names, err := readNames(fd)
	if err != nil {
		return false, writeError("read the directory", path, err)
	}
	if s.destination.form != 0 {
		return s.restingDirectory(fd, path, names)
	}
	empty = true
	for i := names.len() - 1; i >= 0; i-- {
		name := names.name(i)
		if path == Root && name == StagingName {
			continue
		}
		gone, err := s.entry(dir(fd), join(path, name), name)
		if err != nil {
			return false, err
		}
		empty = empty && gone
	}
	return empty, nil
}

// entry reports whether a name is there no more.
func (s *sweep) entry(in dir, path, name string) (gone bool, err error) {
	var st unix.Stat_t
	switch err := in.lstat(name, &st); err {
	case nil:
	case unix.ENOENT:
		return true, nil
	default:
		return false, writeError("look at", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return s.other(in, path, name, false)
	}
	return s.subdirectory(in, path, name)
}

// other reports whether something that is no directory is there no more.
func (s *sweep) other(in dir, path, name string, file bool) (gone bool, err error) {
	known, err := s.known(path, file)
	if err != nil || known || !s.filter.Match(path, false) {
		return false, err
	}
	return true, s.unlink(in, path, name, 0)
}

// subdirectory reports whether a directory is there no more.
func (s *sweep) subdirectory(in dir, path, name string) (gone bool, err error) {
	if path == lostAndFound && s.destination.volumeRoot {
		return false, nil
	}
	empty := false
	if s.filter.Enter(path) {
		if empty, err = s.enter(in, path, name); err != nil {
			return false, err
		}
	}
	known, err := s.known(path, false)
	if err != nil || known || !empty || !s.filter.Match(path, true) {
		return false, err
	}
	return s.removeDirectory(in, path, name)
}

func (s *sweep) enter(in dir, path, name string) (empty bool, err error) {
	fd, err := openat(int(in), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return true, nil
	}
	if err != nil {
		return false, writeError("open the directory", path, err)
	}
	defer unix.Close(fd)
	return s.directory(fd, path)
}

func (s *sweep) removeDirectory(in dir, path, name string) (gone bool, err error) {
	if s.brake {
		return false, errEmpty(path)
	}
	switch err := s.unlinkOnce(in, name, unix.AT_REMOVEDIR); {
	case err == unix.ENOTEMPTY, err == unix.EEXIST:
		return false, nil // Something came meanwhile.
	case err != nil:
		return false, writeError("remove the directory", path, err)
	}
	return true, nil
}

func (s *sweep) unlink(in dir, path, name string, flags int) error {
	if s.brake {
		return errEmpty(path)
	}
	if err := s.unlinkOnce(in, name, flags); err != nil {
		return writeError("remove", path, err)
	}
	return nil
}

// unlinkOnce removes a name and counts it. It is not called for what was announced, so the directory may have been made
// read-only by its owner, who we are: that is no reason to keep what is in it.
func (s *sweep) unlinkOnce(in dir, name string, flags int) error {
	err := unix.Unlinkat(int(in), name, flags)
	if err == unix.EACCES {
		err = s.unlinkReadOnly(in, name, flags)
	}
	switch err {
	case nil:
		s.removed.Add(1)
	case unix.ENOENT:
		err = nil
	}
	return err
}

func (s *sweep) unlinkReadOnly(in dir, name string, flags int) error {
	var st unix.Stat_t
	if err := in.lstat(".", &st); err != nil {
		return err
	}
	if err := in.chmod(".", st.Mode&ModeMask|0o700); err != nil {
		return unix.EACCES
	}
	err := unix.Unlinkat(int(in), name, flags)
	if restored := in.chmod(".", st.Mode&ModeMask); err == nil && restored != unix.ENOENT {
		err = restored
	}
	return err
}
