// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"golang.org/x/sys/unix"
)

// lost are attributes that could not be kept.
type lost uint8

const (
	lostOwner lost = 1 << iota
	lostMode
	lostXattr
)

func (d *Destination) count(l lost, path string) {
	if l&lostOwner != 0 {
		d.omissions.Add(OmittedOwner, path)
	}
	if l&lostMode != 0 {
		d.omissions.Add(OmittedMode, path)
	}
	if l&lostXattr != 0 {
		d.omissions.Add(OmittedXattr, path)
	}
}

// refused reports whether an attribute is not ours to change.
func refused(err error) bool { return err == unix.EPERM || err == unix.EACCES }

// dressed reports whether a node has all attributes of an entry that it can have. had are its extended attributes.
func (d *Destination) dressed(e *Entry, st *unix.Stat_t, had Xattrs) (ok bool, l lost) {
	uid, gid := d.rights.owner(e, st)
	if uid >= 0 || gid >= 0 || had != e.Xattrs || modified(st) != e.Modified {
		return false, 0
	}
	mode := d.rights.mode(e, st)
	if e.Type != Symlink && st.Mode&ModeMask != mode {
		return false, 0
	}
	return true, lostBy(e, st, mode)
}

func lostBy(e *Entry, st *unix.Stat_t, mode uint32) (l lost) {
	if st.Uid != e.UID || st.Gid != e.GID {
		l |= lostOwner
	}
	if e.Type != Symlink && mode != e.Mode {
		l |= lostMode
	}
	return l
}

// dress gives a node the attributes of an entry. st is what it is, had are its extended attributes. It returns what
// cannot be kept; an error for which refused is true says that the node is someone else's. strict takes extended
// attributes as such a reason, too.
func (d *Destination) dress(n node, e *Entry, st *unix.Stat_t, had Xattrs, strict bool) (lost, error) {
	// The kernel takes setuid, setgid and capabilities away when the owner changes, and the mode changes with the ACL.
	stale := false
	if uid, gid := d.rights.owner(e, st); uid >= 0 || gid >= 0 {
		switch err := n.chown(uid, gid); err {
		case nil:
			stale = true
			if uid >= 0 {
				st.Uid = e.UID
			}
			if gid >= 0 {
				st.Gid = e.GID
			}
		case unix.EPERM, unix.EINVAL: // EINVAL: the user namespace does not have it.
		default:
			return 0, err
		}
	}
	var l lost
	if had != e.Xattrs || stale && had != "" {
		var err error
		if l, err = d.setXattrs(n, e, had, stale); err != nil && (strict || !refused(err)) {
			return l, err
		}
		stale = true
	}
	mode := d.rights.mode(e, st)
	if e.Type != Symlink && (stale || st.Mode&ModeMask != mode) {
		if err := n.chmod(mode); err != nil {
			return l, err
		}
	}
	l |= lostBy(e, st, mode)
	if e.Type == Directory && mode&unix.S_ISGID != 0 {
		// The kernel clears it without a word if the group is not one of ours.
		if err := n.stat(st); err == nil && st.Mode&unix.S_ISGID == 0 {
			l |= lostMode
		}
	}
	if modified(st) != e.Modified {
		return l, n.setModified(e.Modified)
	}
	return l, nil
}

// setXattrs makes extended attributes those of an entry. stale: those that it had may be gone.
func (d *Destination) setXattrs(n node, e *Entry, had Xattrs, stale bool) (l lost, err error) {
	note := func(name string, failed error) error {
		switch {
		case failed == nil:
		case d.xattrLost(failed):
			l |= lostXattr
			if refused(failed) && !privilegedXattr(name) {
				err = failed
			}
		default:
			return failed
		}
		return nil
	}
	for name, value := range e.Xattrs.All() {
		if old, ok := had.Get(name); ok && old == value && !stale {
			continue
		}
		if err := note(name, n.setXattr(name, value)); err != nil {
			return l, err
		}
	}
	for name := range had.All() {
		if _, ok := e.Xattrs.Get(name); ok {
			continue
		}
		if err := note(name, n.removeXattr(name)); err != nil {
			return l, err
		}
	}
	return l, err
}

// xattrLost reports whether an error means that an attribute cannot be kept, and not that something is wrong.
func (d *Destination) xattrLost(err error) bool {
	switch err {
	case unix.EPERM, unix.EACCES, unix.ENOTSUP, unix.ENOSYS, unix.EINVAL, unix.E2BIG, unix.ERANGE, unix.ENAMETOOLONG,
		unix.EFBIG:
		return true
	case unix.ENOSPC:
		// Some file systems say so when a file has no space for the attribute.
		var fs unix.Statfs_t
		return unix.Fstatfs(int(d.root), &fs) == nil && fs.Bavail > 0
	}
	return false
}
