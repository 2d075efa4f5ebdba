// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Look brings everything but files into being, hard links at Finish, and compares a file with what is there. It reports
// whether the file's content is needed; a file that has the same size and time of modification is taken as unchanged,
// and its attributes are corrected. A file that shares its content with names that the source does not list with it is
// not touched but needed.
//
// Directories stay writable until Finish gives them their attributes.
func (d *Destination) Look(e *Entry) (needed bool, err error) {
	if d.mirror != nil {
		if err := d.mirror.announce(e); err != nil {
			return false, err
		}
	}
	if e.Path == Root {
		return false, d.dirs.addEntry(e)
	}
	parentPath, _ := Split(e.Path)
	for n := len(d.fresh); n > 0 && d.fresh[n-1] != parentPath && !strings.HasPrefix(parentPath, d.fresh[n-1]+"/"); n-- {
		d.fresh = d.fresh[:n-1]
	}
	name, err := d.enterParent(e)
	if err != nil {
		return false, err
	}
	switch e.Type {
	case Directory:
		return false, d.makeDirectory(e, name)
	case Symlink, FIFO:
		return false, d.makeSpecial(e, name)
	case HardLink:
		return false, d.noteLink(e)
	default:
		return d.lookAtFile(e, name)
	}
}

// LookAgain is Look for a file that was looked at before and is another one now.
func (d *Destination) LookAgain(e *Entry) (needed bool, err error) {
	name, err := d.enterParent(e)
	if err != nil {
		return false, err
	}
	return d.lookAtFile(e, name)
}

// enterParent makes parent the directory of an entry and returns its name in it.
func (d *Destination) enterParent(e *Entry) (name string, err error) {
	parentPath, name := Split(e.Path)
	if d.parent >= 0 && d.parentPath == parentPath {
		return name, nil
	}
	p, err := d.root.openDir(parentPath)
	if err != nil {
		return "", writeError("open the directory of", e.Path, err)
	}
	if d.parent >= 0 {
		_ = d.parent.close()
	}
	d.parent, d.parentPath = p, parentPath
	return name, nil
}

// look is lstat where nothing there is no error.
func (d *Destination) look(e *Entry, name string, st *unix.Stat_t) (exists bool, err error) {
	switch err := d.parent.lstat(name, st); err {
	case nil:
		return true, nil
	case unix.ENOENT:
		return false, nil
	default:
		return false, writeError("look at", e.Path, err)
	}
}

// clearPath sees to it that an entry can take the place of what is there: files and links are replaced, anything else
// only where the destination is a mirror.
func (d *Destination) clearPath(e *Entry, in dir, name string, st *unix.Stat_t) error {
	t := st.Mode & unix.S_IFMT
	if t == unix.S_IFREG || t == unix.S_IFLNK || t == unix.S_IFIFO && e.Type == FIFO {
		return nil
	}
	if d.mirror == nil {
		return occupied(e, t == unix.S_IFDIR)
	}
	return d.mirror.remove(e, in, name, t == unix.S_IFDIR)
}

// occupied says what is in the way when an entry of a type cannot take the place of one that is there.
func occupied(e *Entry, directory bool) error {
	what := "a special file"
	if directory {
		what = "a directory"
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
		"%s is in the place of %q at the destination: remove it, or make a new Transfer with another "+
			"spec.destination.persistentVolumeClaim.path", what, printable(e.Path))
}

func (d *Destination) makeDirectory(e *Entry, name string) error {
	err := unix.Mkdirat(int(d.parent), name, 0o700)
	switch err {
	case nil:
		d.fresh = append(d.fresh, e.Path)
	case unix.EEXIST:
		err = d.reuseDirectory(e, name)
	}
	if err != nil {
		return writeError("make the directory", e.Path, err)
	}
	return d.dirs.addEntry(e)
}

func (d *Destination) reuseDirectory(e *Entry, name string) error {
	var st unix.Stat_t
	exists, err := d.look(e, name, &st)
	if err != nil {
		return err
	}
	if exists && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if st.Mode&0o700 == 0o700 || st.Uid != d.rights.uid {
			return nil
		}
		return d.parent.chmod(name, st.Mode&ModeMask|0o700)
	}
	if exists {
		if err := d.clearPath(e, d.parent, name, &st); err != nil {
			return err
		}
		if err := unix.Unlinkat(int(d.parent), name, 0); err != nil && err != unix.ENOENT {
			return err
		}
	}
	return unix.Mkdirat(int(d.parent), name, 0o700)
}

// makeSpecial makes a symbolic link or a FIFO.
func (d *Destination) makeSpecial(e *Entry, name string) error {
	var st unix.Stat_t
	exists, err := d.look(e, name, &st)
	if err != nil {
		return err
	}
	if exists {
		same, err := d.sameSpecial(e, name, &st)
		if err != nil {
			return err
		}
		if same {
			return d.dressSpecial(e, d.parent, name, &st)
		}
		if err := d.clearPath(e, d.parent, name, &st); err != nil {
			return err
		}
	}
	// Made aside and renamed, so that there is always one or the other.
	for {
		if e.Type == Symlink {
			err = unix.Symlinkat(e.Target, int(d.stage), linkName)
		} else {
			err = unix.Mknodat(int(d.stage), linkName, unix.S_IFIFO|0o600, 0)
		}
		if err != unix.EEXIST || unix.Unlinkat(int(d.stage), linkName, 0) != nil {
			break
		}
	}
	switch {
	case err == nil:
	case e.Type == FIFO && (err == unix.EPERM || errors.Is(err, unix.ENOTSUP) || err == unix.ENOSYS):
		d.omissions.Add(OmittedFIFO, e.Path)
		return nil
	default:
		return d.stageError("make the special file", e.Path, err)
	}
	if err := d.stage.lstat(linkName, &st); err != nil {
		return d.stageError("look at", e.Path, err)
	}
	if err := d.dressSpecial(e, d.stage, linkName, &st); err != nil {
		return err
	}
	if err := unix.Renameat(int(d.stage), linkName, int(d.parent), name); err != nil {
		return d.stageError("give its name to", e.Path, err)
	}
	return nil
}

// sameSpecial reports whether what is there needs no more than attributes.
func (d *Destination) sameSpecial(e *Entry, name string, st *unix.Stat_t) (bool, error) {
	t := st.Mode & unix.S_IFMT
	switch {
	case st.Nlink > 1: // The other names are not to change.
		return false, nil
	case e.Type == FIFO:
		return t == unix.S_IFIFO, nil
	case t != unix.S_IFLNK:
		return false, nil
	}
	target, err := d.parent.readlink(name)
	if err != nil {
		return false, writeError("read the symbolic link", e.Path, err)
	}
	return target == e.Target, nil
}

func (d *Destination) dressSpecial(e *Entry, in dir, name string, st *unix.Stat_t) error {
	n := node{at: in, name: name, fd: -1}
	had, err := d.readXattrs(n, e)
	if err != nil {
		return err
	}
	l, err := d.dress(n, e, st, had, false)
	switch {
	case err == nil:
	case refused(err):
		d.omissions.Add(OmittedAttributes, e.Path)
	default:
		return d.stageError("set the attributes of", e.Path, err)
	}
	d.count(l, e.Path)
	return nil
}

func (d *Destination) lookAtFile(e *Entry, name string) (needed bool, err error) {
	if d.form != 0 {
		return d.lookAtResting(e, name)
	}
	return d.compareFile(e, name)
}

// compareFile compares a file with what has its name.
func (d *Destination) compareFile(e *Entry, name string) (needed bool, err error) {
	if n := len(d.fresh); n > 0 && d.fresh[n-1] == d.parentPath {
		return true, nil
	}
	var st unix.Stat_t
	exists, err := d.look(e, name, &st)
	if err != nil || !exists {
		return true, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && d.mirror != nil {
		return true, nil // Commit removes it, when there is a file to take its place.
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return true, d.clearPath(e, d.parent, name, &st)
	}
	if st.Size != e.Size || modified(&st) != e.Modified || !d.claim(&st) {
		return true, nil
	}
	n := node{at: d.parent, name: name, fd: -1}
	had, err := d.readXattrs(n, e)
	if err != nil {
		return false, err
	}
	if ok, l := d.dressed(e, &st, had); ok {
		d.count(l, e.Path)
		return false, nil
	}
	return d.redress(e, name, &st, had)
}

// redress corrects the attributes of a file. Where it may not, the file is needed: a new one in its place can have
// them.
func (d *Destination) redress(e *Entry, name string, st *unix.Stat_t, had Xattrs) (needed bool, err error) {
	if st.Nlink > 1 {
		return true, nil
	}
	n := node{at: d.parent, name: name}
	n.fd, err = openat(int(d.parent), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return true, nil // Someone else's, or it has just been replaced.
	}
	defer unix.Close(n.fd)
	var now unix.Stat_t
	if err := fstat(n.fd, &now); err != nil {
		return false, writeError("look at", e.Path, err)
	}
	if now.Ino != st.Ino || now.Nlink > 1 || now.Mode&unix.S_IFMT != unix.S_IFREG {
		return true, nil
	}
	l, err := d.dress(n, e, &now, had, true)
	switch {
	case err == nil:
		d.count(l, e.Path)
		return false, nil
	case refused(err):
		return true, nil
	default:
		return false, writeError("set the attributes of", e.Path, err)
	}
}

// maxClaimed bounds what is remembered of files with several names.
const maxClaimed = 1 << 20

// claim reports whether a file is an entry's own: it has no other name, or it is the first one of them that is
// announced.
func (d *Destination) claim(st *unix.Stat_t) bool {
	if st.Nlink < 2 {
		return true
	}
	id := inode{uint64(st.Dev), st.Ino}
	if _, taken := d.claimed[id]; taken || len(d.claimed) >= maxClaimed {
		return false
	}
	d.claimed[id] = struct{}{}
	return true
}
