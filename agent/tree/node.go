// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// node is a name in an open directory, whatever it is: a symbolic link is not followed. What can be done to an open
// file is done to fd, unless that is negative.
type node struct {
	at   dir
	name string
	fd   int
}

func (n node) chown(uid, gid int) error {
	if n.fd >= 0 {
		return unix.Fchown(n.fd, uid, gid)
	}
	return unix.Fchownat(int(n.at), n.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

// chmod must not be called for a symbolic link.
func (n node) chmod(mode uint32) error {
	if n.fd >= 0 {
		return unix.Fchmod(n.fd, mode)
	}
	return n.at.chmod(n.name, mode)
}

func (n node) stat(st *unix.Stat_t) error {
	if n.fd >= 0 {
		return fstat(n.fd, st)
	}
	return n.at.lstat(n.name, st)
}

// path is a path for system calls that do not take an open directory. What it names is as certain: the kernel goes on
// from the directory itself.
func (n node) path() string { return "/proc/self/fd/" + strconv.Itoa(int(n.at)) + "/" + n.name }

func (n node) setXattr(name, value string) error {
	if n.fd >= 0 {
		return unix.Fsetxattr(n.fd, name, []byte(value), 0)
	}
	return unix.Lsetxattr(n.path(), name, []byte(value), 0)
}

func (n node) removeXattr(name string) error {
	var err error
	if n.fd >= 0 {
		err = unix.Fremovexattr(n.fd, name)
	} else {
		err = unix.Lremovexattr(n.path(), name)
	}
	if err == unix.ENODATA {
		return nil
	}
	return err
}

func (n node) getXattr(name string, value []byte) (int, error) {
	if n.fd >= 0 {
		return unix.Fgetxattr(n.fd, name, value)
	}
	return unix.Lgetxattr(n.path(), name, value)
}

func (n node) listXattrs(list []byte) (int, error) {
	if n.fd >= 0 {
		return unix.Flistxattr(n.fd, list)
	}
	if haveListxattrat() {
		return listxattrat(int(n.at), n.name, list)
	}
	return unix.Llistxattr(n.path(), list)
}

// haveListxattrat is false on kernels before 6.13, and under emulators and filters that do not know the system call. It
// saves most of the time that a walk spends on files without attributes.
var haveListxattrat = sync.OnceValue(func() bool {
	_, err := listxattrat(unix.AT_FDCWD, ".", nil)
	return err != unix.ENOSYS && err != unix.EPERM
})

func listxattrat(at int, name string, list []byte) (int, error) {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return 0, err
	}
	n, _, errno := unix.Syscall6(unix.SYS_LISTXATTRAT, uintptr(at),
		uintptr(unsafe.Pointer(p)), unix.AT_SYMLINK_NOFOLLOW, //nolint:gosec // x/sys has no function for it yet
		uintptr(unsafe.Pointer(unsafe.SliceData(list))), uintptr(len(list)), 0) //nolint:gosec // as above
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// xattrReader reads extended attributes. It is for one goroutine.
type xattrReader struct {
	list, value []byte
	names       []string
}

// errXattrs says that not all attributes are there because of our limits or the kernel's permissions; what was read is
// valid.
var errXattrs = errors.New("extended attributes were left out")

// read returns the attributes of a node that move. There are none where the file system has none. Attributes that
// exceed the limits or that may not be read are left out, and the error is errXattrs.
func (r *xattrReader) read(n node, t Type) (Xattrs, error) {
	if r.list == nil {
		r.list = make([]byte, maxXattrList)
	}
	size, err := n.listXattrs(r.list)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOTSUP), err == unix.ENOSYS:
		return "", nil
	case err == unix.EACCES, err == unix.EPERM, err == unix.E2BIG, err == unix.ERANGE:
		return "", errXattrs
	case err == unix.ENOENT && n.stat(new(unix.Stat_t)) == nil:
		return "", errXattrs // It is there, but /proc is not.
	default:
		return "", err
	}
	if size == 0 {
		return "", nil
	}
	r.names = r.names[:0]
	for name := range bytes.SplitSeq(r.list[:size], []byte{0}) {
		if len(name) > 0 {
			r.names = append(r.names, string(name))
		}
	}
	slices.Sort(r.names)
	return r.values(n, t)
}

func (r *xattrReader) values(n node, t Type) (Xattrs, error) {
	if r.value == nil {
		r.value = make([]byte, MaxXattrValue)
	}
	var x Xattrs
	var incomplete error
	count, total := 0, 0
	for _, name := range r.names {
		if checkXattr(name, t) != nil {
			continue
		}
		size, err := n.getXattr(name, r.value)
		switch {
		case err == nil:
		case err == unix.ENODATA:
			continue
		case errors.Is(err, unix.ENOTSUP), err == unix.EACCES, err == unix.EPERM, err == unix.ERANGE, err == unix.E2BIG:
			incomplete = errXattrs
			continue
		default:
			return "", err
		}
		total += len(name) + size
		if count++; count > MaxXattrs || total > MaxXattrBytes {
			return x, errXattrs
		}
		x = x.add(name, string(r.value[:size]))
	}
	return x, incomplete
}
