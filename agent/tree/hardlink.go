// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func (d *Destination) noteLink(e *Entry) error {
	if d.links == nil {
		var err error
		if d.links, err = d.openSpool(linksName); err != nil {
			return err
		}
	}
	return d.links.addEntry(e)
}

// makeLinks makes the hard links that were announced.
func (d *Destination) makeLinks() error {
	if d.links == nil {
		return nil
	}
	if d.parent >= 0 {
		_ = d.parent.close()
		d.parent = -1
	}
	return d.links.entries(func(e *Entry) error {
		if d.form == 0 {
			return d.makeLink(e)
		}
		// As for other files, the index comes first.
		err := d.makeLink(&Entry{Path: d.form.IndexPath(e.Path), Type: HardLink, Target: d.form.IndexPath(e.Target)})
		if err != nil {
			return err
		}
		return d.makeLink(&Entry{Path: d.form.Name(e.Path), Type: HardLink, Target: d.form.Name(e.Target)})
	})
}

func (d *Destination) makeLink(e *Entry) error {
	from, fromName := Split(e.Target)
	source, err := d.root.openDir(from)
	if err != nil {
		return writeError("open the directory of", e.Target, err)
	}
	defer source.close()
	var want unix.Stat_t
	switch err := source.lstat(fromName, &want); {
	case err == unix.ENOENT && d.discarded.Load():
		d.omissions.Add(OmittedHardLink, e.Path) // The attempt has failed anyway.
		return nil
	case err == unix.ENOENT, err == nil && want.Mode&unix.S_IFMT != unix.S_IFREG:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"hard link %q: there is no file %q at the destination", printable(e.Path), printable(e.Target))
	case err != nil:
		return writeError("look at", e.Target, err)
	}
	to, name := Split(e.Path)
	parent, err := d.root.openDir(to)
	if err != nil {
		return writeError("open the directory of", e.Path, err)
	}
	defer parent.close()
	var st unix.Stat_t
	switch err := parent.lstat(name, &st); {
	case err == nil && st.Dev == want.Dev && st.Ino == want.Ino:
		return nil
	case err == nil:
		if err := d.clearPath(e, parent, name, &st); err != nil {
			return err
		}
	case err != unix.ENOENT:
		return writeError("look at", e.Path, err)
	}
	if err := d.stageLink(e, source, fromName, &want); err != nil {
		return err
	}
	if err := unix.Renameat(int(d.stage), linkName, int(parent), name); err != nil {
		return d.stageError("give its name to", e.Path, err)
	}
	return nil
}

// stageLink makes a further name of a file in the staging directory, or a copy where the file system has no more names.
func (d *Destination) stageLink(e *Entry, source dir, name string, want *unix.Stat_t) error {
	var err error
	for {
		err = unix.Linkat(int(source), name, int(d.stage), linkName, 0)
		if err != unix.EEXIST || unix.Unlinkat(int(d.stage), linkName, 0) != nil {
			break
		}
	}
	switch {
	case err == nil:
	case err == unix.EMLINK, err == unix.EPERM, errors.Is(err, unix.ENOTSUP), err == unix.ENOSYS, err == unix.EXDEV:
		d.omissions.Add(OmittedHardLink, e.Path)
		return d.stageCopy(e)
	default:
		return d.stageError("make the hard link", e.Path, err)
	}
	// Whoever swaps the file for something else meanwhile gets no name for that.
	var st unix.Stat_t
	if err := d.stage.lstat(linkName, &st); err != nil {
		return d.stageError("look at the hard link", e.Path, err)
	}
	if st.Dev != want.Dev || st.Ino != want.Ino || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"%q changed at the destination while its hard link %q was made: keep others from writing to the claim",
			printable(e.Target), printable(e.Path))
	}
	return nil
}

// stageCopy copies the target of a hard link.
func (d *Destination) stageCopy(e *Entry) error {
	old, err := d.OpenOld(e.Target)
	if err != nil {
		return err
	}
	if old == nil {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"hard link %q: there is no file %q at the destination", printable(e.Path), printable(e.Target))
	}
	defer old.Close()
	copied := Entry{Path: e.Path, Type: File}
	var st unix.Stat_t
	if err := fstat(old.fd, &st); err != nil {
		return writeError("look at", e.Target, err)
	}
	copied.describe(&st)
	if copied.Xattrs, err = d.readXattrs(node{fd: old.fd}, &copied); err != nil {
		return err
	}
	f, err := d.stageFile(linkName, &copied)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.grow(st.Size); err != nil {
		return err
	}
	if err := f.CopyFrom(old, 0, st.Size); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.dress(&copied)
}
