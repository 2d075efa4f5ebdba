// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/tree"
)

// privileged skips tests of what only root can do.
func privileged(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files owners, setuid bits and attributes that need privilege")
	}
}

// setXattr skips the test where the file system of temporary directories has no extended attributes.
func setXattr(t *testing.T, name, attribute, value string) {
	t.Helper()
	err := unix.Lsetxattr(name, attribute, []byte(value), 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skipf("the file system of temporary directories does not have %s", attribute)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func getXattr(name, attribute string) string {
	buf := make([]byte, 64<<10)
	n, err := unix.Lgetxattr(name, attribute, buf)
	if err != nil {
		return err.Error()
	}
	return string(buf[:n])
}

// acl is an ACL with an entry for one user, in the kernel's form: little-endian everywhere.
func acl(user uint32) string {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 7, 1<<32 - 1}, {2, 4, user}, {4, 4, 1<<32 - 1}, {0x10, 4, 1<<32 - 1}, {0x20, 0, 1<<32 - 1}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return string(b)
}

func age(t *testing.T, name string, nanos int64) {
	t.Helper()
	at := unix.NsecToTimespec(nanos)
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func none(t *testing.T, m moved) {
	t.Helper()
	if len(m.omitted) != 0 {
		t.Errorf("omissions are %v", m.examples)
	}
}

// Everything that needs no privilege, for any user.
func TestEverythingIsKept(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	in := func(path string) string { return filepath.Join(from, path) }
	longest := strings.Repeat("n", tree.MaxName)
	for _, path := range []string{"file", "dir/file", "dir/bytes\xff\xfe", "new\nline", "dir/" + longest, "empty file"} {
		write(t, from, path, strings.Repeat(path, 3))
	}
	write(t, from, "zero", "")
	must(t,
		os.Mkdir(in("empty"), 0o700), os.Mkdir(in("empty \xff"), 0o750), os.Mkdir(in("sticky"), 0o700),
		os.Link(in("file"), in("dir/hard")), os.Link(in("file"), in("zhard")),
		os.Symlink("../../anywhere \xff", in("dir/link")), os.Symlink("dir", in("linkdir")),
		unix.Mkfifo(in("fifo"), 0o640),
		os.Chmod(in("dir/file"), 0o400), os.Chmod(in("empty"), 0o555), unix.Chmod(in("sticky"), 0o1777),
	)
	setXattr(t, in("new\nline"), "user.origin", "here")
	setXattr(t, in("new\nline"), "user.empty", "")
	setXattr(t, in("dir"), "user.bytes", "\x00\xff")
	setXattr(t, in("dir"), "system.posix_acl_default", acl(7))
	setXattr(t, in("zero"), "system.posix_acl_access", acl(8))
	for i, path := range []string{"dir/link", "fifo", "file", "zero", "dir/file", "empty", "dir", "."} {
		age(t, in(path), -1_000_000_007*int64(i-4)+int64(i))
	}

	m := move(t, from, to, moveOptions{})
	none(t, m)
	same(t, from, to, nil)
	if len(m.sent) != 7 {
		t.Errorf("%q are sent", m.sent)
	}
	a, b, c := stat(t, filepath.Join(to, "file")), stat(
		t, filepath.Join(to, "dir/hard"),
	), stat(t, filepath.Join(to, "zhard"))
	if a.Ino != b.Ino || a.Ino != c.Ino || a.Nlink != 3 {
		t.Errorf("hard links are inodes %d, %d, %d with %d names", a.Ino, b.Ino, c.Ino, a.Nlink)
	}
	// Again: nothing is sent, and nothing recreated.
	inodes := map[string]uint64{}
	for _, path := range []string{"fifo", "dir/link", "zhard", "dir/file"} {
		inodes[path] = stat(t, filepath.Join(to, path)).Ino
	}
	m = move(t, from, to, moveOptions{})
	none(t, m)
	same(t, from, to, nil)
	if len(m.sent) != 0 {
		t.Errorf("%q are sent again", m.sent)
	}
	for path, ino := range inodes {
		if stat(t, filepath.Join(to, path)).Ino != ino {
			t.Errorf("%q was recreated", path)
		}
	}
}

func stat(t *testing.T, name string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	// The other system calls lack the fractions of seconds under QEMU's emulation of s390x.
	if err := unix.Fstatat(unix.AT_FDCWD, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
	return st
}

// What changes besides the content is corrected without sending the file, if no other name shares it.
func TestAttributesAreCorrected(t *testing.T) {
	changes := map[string]func(name string) error{
		"Mode":         func(name string) error { return os.Chmod(name, 0o751) },
		"XattrAdded":   func(name string) error { return unix.Setxattr(name, "user.b", []byte("2"), 0) },
		"XattrChanged": func(name string) error { return unix.Setxattr(name, "user.a", []byte("other"), 0) },
		"XattrRemoved": func(name string) error { return unix.Removexattr(name, "user.a") },
		"ACL":          func(name string) error { return unix.Setxattr(name, "system.posix_acl_access", []byte(acl(9)), 0) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			for _, path := range []string{"file", "linked", "dir/x"} {
				write(t, from, path, path)
				setXattr(t, filepath.Join(from, path), "user.a", "1")
			}
			setXattr(t, filepath.Join(from, "dir"), "user.a", "1")
			move(t, from, to, moveOptions{})
			must(t, os.Link(filepath.Join(to, "linked"), filepath.Join(to, "other")))
			before := stat(t, filepath.Join(to, "other"))
			for _, path := range []string{"file", "linked", "dir"} {
				must(t, change(filepath.Join(from, path)))
			}
			m := move(t, from, to, moveOptions{})
			none(t, m)
			if !slices.Equal(m.sent, []string{"linked"}) {
				t.Errorf("%q are sent", m.sent)
			}
			after := stat(t, filepath.Join(to, "other"))
			if after.Mode != before.Mode || after.Ino == stat(t, filepath.Join(to, "linked")).Ino ||
				getXattr(filepath.Join(to, "other"), "user.a") != "1" {
				t.Error("another name of the file changed")
			}
			must(t, os.Remove(filepath.Join(to, "other")))
			root := stat(t, from)
			age(t, to, root.Mtim.Nano())
			same(t, from, to, nil)
		})
	}
}

// A read-only file of ours cannot get attributes, but a new one in its place can.
func TestXattrOfReadOnlyFile(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	public(t, from, to)
	write(t, from, "file", "content")
	setXattr(t, filepath.Join(from, "file"), "user.a", "1")
	must(t, os.Chmod(filepath.Join(from, "file"), 0o444))
	if os.Geteuid() == 0 {
		must(t, os.Chown(to, 65532, 65532))
	}
	unprivileged(t, func() {
		for _, want := range [][]string{{"file"}, nil} {
			if m, err := tryMove(from, to, moveOptions{}); err != nil || !slices.Equal(m.sent, want) {
				t.Errorf("%q are sent, %v", m.sent, err)
			}
		}
		if err := unix.Chmod(filepath.Join(to, "file"), 0o644); err != nil {
			t.Error(err)
		}
		if err := unix.Removexattr(filepath.Join(to, "file"), "user.a"); err != nil {
			t.Error(err)
		}
		if err := unix.Chmod(filepath.Join(to, "file"), 0o444); err != nil {
			t.Error(err)
		}
		if m, err := tryMove(from, to, moveOptions{}); err != nil || !slices.Equal(m.sent, []string{"file"}) {
			t.Errorf("%q are sent, %v", m.sent, err)
		}
	})
	if got := getXattr(filepath.Join(to, "file"), "user.a"); got != "1" {
		t.Errorf("the attribute is %q", got)
	}
}

// public lets other users into temporary directories.
func public(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		for dir := name; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What a directory would hand on to what is made in it is not the source's.
func TestNothingIsInherited(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "file", "content")
	write(t, from, "dir/file", "content")
	must(t, unix.Mkfifo(filepath.Join(from, "fifo"), 0o600), os.Mkdir(filepath.Join(to, "dir"), 0o755))
	for _, dir := range []string{to, filepath.Join(to, "dir")} {
		setXattr(t, dir, "system.posix_acl_default", acl(7))
		must(t, os.Chmod(dir, 0o755|os.ModeSetgid))
	}
	none(t, move(t, from, to, moveOptions{}))
	same(t, from, to, nil)
}

func TestPrivilegedAttributes(t *testing.T) {
	privileged(t)
	from, to := t.TempDir(), t.TempDir()
	in := func(path string) string { return filepath.Join(from, path) }
	for _, path := range []string{"owned", "setuid", "capable", "trusted", "dir/x"} {
		write(t, from, path, path)
	}
	must(t, os.Symlink("target", in("link")), unix.Mkfifo(in("fifo"), 0o600), os.Mkdir(in("shared"), 0o700))
	for i, path := range []string{"owned", "setuid", "dir", "link", "fifo"} {
		must(t, os.Lchown(in(path), 1000+i, 2000+i))
	}
	must(t, unix.Chmod(in("setuid"), 0o6755), unix.Chmod(in("shared"), 0o3775), unix.Chmod(in("owned"), 0o600))
	// CAP_NET_RAW, permitted and effective.
	setXattr(
		t, in("capable"), "security.capability",
		"\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	)
	setXattr(t, in("trusted"), "trusted.key", "value")
	none(t, move(t, from, to, moveOptions{}))
	same(t, from, to, nil)
	// Another owner takes bits and capabilities away, which are given back.
	for _, path := range []string{"setuid", "capable"} {
		must(t, os.Chown(filepath.Join(to, path), 5, 5))
	}
	m := move(t, from, to, moveOptions{})
	none(t, m)
	if len(m.sent) != 0 {
		t.Errorf("%q are sent", m.sent)
	}
	same(t, from, to, nil)
}

// Without privilege, what cannot be kept is counted, every time.
func TestUnprivilegedAttributes(t *testing.T) {
	privileged(t)
	from, to := t.TempDir(), t.TempDir()
	public(t, from, to)
	in := func(path string) string { return filepath.Join(from, path) }
	for _, path := range []string{"setuid", "group", "capable", "plain"} {
		write(t, from, path, path)
		must(t, os.Chown(in(path), 65532, 65532), unix.Chmod(in(path), 0o755))
	}
	must(t, os.Mkdir(in("dir"), 0o755), os.Chown(in("dir"), 65532, 1), os.Chmod(in("dir"), 0o755|os.ModeSetgid))
	must(t, os.Chown(in("setuid"), 0, 65532), unix.Chmod(in("setuid"), 0o4755), unix.Chmod(in("group"), 0o2755))
	setXattr(
		t, in("capable"), "security.capability",
		"\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	)
	must(t, os.Chown(from, 65532, 65532), os.Chown(to, 65532, 65532))
	unprivileged(t, func() {
		for _, sent := range []int{4, 0} {
			m, err := tryMove(from, to, moveOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			// A thread that gives up its rights on files may still set capabilities.
			delete(m.omitted, tree.OmittedXattr)
			want := map[string]uint64{tree.OmittedOwner: 2, tree.OmittedMode: 2}
			if fmt.Sprint(m.omitted) != fmt.Sprint(want) || len(m.sent) != sent {
				t.Errorf("omissions are %v, %q are sent", m.examples, m.sent)
			}
		}
	})
	for path, mode := range map[string]uint32{"setuid": 0o755, "group": 0o755, "plain": 0o755} {
		if st := stat(t, filepath.Join(to, path)); st.Mode&tree.ModeMask != mode || st.Uid != 65532 {
			t.Errorf("%q has mode %o and owner %d", path, st.Mode&tree.ModeMask, st.Uid)
		}
	}
}

func TestFileSystemWithoutXattrs(t *testing.T) {
	privileged(t)
	to := filepath.Join(t.TempDir(), "volume")
	must(t, os.Mkdir(to, 0o755))
	// ramfs has no extended attributes but for what the kernel's security modules keep.
	if err := unix.Mount("ramfs", to, "ramfs", 0, ""); err != nil {
		t.Skipf("cannot mount a file system here: %v", err)
	}
	defer unix.Unmount(to, 0)
	from := t.TempDir()
	write(t, from, "file", "content")
	setXattr(t, filepath.Join(from, "file"), "user.a", "1")
	for range 2 {
		m := move(t, from, to, moveOptions{})
		if m.omitted[tree.OmittedXattr] != 1 || m.examples[tree.OmittedXattr][0] != "file" {
			t.Errorf("omissions are %v", m.examples)
		}
	}
}

// Paths as long as the kernel takes them, made through directories that are open.
func TestLongestPath(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	fd, err := unix.Open(from, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	left, name := tree.MaxPath, strings.Repeat("d", 199)
	for left > 255 {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err, unix.Close(fd))
		fd, left = next, left-200
	}
	file, err := unix.Openat(fd, strings.Repeat("f", left), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	must(t, err)
	_, err = unix.Write(file, []byte("content"))
	must(t, err, unix.Close(file))
	m := move(t, from, to, moveOptions{})
	none(t, m)
	if len(m.sent) != 1 || len(m.sent[0]) != tree.MaxPath {
		t.Fatalf("%d files are sent", len(m.sent))
	}
	entries, err := walk(t, open(t, to, "."))
	if err != nil || len(entries[len(entries)-1].Path) != tree.MaxPath || entries[len(entries)-1].Size != 7 {
		t.Errorf("there are %d entries, %v", len(entries), err)
	}
	// One byte more does not travel, be it a file or a directory with what is in it; everything else does.
	long := strings.Repeat("g", left+1)
	must(t, unix.Mkdirat(fd, long, 0o755))
	in, err := unix.Openat(fd, long, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(
		t, err, unix.Mkdirat(in, "below", 0o755), unix.Close(in), unix.Symlinkat("target", fd, strings.Repeat("h", left+1)),
	)
	must(t, unix.Symlinkat("target", fd, "z"), unix.Close(fd))
	m = move(t, from, to, moveOptions{})
	if m.omitted[tree.OmittedPath] != 2 || len(m.omitted) != 1 ||
		!strings.HasPrefix(m.examples[tree.OmittedPath][0], name+"/") {
		t.Errorf("omissions are %v", m.examples)
	}
	entries, err = walk(t, open(t, to, "."))
	if err != nil || !strings.HasSuffix(entries[len(entries)-1].Path, "/z") ||
		len(entries[len(entries)-2].Path) != tree.MaxPath {
		t.Errorf("there are %d entries, %v", len(entries), err)
	}
	// What is left out by a pattern is no omission.
	m = move(t, from, to, moveOptions{filter: patterns(t, nil, []string{"ggg*", "hhh*"})})
	none(t, m)
}
