// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"
)

// names are the names in a directory in ascending order. A name costs its length and 5 bytes, and up to as much again
// while they are read: a directory may have millions.
type names struct {
	text []byte   // the names, each with a NUL behind it
	at   []uint32 // where each begins
}

func (n *names) len() int { return len(n.at) }

func (n *names) bytes(i int) []byte { return n.from(n.at[i]) }

func (n *names) name(i int) string { return string(n.bytes(i)) }

func (n *names) from(at uint32) []byte {
	b := n.text[at:]
	return b[:bytes.IndexByte(b, 0)]
}

func (n *names) add(name string) {
	n.at = append(n.at, uint32(len(n.text)))
	n.text = append(append(n.text, name...), 0)
}

// readNames returns the names in an open directory.
func readNames(fd int) (*names, error) {
	n := &names{}
	buf := make([]byte, 32<<10)
	var chunk []string
	for {
		size, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if size == 0 {
			break
		}
		_, _, chunk = unix.ParseDirent(buf[:size], -1, chunk[:0])
		for _, name := range chunk {
			n.add(name)
		}
		if uint64(len(n.text)) > 1<<32-64<<10 {
			return nil, unix.EOVERFLOW // No file system has such directories.
		}
	}
	slices.SortFunc(n.at, func(a, b uint32) int { return bytes.Compare(n.from(a), n.from(b)) })
	return n, nil
}
