// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/cargo"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Type is what an Entry is.
type Type uint8

// The types that can be moved.
const (
	File Type = iota + 1
	Directory
	Symlink
	FIFO
	// HardLink is a further name of a file that comes before it in the order of Compare.
	HardLink
)

const (
	// ModeMask are the bits of a mode that move: permissions, setuid, setgid, sticky.
	ModeMask = 0o7777
	// specialBits are those that give rights beyond the permissions.
	specialBits = 0o7000
)

// smallestHole is the smallest block of file systems that have holes.
const smallestHole = 4096

// MaxTarget is the longest target of a symbolic link in bytes.
const MaxTarget = 4095

// Entry is what a tree has under one name. Entries can be compared with ==.
type Entry struct {
	// Path is relative to the tree's root, with '/' between elements, not necessarily UTF-8.
	Path string
	Type Type
	// Mode has the bits of ModeMask.
	Mode uint32
	// Size in bytes; 0 unless a file.
	Size int64
	// Modified is in nanoseconds since 1970.
	Modified int64
	// Target of a symbolic link, or the path of the file that a hard link is a name of.
	Target string
	// UID and GID are the numbers of owner and group.
	UID, GID uint32
	Xattrs   Xattrs
	// Sparse: the file has ranges without blocks.
	Sparse bool
	// Device: the file is a block volume, whose time says nothing of its content. Only Changed does. It does not travel.
	Device bool
	// Form in which the file rests at the source, with its length in Place; 0: it is as it is. It does not travel.
	Form cargo.Form
	// Changed is when content or attributes of a file changed last, in nanoseconds since 1970 by the source's clock
	// (ctime).
	Changed int64
	// Place of the content of a file, for a source that is no tree, or if it rests in a form; nil: none. It does not travel.
	Place *Place

	// device and inode tell a file that was replaced while it was read. They do not travel.
	device, inode uint64
	// shared: it has further names. Neither does this.
	shared bool
}

// Place is where a source has the content of a file.
type Place struct {
	// Archive is a number of an archive, from 1 on, and Offset where the content begins in it.
	Archive uint32
	Offset  int64
	// CRC32 of the content (IEEE).
	CRC32 uint32
	// Stored is the length in bytes of what rests of a file in a form, and Index that of its index in a store.
	Stored, Index int64
}

// Shared reports whether a file that a walk found has further names.
func (e *Entry) Shared() bool { return e.shared }

// Weight is how many bytes an entry takes in a manifest and in memory, about.
func (e *Entry) Weight() int {
	const fixed = 64
	return fixed + len(e.Path) + len(e.Target) + len(e.Xattrs)
}

var wireTypes = map[Type]wirev1.EntryType{
	File:      wirev1.EntryType_ENTRY_TYPE_FILE,
	Directory: wirev1.EntryType_ENTRY_TYPE_DIRECTORY,
	Symlink:   wirev1.EntryType_ENTRY_TYPE_SYMLINK,
	FIFO:      wirev1.EntryType_ENTRY_TYPE_FIFO,
	HardLink:  wirev1.EntryType_ENTRY_TYPE_HARD_LINK,
}

// ToWire returns the entry as it travels.
func (e *Entry) ToWire() *wirev1.Entry {
	w := &wirev1.Entry{
		Path: []byte(e.Path), Type: wireTypes[e.Type], Mode: e.Mode, Size: uint64(e.Size), Modified: e.Modified,
		Uid: e.UID, Gid: e.GID, Xattrs: e.Xattrs.toWire(), Sparse: e.Sparse, Changed: e.Changed,
	}
	if e.Target != "" {
		w.LinkTarget = []byte(e.Target)
	}
	return w
}

// FromWire checks what a peer says of an entry, all by itself: its place among other entries is not checked.
func FromWire(w *wirev1.Entry) (Entry, error) {
	e := Entry{
		Path: string(w.GetPath()), Mode: w.GetMode(), Modified: w.GetModified(), Target: string(w.GetLinkTarget()),
		UID: w.GetUid(), GID: w.GetGid(), Sparse: w.GetSparse(), Changed: w.GetChanged(),
	}
	if err := CheckPath(e.Path); err != nil {
		return Entry{}, fmt.Errorf("path %.200q: %w", e.Path, err)
	}
	for t, wire := range wireTypes {
		if wire == w.GetType() {
			e.Type = t
		}
	}
	if w.GetSize() > math.MaxInt64 {
		return Entry{}, fmt.Errorf("entry %.200q: its size %d is out of range", e.Path, w.GetSize())
	}
	e.Size = int64(w.GetSize())
	err := e.check()
	if err == nil {
		e.Xattrs, err = xattrsFromWire(w.GetXattrs(), e.Type)
	}
	if err == nil && e.Type == HardLink {
		err = e.checkHardLink()
	}
	if err != nil {
		return Entry{}, fmt.Errorf("entry %.200q: %w", e.Path, err)
	}
	return e, nil
}

func (e *Entry) check() error {
	switch {
	case e.Type == 0:
		return errors.New("its type is unknown")
	case e.Mode&^ModeMask != 0:
		return fmt.Errorf("mode %o has unknown bits", e.Mode)
	case e.UID == noID || e.GID == noID:
		return errors.New("its owner or group is none")
	case e.Path == Root && e.Type != Directory:
		return errors.New("the root is no directory")
	case e.Type != File && e.Size != 0:
		return errors.New("it has a size but is no file")
	case e.Type != File && e.Sparse:
		return errors.New("it is sparse but no file")
	case e.Type == Symlink:
		return checkTarget(e.Target)
	case e.Type != HardLink && e.Target != "":
		return errors.New("it has a target but is no link")
	}
	return nil
}

// noID means "leave it" to chown, so that no file can have it.
const noID = math.MaxUint32

// checkHardLink allows only what the kernel needs to make a name: everything else is the file's.
func (e *Entry) checkHardLink() error {
	if e.Mode != 0 || e.Modified != 0 || e.UID != 0 || e.GID != 0 || e.Changed != 0 || e.Xattrs != "" {
		return errors.New("it has attributes but is a hard link")
	}
	if err := CheckPath(e.Target); err != nil {
		return fmt.Errorf("its target %.200q: %w", e.Target, err)
	}
	if e.Target == Root || Compare(e.Target, e.Path) >= 0 {
		return errors.New("it comes before its target")
	}
	return nil
}

// checkTarget allows every target that the kernel allows: links are stored, never followed.
func checkTarget(target string) error {
	switch {
	case target == "":
		return errors.New("its target is empty")
	case len(target) > MaxTarget:
		return fmt.Errorf("its target is longer than %d bytes", MaxTarget)
	case strings.IndexByte(target, 0) >= 0:
		return errors.New("its target contains a NUL byte")
	}
	return nil
}

// describe fills in what stat tells of an entry whose path and type are known.
func (e *Entry) describe(st *unix.Stat_t) {
	e.Mode = st.Mode & ModeMask
	e.Modified = modified(st)
	e.UID, e.GID = st.Uid, st.Gid
	if e.Type == File {
		e.Size = st.Size
		e.Changed = st.Ctim.Nano()
		// The unit is 512 bytes whatever the file system's blocks. Small files may be kept without any.
		e.Sparse = st.Blocks*512 < st.Size && st.Size >= smallestHole
		e.device, e.inode = uint64(st.Dev), st.Ino
		e.shared = st.Nlink > 1
	}
}

// same reports whether a file is still what a walk saw.
func (e *Entry) same(st *unix.Stat_t) bool {
	size := e.Size
	if e.Form != 0 {
		size = e.Place.Stored
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == size && modified(st) == e.Modified &&
		st.Ctim.Nano() == e.Changed && st.Ino == e.inode && uint64(st.Dev) == e.device
}

// AppendIdentity appends what tells a version of a file that a walk has found from all other versions and files. No
// identity is the beginning of another one.
func (e *Entry) AppendIdentity(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Path)))
	b = append(b, e.Path...)
	for _, n := range []uint64{uint64(e.Size), uint64(e.Modified), uint64(e.Changed), e.device, e.inode} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func modified(st *unix.Stat_t) int64 {
	return st.Mtim.Nano()
}
