// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dir is an open directory.
type dir int

// haveOpenat2 is false on kernels and emulators without the system call and under filters that refuse it.
var haveOpenat2 = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
})

// open opens a path below the directory. Symbolic links are an error, ELOOP or ENOTDIR, in every element. The path must
// have passed CheckPath.
func (d dir) open(path string, flags int, mode uint32) (int, error) {
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	if !haveOpenat2() {
		return d.openByElement(path, flags, mode)
	}
	how := unix.OpenHow{
		Flags:   uint64(flags),
		Mode:    uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(int(d), path, &how)
		// EAGAIN: something was renamed meanwhile and the kernel is not sure.
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

func (d dir) openByElement(path string, flags int, mode uint32) (int, error) {
	at := int(d)
	for {
		element, rest, more := strings.Cut(path, "/")
		if !more {
			fd, err := openat(at, element, flags, mode)
			if at != int(d) {
				_ = unix.Close(at)
			}
			return fd, err
		}
		next, err := openat(at, element, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if at != int(d) {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at, path = next, rest
	}
}

func openat(at int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(at, name, flags, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// openDir opens a directory below d for resolving names in it.
func (d dir) openDir(path string) (dir, error) {
	fd, err := d.open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	return dir(fd), err
}

// fstat looks at an open file. The system call of that name lacks the fractions of seconds under QEMU's emulation of
// s390x, which would make every file look changed.
func fstat(fd int, st *unix.Stat_t) error {
	return unix.Fstatat(fd, "", st, unix.AT_EMPTY_PATH)
}

// duplicate returns another descriptor of the directory.
func (d dir) duplicate() (dir, error) {
	fd, err := unix.FcntlInt(uintptr(d), unix.F_DUPFD_CLOEXEC, 0)
	return dir(fd), err
}

func (d dir) close() error { return unix.Close(int(d)) }

// lstat looks at a name in the directory.
func (d dir) lstat(name string, st *unix.Stat_t) error {
	return unix.Fstatat(int(d), name, st, unix.AT_SYMLINK_NOFOLLOW)
}

func (d dir) readlink(name string) (string, error) {
	buf := make([]byte, MaxTarget+1)
	n, err := unix.Readlinkat(int(d), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// chmod changes the mode of a name that is no symbolic link.
func (d dir) chmod(name string, mode uint32) error {
	err := unix.Fchmodat(int(d), name, mode, unix.AT_SYMLINK_NOFOLLOW)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// Kernels before 6.6 cannot; through an open file it is as safe.
	fd, err := openat(int(d), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}

// setModified changes the modification time of a name, of the link itself if it is one, and leaves the access time.
func (d dir) setModified(name string, nanos int64) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, timespec(nanos)}
	return unix.UtimesNanoAt(int(d), name, times, unix.AT_SYMLINK_NOFOLLOW)
}

// setModified is that of dir, without looking for the name of an open file.
func (n node) setModified(nanos int64) error {
	if n.fd < 0 {
		return n.at.setModified(n.name, nanos)
	}
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, timespec(nanos)}
	//nolint:gosec // x/sys has no function for it: the system call takes no path for the open file itself
	if _, _, errno := unix.Syscall6(
		unix.SYS_UTIMENSAT, uintptr(n.fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0,
	); errno != 0 {
		return errno
	}
	return nil
}

func timespec(nanos int64) unix.Timespec {
	const second = 1_000_000_000
	sec, nsec := nanos/second, nanos%second
	if nsec < 0 {
		sec, nsec = sec-1, nsec+second
	}
	return unix.Timespec{Sec: sec, Nsec: nsec}
}

// removeAll removes a name and everything below it. What is not there is no error.
func (d dir) removeAll(name string) error {
	err := unix.Unlinkat(int(d), name, 0)
	switch err {
	case nil, unix.ENOENT:
		return nil
	case unix.EISDIR, unix.EPERM:
	default:
		return err
	}
	fd, err := openat(int(d), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, err := readNames(fd)
	if err != nil {
		return err
	}
	for i := range names.len() {
		if err := dir(fd).removeAll(names.name(i)); err != nil {
			return err
		}
	}
	return unix.Unlinkat(int(d), name, unix.AT_REMOVEDIR)
}
