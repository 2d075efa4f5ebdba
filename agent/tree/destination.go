// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Destination is a tree that is written. Entries that passed FromWire are written below its root and nowhere else;
// symbolic links on the way to an entry are errors. Mirror, Look and Finish are for one goroutine, the rest is safe for
// concurrent use.
type Destination struct {
	root      dir
	stage     dir
	staging   string // path of stage below root
	omissions *Omissions
	rights    rights
	xattrs    xattrReader

	dirs   *spool     // directories, which get their attributes at the end
	links  *spool     // hard links, which are made when their files are there; nil before the first
	mirror *mirror    // nil unless the destination is to have nothing else
	form   cargo.Form // in which files rest; 0: as they are
	// records that the indexes of these are to know; the zero value: none.
	records cargo.Records
	// claimed are files with several names that an entry has taken as its own: no other entry may share them by chance.
	claimed map[inode]struct{}
	// discarded: not all files that were announced are there.
	discarded atomic.Bool
	// volumeRoot: the tree is a whole volume.
	volumeRoot bool

	// parents are the directories that files get their names in.
	parents *dirCache
	// parent is the directory that Look worked in last.
	parent     dir
	parentPath string
	// fresh are the directories on the way there that Look made, outermost first: nothing needs to be looked for in
	// them.
	fresh []string
	// finished is the root after Finish, until Close; content is for reading below it. -1 before and after.
	finished dir
	content  contentReader
}

// OpenDestination opens the directory path of a mounted volume, which is made if it is not there. path must pass
// CheckPath, and no element of it may be a symbolic link or a staging directory. What earlier attempts of the run or of
// the one before staged is taken over, from receivers that still live as well, which then can write no more. run is an
// element of a path without dots.
func OpenDestination(volume, path, run string, attempt uint32) (*Destination, error) {
	err := CheckPath(path)
	if err == nil && slices.Contains(strings.Split(path, "/"), StagingName) {
		err = errElementStage // Another attempt may remove it at any time.
	}
	if err != nil {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND,
			"the path %q in the destination claim is not usable: %w", printable(path), err)
	}
	v, err := unix.Open(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the destination volume: %w", err)
	}
	defer unix.Close(v)
	if err := makePath(dir(v), path); err != nil {
		return nil, err
	}
	root, err := dir(v).open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, writeError("open", path, err)
	}
	d := &Destination{
		root: dir(root), finished: -1, stage: -1, parent: -1,
		omissions: &Omissions{}, rights: findRights(), claimed: make(map[inode]struct{}), volumeRoot: path == Root,
	}
	d.parents = newDirCache(d.root)
	if err := d.makeStaging(run, attempt); err != nil {
		d.closeAll()
		return nil, err
	}
	return d, nil
}

// makePath makes the directories of a path below v.
func makePath(v dir, path string) error {
	if path == Root {
		return nil
	}
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		parent, name := Split(path[:i])
		p, err := v.openDir(parent)
		if err != nil {
			return writeError("open", parent, err)
		}
		err = unix.Mkdirat(int(p), name, 0o777)
		_ = p.close()
		if err != nil && err != unix.EEXIST {
			return writeError("make", path[:i], err)
		}
	}
	return nil
}

// Omissions returns what could not be kept.
func (d *Destination) Omissions() *Omissions { return d.omissions }

// Finish makes hard links, removes what a mirror does not have, gives every directory its attributes, syncs the file
// system and removes the staging directory. Everything that was announced must have been committed or discarded. The
// destination is closed afterwards, whatever Finish returns; after success ReadContent and ReadLink work until it is
// closed again.
func (d *Destination) Finish() error {
	err := d.checkOwned()
	if err == nil {
		err = d.finish()
	}
	if err == nil {
		d.finished, err = d.root.duplicate()
	}
	return errors.Join(err, d.Close())
}

func (d *Destination) finish() error {
	if err := d.makeLinks(); err != nil {
		return err
	}
	if d.mirror != nil {
		if err := d.mirror.finish(); err != nil {
			return err
		}
	}
	var root *Entry
	err := d.dirs.entries(func(e *Entry) error {
		if e.Path == Root {
			root = e
			return nil
		}
		return d.finishDirectory(e)
	})
	if err != nil {
		return err
	}
	// The staging directory must go before the root gets its time, and files in it must be closed before, for NFS keeps
	// them until then.
	d.closeSpools()
	if err := d.removeStaging(); err != nil {
		return err
	}
	if root != nil {
		if err := d.finishDirectory(root); err != nil {
			return err
		}
	}
	return d.Sync()
}

func (d *Destination) finishDirectory(e *Entry) error {
	fd, err := d.root.open(e.Path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return writeError("open", e.Path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return writeError("look at", e.Path, err)
	}
	n := node{at: dir(fd), name: ".", fd: fd}
	had, err := d.readXattrs(n, e)
	if err != nil {
		return err
	}
	l, err := d.dress(n, e, &st, had, false)
	switch {
	case err == nil:
	case refused(err):
		d.omissions.Add(OmittedAttributes, e.Path)
	default:
		return writeError("set the attributes of", e.Path, err)
	}
	d.count(l, e.Path)
	return nil
}

// readXattrs reads what a node at the destination has. What cannot be read is set again.
func (d *Destination) readXattrs(n node, e *Entry) (Xattrs, error) {
	x, err := d.xattrs.read(n, e.Type)
	if err != nil && !errors.Is(err, errXattrs) {
		return "", writeError("read the extended attributes of", e.Path, err)
	}
	return x, nil
}

func (d *Destination) closeSpools() {
	for _, s := range []**spool{&d.dirs, &d.links} {
		if *s != nil {
			_ = (*s).close()
			*s = nil
		}
	}
	if d.mirror != nil {
		d.mirror.close()
	}
}

func (d *Destination) closeAll() {
	d.closeSpools()
	d.parents.close()
	for _, fd := range []*dir{&d.parent, &d.stage, &d.root} {
		if *fd >= 0 {
			_ = fd.close()
			*fd = -1
		}
	}
}

// WriteError gives an error of writing to a claim the reason for what a user can fix, with what was done to which path.
func WriteError(did, path string, err error) error { return writeError(did, path, err) }

// writeError adds what was done to which path, and the reason for what a user can fix. Errors that have a reason keep
// it.
func writeError(did, path string, err error) error {
	var known *failure.Error
	if errors.As(err, &known) {
		return err
	}
	path = printable(path)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
			"the destination volume is full (%s %q: %w): enlarge the claim or free space on it", did, path, err)
	case errors.Is(err, unix.EROFS):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"the destination volume is read-only (%s %q: %w): mount it writable", did, path, err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"the agent may not %s %q at the destination (%w): give the directory to group 65532 or let the volume honour "+
				"fsGroup",
			did, path, err)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"cannot %s %q at the destination: a file or symbolic link is in the place of one of its directories (%w): remove "+
				"it, or make a new Transfer with another spec.destination.persistentVolumeClaim.path", did, path, err)
	default:
		return fmt.Errorf("%s %q at the destination: %w", did, path, err)
	}
}
