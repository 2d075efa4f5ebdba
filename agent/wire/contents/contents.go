// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contents is the content manifest of a run: what each regular file and symbolic link holds, by SHA-256. Both
// ends of a Transfer compute its digest, receipts state it, and whoever has the files can compute it again.
//
// A manifest is a text. After the first line, which is Header, each entry is a line of
//
//	f NUL path NUL size NUL sha256 LF    a regular file, whatever number of names it has
//	l NUL path NUL size NUL sha256 LF    a symbolic link; size and sha256 are of its target
//
// with the path relative to the root and its elements separated by '/', the size in decimal and the digest in
// lower-case hexadecimal digits. Paths are bytes and may contain LF, but not NUL. Entries ascend by path, compared
// element by element as bytes. The digest of a manifest is the SHA-256 of the text. Directories, FIFOs, modes,
// owners, times and extended attributes are not in it.
package contents

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
)

// Header is the first line of a manifest.
const Header = "lighterage-contents-v1\n"

// maxPath is the kernel's limit for a path in bytes.
const maxPath = 4095

// ErrOrder is returned for an entry that does not come after the one before it.
var ErrOrder = errors.New("entries of a content manifest ascend by path")

// Entry is a line of a manifest.
type Entry struct {
	Path string
	// Symlink: Size and SHA256 are of the link's target.
	Symlink bool
	Size    uint64
	SHA256  [sha256.Size]byte
}

// LinkTo returns the entry of a symbolic link.
func LinkTo(path, target string) Entry {
	return Entry{Path: path, Symlink: true, Size: uint64(len(target)), SHA256: sha256.Sum256([]byte(target))}
}

// append appends the line of an entry.
func (e *Entry) append(b []byte) []byte {
	kind := byte('f')
	if e.Symlink {
		kind = 'l'
	}
	b = append(b, kind, 0)
	b = append(b, e.Path...)
	b = append(b, 0)
	b = strconv.AppendUint(b, e.Size, 10)
	b = append(b, 0)
	b = hex.AppendEncode(b, e.SHA256[:])
	return append(b, '\n')
}

// Digest computes the digest of a manifest, entry by entry. It holds no more than one line.
type Digest struct {
	// Files and Links were added; Bytes are those of the files.
	Files, Links, Bytes uint64

	hash hash.Hash
	// to gets the text as well; nil: nobody.
	to   io.Writer
	last string
	line []byte
}

// NewDigest returns the digest of a manifest without entries. If to is not nil, the manifest is written to it.
func NewDigest(to io.Writer) (*Digest, error) {
	d := &Digest{hash: sha256.New(), to: to}
	return d, d.write([]byte(Header))
}

// Add adds the next entry.
func (d *Digest) Add(e *Entry) error {
	if len(e.Path) == 0 || len(e.Path) > maxPath {
		return fmt.Errorf("a path of %d bytes in a content manifest; it has 1 to %d", len(e.Path), maxPath)
	}
	for i := range len(e.Path) {
		if e.Path[i] == 0 {
			return fmt.Errorf("path %.200q in a content manifest has a NUL byte", e.Path)
		}
	}
	if d.Files+d.Links > 0 && Compare(d.last, e.Path) >= 0 {
		return fmt.Errorf("%w: %.200q came after %.200q", ErrOrder, e.Path, d.last)
	}
	d.last = e.Path
	if e.Symlink {
		d.Links++
	} else {
		d.Files++
		d.Bytes += e.Size
	}
	d.line = e.append(d.line[:0])
	return d.write(d.line)
}

// Sum returns the digest of what was added so far.
func (d *Digest) Sum() []byte { return d.hash.Sum(nil) }

func (d *Digest) write(b []byte) error {
	d.hash.Write(b)
	if d.to == nil {
		return nil
	}
	if _, err := d.to.Write(b); err != nil {
		return fmt.Errorf("writing the content manifest: %w", err)
	}
	return nil
}

// Compare orders paths element by element, so that what is in a directory comes before names that only begin with the
// directory's.
func Compare(a, b string) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		// A separator ends an element and comes before all else.
		if x == '/' || y != '/' && x < y {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}
