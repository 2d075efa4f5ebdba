// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package killtest kills a process with SIGKILL immediately before one of the system calls by which it changes files:
// the first one, the second one, and so on. What a process leaves when it is killed at any other time is what it leaves
// before one of these.
//
// The process is the program of the test, which starts itself again. It calls Watched before it does anything. The
// kernel then stops it at each such call (seccomp's notifications), and has the test decide.
package killtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// variable is in the environment of a process that is watched.
	variable = "LIGHTERAGE_TEST_WATCHED"
	// everyVariable: all, for tests that kill at every call; otherwise they kill at some.
	everyVariable = "LIGHTERAGE_TEST_KILLS"
	// socket is the descriptor by which such a process hands over the kernel's notifications.
	socket = 3
)

// changes are the system calls that change files, by which Go's packages and ours do.
var changes = map[int32]string{
	unix.SYS_OPENAT: "openat", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite", unix.SYS_FTRUNCATE: "ftruncate",
	unix.SYS_FALLOCATE: "fallocate", unix.SYS_COPY_FILE_RANGE: "copy_file_range", unix.SYS_SENDFILE: "sendfile",
	unix.SYS_FSYNC: "fsync", unix.SYS_SYNCFS: "syncfs", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_LINKAT: "linkat", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_UTIMENSAT: "utimensat", unix.SYS_FCHMOD: "fchmod",
}

// notification is the kernel's struct seccomp_notif.
type notification struct {
	id        uint64
	thread    uint32
	_         uint32
	call      int32
	_         uint32
	_         uint64
	arguments [6]uint64
}

// answer is the kernel's struct seccomp_notif_resp.
type answer struct {
	id    uint64
	_     int64
	_     int32
	flags uint32
}

// proceed has the kernel carry out a call (SECCOMP_USER_NOTIF_FLAG_CONTINUE).
const proceed = 1

// Every returns 1 where tests are to kill at every call, and otherwise how many calls to leave out, and one more.
func Every(otherwise int) int {
	if os.Getenv(everyVariable) == "all" {
		return 1
	}
	return otherwise
}

// Watched has the test that started this process, if one did by Run, decide about each change of files from now on.
func Watched() {
	if os.Getenv(variable) == "" {
		return
	}
	message, rights := []byte("watched"), []byte(nil)
	if listener, err := watch(); err != nil {
		message = []byte(err.Error())
	} else {
		rights = unix.UnixRights(listener)
	}
	if err := unix.Sendmsg(socket, message, rights, nil, 0); err != nil {
		fmt.Fprintln(os.Stderr, "hand over notifications:", err)
		os.Exit(1)
	}
	_ = unix.Close(socket)
}

// watch has the kernel notify of the changes of all threads.
func watch() (listener int, err error) {
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for call := range changes {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(call), Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("give up new privileges: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
		uintptr(unsafe.Pointer(&filter))) //nolint:gosec // what the call takes
	if failed != 0 {
		return 0, fmt.Errorf("have the kernel notify of system calls: %w", failed)
	}
	return int(fd), nil
}

// Run starts a command, which calls Watched, and kills it before its nth change below a directory, from 1 on. It
// returns the name of that call; empty: the command ended before it, as c.ProcessState says. Where the kernel does not
// notify of calls it skips the test, unless that is to kill at every one.
func Run(t testing.TB, c *exec.Cmd, directory string, n int) (before string) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	c.ExtraFiles = []*os.File{theirs}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	// A signal would have the kernel notify of the same call again.
	c.Env = append(c.Env, variable+"=1", "GODEBUG=asyncpreemptoff=1")
	// The kernel kills it as well when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = c.Start()
	_ = theirs.Close()
	if err != nil {
		_ = unix.Close(pair[0])
		t.Fatal(err)
	}
	listener, err := take(pair[0])
	_ = unix.Close(pair[0])
	if err != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
		if Every(0) == 1 {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	defer func() { _ = unix.Close(listener) }()
	before, err = decide(listener, c, directory, n)
	if err != nil {
		_ = c.Process.Kill()
	}
	_ = c.Wait() // with what ProcessState says
	if err != nil {
		t.Fatal(err)
	}
	return before
}

// take receives the descriptor that a process hands over.
func take(socket int) (listener int, err error) {
	message, rights := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := unix.Recvmsg(socket, message, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("take over notifications: %w", err)
	}
	controls, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil || len(controls) == 0 {
		return 0, fmt.Errorf("system calls are not watched: %q, %w", message[:n], err)
	}
	fds, err := unix.ParseUnixRights(&controls[0])
	if err != nil {
		return 0, fmt.Errorf("take over notifications: %w", err)
	}
	return fds[0], nil
}

// decide lets calls proceed and kills the process before its nth change.
func decide(listener int, c *exec.Cmd, directory string, n int) (before string, err error) {
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return "", fmt.Errorf("wait for a system call: %w", err)
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return "", nil // The process has ended.
		}
		var got notification
		_, _, failed := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV,
			uintptr(unsafe.Pointer(&got))) //nolint:gosec // what the call takes
		if failed == unix.ENOENT || failed == unix.EINTR { // Its thread has ended.
			continue
		}
		if failed != 0 {
			return "", fmt.Errorf("take a notification: %w", failed)
		}
		if got.below(directory) {
			if n--; n == 0 {
				return changes[got.call], c.Process.Kill()
			}
		}
		a := answer{id: got.id, flags: proceed}
		_, _, failed = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND,
			uintptr(unsafe.Pointer(&a))) //nolint:gosec // what the call takes
		if failed != 0 && failed != unix.ENOENT {
			return "", fmt.Errorf("let a system call proceed: %w", failed)
		}
	}
}

// below reports whether a call changes what is in a directory.
func (n *notification) below(directory string) bool {
	descriptor := n.arguments[0]
	switch n.call {
	case unix.SYS_OPENAT:
		if n.arguments[2]&(unix.O_CREAT|unix.O_TRUNC|unix.O_TMPFILE&^unix.O_DIRECTORY) == 0 {
			return false
		}
	case unix.SYS_COPY_FILE_RANGE:
		descriptor = n.arguments[2]
	}
	if int32(descriptor) == unix.AT_FDCWD {
		return true // by a path, which is in the memory of the process
	}
	// The thread waits, so that its descriptors are what they were.
	of, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.thread, int32(descriptor)))
	return err == nil && (of == directory || strings.HasPrefix(of, filepath.Clean(directory)+"/"))
}
