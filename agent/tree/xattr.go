// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// MaxXattrs is the most extended attributes of an entry.
	MaxXattrs = 256
	// MaxXattrValue is the kernel's limit for a value in bytes.
	MaxXattrValue = 64 << 10
	// MaxXattrBytes is the most bytes of all names and values of an entry.
	MaxXattrBytes = 128 << 10

	// maxXattrName and maxXattrList are the kernel's limits for a name and for the list of all names.
	maxXattrName = 255
	maxXattrList = 64 << 10

	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// Xattrs are extended attributes in ascending order of their names, packed so that entries are small and can be
// compared. The zero value has none.
//
// Packed: length of the name (1 byte), of the value (4, big-endian), name, value.
type Xattrs string

const xattrHead = 5

func (x Xattrs) add(name, value string) Xattrs {
	b := make([]byte, 0, len(x)+xattrHead+len(name)+len(value))
	b = append(b, x...)
	b = append(b, byte(len(name)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	b = append(b, name...)
	b = append(b, value...)
	return Xattrs(b)
}

// NewXattrs packs attributes, in any order. The names and the limits are not checked.
func NewXattrs(attributes map[string]string) Xattrs {
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	var x Xattrs
	for _, name := range names {
		x = x.add(name, attributes[name])
	}
	return x
}

// All yields names and values.
func (x Xattrs) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for len(x) >= xattrHead {
			nameEnd := xattrHead + int(x[0])
			end := nameEnd + int(binary.BigEndian.Uint32([]byte(x[1:xattrHead])))
			if !yield(string(x[xattrHead:nameEnd]), string(x[nameEnd:end])) {
				return
			}
			x = x[end:]
		}
	}
}

// Get returns the value of an attribute.
func (x Xattrs) Get(name string) (value string, ok bool) {
	for n, v := range x.All() {
		if n == name {
			return v, true
		}
	}
	return "", false
}

func (x Xattrs) toWire() []*wirev1.Xattr {
	var w []*wirev1.Xattr
	for name, value := range x.All() {
		w = append(w, &wirev1.Xattr{Name: []byte(name), Value: []byte(value)})
	}
	return w
}

func xattrsFromWire(w []*wirev1.Xattr, t Type) (Xattrs, error) {
	if len(w) == 0 {
		return "", nil
	}
	if len(w) > MaxXattrs {
		return "", fmt.Errorf("%d extended attributes; the limit is %d", len(w), MaxXattrs)
	}
	total := 0
	for _, a := range w {
		total += len(a.GetName()) + len(a.GetValue())
		if len(a.GetValue()) > MaxXattrValue || total > MaxXattrBytes {
			return "", fmt.Errorf("extended attributes of more than %d bytes each or %d in all", MaxXattrValue, MaxXattrBytes)
		}
	}
	b := make([]byte, 0, total+len(w)*xattrHead)
	last := ""
	for _, a := range w {
		name := string(a.GetName())
		if err := checkXattr(name, t); err != nil {
			return "", fmt.Errorf("extended attribute %.200q: %w", name, err)
		}
		if name <= last {
			return "", fmt.Errorf("extended attribute %q after %q: a repetition or out of order", name, last)
		}
		last = name
		b = append(b, byte(len(name)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(a.GetValue())))
		b = append(b, name...)
		b = append(b, a.GetValue()...)
	}
	return Xattrs(b), nil
}

var (
	errXattrName  = fmt.Errorf("its name is empty, longer than %d bytes or contains a NUL byte", maxXattrName)
	errXattrSpace = errors.New("attributes of this kind do not move")
	errXattrACL   = errors.New("only directories have it")
)

func checkXattr(name string, t Type) error {
	switch {
	case len(name) > maxXattrName, strings.IndexByte(name, 0) >= 0:
		return errXattrName
	case !moves(name):
		return errXattrSpace
	case name == aclDefault && t != Directory:
		return errXattrACL
	}
	return nil
}

// moves reports whether an attribute is a file's own. Labels and signatures under security. belong to the policy and
// the keys of a host, so that they mean nothing on another.
func moves(name string) bool {
	space, key, _ := strings.Cut(name, ".")
	if key == "" {
		return false
	}
	switch space {
	case "user", "trusted":
		return true
	case "security":
		switch key {
		case "selinux", "ima", "evm", "apparmor":
			return false
		}
		return !strings.HasPrefix(key, "SMACK64")
	case "system":
		return name == aclAccess || name == aclDefault
	}
	return false
}

// privilegedXattr reports whether the kernel lets only privileged processes set an attribute.
func privilegedXattr(name string) bool {
	return strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "trusted.")
}
