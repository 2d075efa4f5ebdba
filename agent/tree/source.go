// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ErrChanged says that a file is not what the walk saw any more. Reading it again later, after another walk, may
// succeed.
var ErrChanged = errors.New("the file changed while it was read")

// Source is a tree that is read. It is safe for concurrent use, but for Walk.
type Source struct {
	root *os.File
	// volumeRoot: the tree is a whole volume, so that lost+found in it is the file system's.
	volumeRoot bool
	filter     *filter.Filter
	omissions  *Omissions
	// form of files that rest in it; 0: there are none. engines expand them.
	form    cargo.Form
	engines *codec.Registry
	indexes indexes
	// pause waits between two looks at a file and its index.
	pause func(time.Duration)
}

// OpenSource opens the directory path of a mounted volume. Symbolic links in path are followed inside of the volume.
func OpenSource(volume, path string) (*Source, error) {
	v, err := os.OpenRoot(volume)
	if err != nil {
		return nil, fmt.Errorf("open the source volume: %w", err)
	}
	defer v.Close()
	r, err := v.OpenRoot(path)
	if err != nil {
		return nil, sourceRootError(path, err)
	}
	defer r.Close()
	f, err := r.Open(".")
	if err != nil {
		return nil, sourceRootError(path, err)
	}
	return &Source{root: f, volumeRoot: path == Root, omissions: &Omissions{}, pause: time.Sleep}, nil
}

func sourceRootError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"the source claim has no directory %q: create it, or make a new Transfer or CompressionTrial with another "+
				"spec.source.persistentVolumeClaim.path", path)
	case errors.Is(err, fs.ErrPermission):
		return unreadable(path, err)
	default:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"%q in the source claim cannot be opened (%w): make a new Transfer or CompressionTrial with a directory of the "+
				"claim as spec.source.persistentVolumeClaim.path", path, err)
	}
}

func unreadable(path string, err error) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE,
		"the agent may not read %q (%w): set spec.podTemplate.securityContext.runAsUser to 0 or to the files' owner, "+
			`which the namespace must allow with the annotation lighterage.dev/allow-privileged-agents: "true"`, printable(path),
		err)
}

// Close closes the tree.
func (s *Source) Close() error { return s.root.Close() }

// Omissions returns what walks left out.
func (s *Source) Omissions() *Omissions { return s.omissions }

// SetFilter makes walks leave out what the filter excludes, which counts as no omission. It must be called before Walk.
func (s *Source) SetFilter(f *filter.Filter) { s.filter = f }

// Walk calls visit for every entry in the order of Compare, which starts with the root. Directories that it has entered
// stay open, and the names of each are held in memory. It ends with the first error of visit. Entries that cannot be
// moved are counted in Omissions.
func (s *Source) Walk(ctx context.Context, visit func(*Entry) error) error {
	return s.walk(ctx, s.omissions, visit)
}

// WalkAgain is Walk after another one: what it leaves out was counted then.
func (s *Source) WalkAgain(ctx context.Context, visit func(*Entry) error) error {
	return s.walk(ctx, &Omissions{}, visit)
}

func (s *Source) walk(ctx context.Context, omissions *Omissions, visit func(*Entry) error) error {
	w := walker{
		ctx:       ctx,
		visit:     visit,
		filter:    s.filter,
		links:     newLinkTable(),
		form:      s.form,
		omissions: omissions,
		pause:     s.pause,
	}
	if s.form != 0 {
		w.restingLinks = newLinkTable()
	}
	if s.volumeRoot {
		w.lostAndFound = lostAndFound
	}
	fd, err := openat(int(s.root.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unreadable(Root, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return fmt.Errorf("look at the root of the source: %w", err)
	}
	return w.directory(fd, Root, &st)
}
