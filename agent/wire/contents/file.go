// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"crypto/sha256"
	"hash"
)

// File digests the content of one file, which is written to it.
type File struct {
	hash  hash.Hash
	size  int64
	alive func() error
}

// NewFile returns the digest of a file without content. alive is called before each part; writing ends with its error.
func NewFile(alive func() error) *File { return &File{hash: sha256.New(), alive: alive} }

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	if err := f.alive(); err != nil {
		return 0, err
	}
	f.size += int64(len(p))
	return f.hash.Write(p)
}

// Sum returns how many bytes were written, and their digest.
func (f *File) Sum() (size int64, sum [sha256.Size]byte) {
	f.hash.Sum(sum[:0])
	return f.size, sum
}
