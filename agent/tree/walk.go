// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/filter"
)

// walker visits a tree once.
type walker struct {
	ctx          context.Context
	visit        func(*Entry) error
	filter       *filter.Filter
	lostAndFound string
	links        *linkTable
	xattrs       xattrReader
	omissions    *Omissions
	// form of files that rest in it, 0: there are none. Names of these are remembered apart: a further name without an
	// index is one of other content.
	form         cargo.Form
	restingLinks *linkTable
	pause        func(time.Duration)
	// onTheWay are directories that the filter leaves out but for what it moves in them. They are visited before the
	// first of that.
	onTheWay []*Entry
}

// emit visits an entry after the directories that it is in.
func (w *walker) emit(e *Entry) error {
	for _, d := range w.onTheWay {
		if err := w.visit(d); err != nil {
			return err
		}
	}
	w.onTheWay = w.onTheWay[:0]
	return w.visit(e)
}

func (w *walker) directory(fd int, path string, st *unix.Stat_t) error {
	e := &Entry{Path: path, Type: Directory}
	e.describe(st)
	var err error
	if e.Xattrs, err = w.readXattrs(node{fd: fd}, e); err != nil {
		return err
	}
	waiting := len(w.onTheWay)
	if w.filter.Match(path, true) {
		if err := w.emit(e); err != nil {
			return err
		}
	} else {
		w.onTheWay = append(w.onTheWay, e)
	}
	if !w.filter.Enter(path) {
		return nil
	}
	names, err := readNames(fd)
	if err != nil {
		return fmt.Errorf("read the directory %q: %w", printable(path), err)
	}
	if err := w.names(dir(fd), path, names); err != nil {
		return err
	}
	// Nothing in it moved.
	w.onTheWay = w.onTheWay[:min(waiting, len(w.onTheWay))]
	return nil
}

// names visits what has names in a directory.
func (w *walker) names(d dir, path string, names *names) error {
	visit := func(r resting) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if path == Root && r.name == StagingName {
			w.omissions.Add(OmittedStaging, r.name)
			return nil
		}
		return w.entry(d, path, r)
	}
	if w.form != 0 {
		for _, r := range w.sourceNames(path, names) {
			if err := visit(r); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range names.len() {
		name := names.name(i)
		if err := visit(resting{name: name, plain: name}); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(d dir, parent string, r resting) error {
	path, name := join(parent, r.plain), r.name
	var st unix.Stat_t
	if err := d.lstat(name, &st); err != nil {
		if err == unix.ENOENT {
			return nil // Removed after its name was read, as if a little earlier.
		}
		return fmt.Errorf("look at %q: %w", printable(path), err)
	}
	directory := st.Mode&unix.S_IFMT == unix.S_IFDIR && !r.file
	switch {
	case !w.filter.Match(path, directory) && (!directory || !w.filter.Enter(path)):
		return nil
	case len(path) > MaxPath:
		// No program could open it by its path at the destination either; with a directory goes all that is in it.
		w.omissions.Add(OmittedPath, path)
		return nil
	case directory:
		return w.subdirectory(d, path, name)
	}
	e, links := &Entry{Path: path}, w.links
	if r.file {
		if e.Form, links = w.form, w.restingLinks; st.Mode&unix.S_IFMT != unix.S_IFREG {
			return noFile(e)
		}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Type = File
	case unix.S_IFLNK:
		e.Type = Symlink
		target, err := d.readlink(name)
		if err == unix.ENOENT || err == unix.EINVAL {
			return nil // Removed or replaced: the next run finds what it is now.
		}
		if err != nil {
			return fmt.Errorf("read the symbolic link %q: %w", printable(path), err)
		}
		e.Target = target
	case unix.S_IFIFO:
		e.Type = FIFO
	case unix.S_IFSOCK:
		w.omissions.Add(OmittedSocket, path)
		return nil
	default:
		w.omissions.Add(OmittedDevice, path)
		return nil
	}
	if named, err := w.named(e, links, parent, r, &st); named || err != nil {
		return err
	}
	e.describe(&st)
	if r.file {
		if done, err := w.settle(e, d, parent, r, &st); done || err != nil {
			return err
		}
	}
	var err error
	if e.Xattrs, err = w.readXattrs(node{at: d, name: name, fd: -1}, e); err != nil {
		return err
	}
	return w.emit(e)
}

// named emits an entry as a further name, and reports that, if there was another name of it before.
func (w *walker) named(e *Entry, links *linkTable, parent string, r resting, st *unix.Stat_t) (bool, error) {
	if st.Nlink <= 1 {
		return false, nil
	}
	first, kept := links.name(parent, r.plain, st)
	if first != "" && e.Type == File {
		return true, w.emit(&Entry{Path: e.Path, Type: HardLink, Target: first, Form: e.Form})
	}
	if first != "" || !kept {
		w.omissions.Add(OmittedHardLink, e.Path)
	}
	return false, nil
}

// readXattrs counts what it leaves out.
func (w *walker) readXattrs(n node, e *Entry) (Xattrs, error) {
	x, err := w.xattrs.read(n, e.Type)
	switch {
	case err == nil:
	case errors.Is(err, errXattrs):
		w.omissions.Add(OmittedXattr, e.Path)
	case err == unix.ENOENT: // Removed, which reading its content will tell.
	default:
		return "", fmt.Errorf("read the extended attributes of %q: %w", printable(e.Path), err)
	}
	return x, nil
}

func (w *walker) subdirectory(d dir, path, name string) error {
	fd, err := openat(int(d), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
	case err == unix.ENOENT:
		return nil
	case errors.Is(err, fs.ErrPermission) && path == w.lostAndFound:
		w.omissions.Add(OmittedUnreadable, path)
		return nil
	case errors.Is(err, fs.ErrPermission):
		return unreadable(path, err)
	default:
		return fmt.Errorf("open the directory %q: %w", printable(path), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %q: %w", printable(path), err)
	}
	return w.directory(fd, path, &st)
}
