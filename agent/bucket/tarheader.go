// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/lighterage/lighterage/agent/tree"
)

const (
	// tarBlock is what all lengths in a tar are multiples of.
	tarBlock = 512
	// tarEnd is how many zeros end a tar.
	tarEnd = 2 * tarBlock
	// xattrKey is how extended attributes are called in PAX headers.
	xattrKey = "SCHILY.xattr."
	// unnamed begins the names of what a tar cannot name.
	unnamed = Reserved + "-unnamed/"
)

// padded is how many bytes of a tar the content of a file takes.
func padded(size int64) int64 { return (size + tarBlock - 1) &^ (tarBlock - 1) }

var tarTypes = map[tree.Type]byte{
	tree.File: tar.TypeReg, tree.Directory: tar.TypeDir, tree.Symlink: tar.TypeSymlink, tree.FIFO: tar.TypeFifo,
	tree.HardLink: tar.TypeLink,
}

// tarHeader returns what a tar has of an entry in front of its content. Times are in whole seconds, which need no PAX
// header: the index has them in full. A tar cannot hold everything that a file system does. Extended attributes that it
// cannot hold are left out, and a name that it cannot hold is replaced: the index has them.
func tarHeader(e *tree.Entry) ([]byte, error) {
	h := &tar.Header{
		Typeflag: tarTypes[e.Type], Name: e.Path, Linkname: e.Target, Size: e.Size, Mode: int64(e.Mode),
		Uid: int(e.UID), Gid: int(e.GID), ModTime: time.Unix(floor(e.Modified), 0),
	}
	if e.Type == tree.Directory {
		h.Name += "/"
	}
	for name, value := range e.Xattrs.All() {
		if h.PAXRecords == nil {
			h.PAXRecords = make(map[string]string)
		}
		h.PAXRecords[xattrKey+name] = value
	}
	header, err := encodeHeader(h)
	if err != nil && len(h.PAXRecords) > 0 {
		h.PAXRecords = nil
		header, err = encodeHeader(h)
	}
	if err != nil {
		sum := sha256.Sum256([]byte(e.Path))
		h.Name, h.ModTime = unnamed+hex.EncodeToString(sum[:]), time.Unix(0, 0)
		header, err = encodeHeader(h)
	}
	if err != nil {
		return nil, fmt.Errorf("make a tar header of %.200q: %w", e.Path, err)
	}
	return header, nil
}

// tarLength is how many bytes of a tar an entry takes.
func tarLength(e *tree.Entry) int64 {
	header := int64(tarBlock)
	if len(e.Path) > 100 || len(e.Xattrs) > 0 || e.Size >= 1<<33 { // It may need more than one block.
		if b, err := tarHeader(e); err == nil {
			header = int64(len(b))
		}
	}
	return header + padded(e.Size)
}

func floor(nanos int64) int64 {
	seconds := nanos / 1e9
	if nanos%1e9 < 0 {
		seconds--
	}
	return seconds
}

func encodeHeader(h *tar.Header) ([]byte, error) {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(h); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
