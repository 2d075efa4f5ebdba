// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestEntriesThatAreRefused(t *testing.T) {
	file := func(change func(*wirev1.Entry)) *wirev1.Entry {
		w := &wirev1.Entry{Path: []byte("a"), Type: wirev1.EntryType_ENTRY_TYPE_FILE, Mode: 0o644}
		change(w)
		return w
	}
	xattr := func(name string, size int) *wirev1.Xattr {
		return &wirev1.Xattr{Name: []byte(name), Value: make([]byte, size)}
	}
	link := func(path, target string) *wirev1.Entry {
		return &wirev1.Entry{Path: []byte(path), Type: wirev1.EntryType_ENTRY_TYPE_HARD_LINK, LinkTarget: []byte(target)}
	}
	many := make([]*wirev1.Xattr, tree.MaxXattrs+1)
	for i := range many {
		many[i] = xattr(fmt.Sprintf("user.%03d", i), 1)
	}
	tests := map[string]*wirev1.Entry{
		"Parent":          file(func(w *wirev1.Entry) { w.Path = []byte("../a") }),
		"ParentInside":    file(func(w *wirev1.Entry) { w.Path = []byte("b/../../a") }),
		"Absolute":        file(func(w *wirev1.Entry) { w.Path = []byte("/etc/passwd") }),
		"Staging":         file(func(w *wirev1.Entry) { w.Path = []byte(tree.StagingName + "/run.1.abc/journal") }),
		"StagingItself":   file(func(w *wirev1.Entry) { w.Path = []byte(tree.StagingName) }),
		"Device":          file(func(w *wirev1.Entry) { w.Type = 6 }),
		"NoType":          file(func(w *wirev1.Entry) { w.Type = 0 }),
		"TypeInMode":      file(func(w *wirev1.Entry) { w.Mode = unix.S_IFCHR | 0o600 }),
		"Size":            file(func(w *wirev1.Entry) { w.Size = 1 << 63 }),
		"NoOwner":         file(func(w *wirev1.Entry) { w.Uid = 1<<32 - 1 }),
		"NoGroup":         file(func(w *wirev1.Entry) { w.Gid = 1<<32 - 1 }),
		"TargetOfFile":    file(func(w *wirev1.Entry) { w.LinkTarget = []byte("x") }),
		"SparseDirectory": {Path: []byte("a"), Type: wirev1.EntryType_ENTRY_TYPE_DIRECTORY, Sparse: true},
		"SizeOfFIFO":      {Path: []byte("a"), Type: wirev1.EntryType_ENTRY_TYPE_FIFO, Size: 1},
		"RootFile":        file(func(w *wirev1.Entry) { w.Path = []byte(".") }),
		"LinkToItself":    link("a", "a"),
		"LinkToLater":     link("a", "b"),
		"LinkToRoot":      link("a", "."),
		"LinkOutside":     link("b", "../a"),
		"LinkToAbsolute":  link("b", "/etc/passwd"),
		"LinkToNothing":   link("b", ""),
		"LinkToStaging":   link("b", tree.StagingName+"/run.1.abc/1"),
		"LinkWithMode": {
			Path: []byte("b"), Type: wirev1.EntryType_ENTRY_TYPE_HARD_LINK, LinkTarget: []byte("a"), Mode: 0o4755,
		},
		"LinkWithXattr": {
			Path: []byte("b"), Type: wirev1.EntryType_ENTRY_TYPE_HARD_LINK, LinkTarget: []byte("a"), Xattrs: many[:1],
		},
		"EmptySymlink": {Path: []byte("a"), Type: wirev1.EntryType_ENTRY_TYPE_SYMLINK},
		"LongSymlink":  {Path: []byte("a"), Type: wirev1.EntryType_ENTRY_TYPE_SYMLINK, LinkTarget: make([]byte, 5000)},
		"ManyXattrs":   file(func(w *wirev1.Entry) { w.Xattrs = many }),
		"LongXattr":    file(func(w *wirev1.Entry) { w.Xattrs = []*wirev1.Xattr{xattr("user.a", tree.MaxXattrValue+1)} }),
		"LongXattrs": file(func(w *wirev1.Entry) {
			w.Xattrs = []*wirev1.Xattr{xattr("user.a", 60<<10), xattr("user.b", 60<<10), xattr("user.c", 60<<10)}
		}),
		"LongXattrName": file(func(w *wirev1.Entry) {
			w.Xattrs = []*wirev1.Xattr{xattr("user."+strings.Repeat("a", 251), 1)}
		}),
		"XattrNUL": file(func(w *wirev1.Entry) { w.Xattrs = []*wirev1.Xattr{xattr("user.a\x00b", 1)} }),
		"XattrTwice": file(func(w *wirev1.Entry) {
			w.Xattrs = []*wirev1.Xattr{xattr("user.a", 1), xattr("user.a", 1)}
		}),
		"XattrOrder": file(func(w *wirev1.Entry) {
			w.Xattrs = []*wirev1.Xattr{xattr("user.b", 1), xattr("user.a", 1)}
		}),
		"XattrNoName":      file(func(w *wirev1.Entry) { w.Xattrs = []*wirev1.Xattr{xattr("", 1)} }),
		"XattrNoKey":       file(func(w *wirev1.Entry) { w.Xattrs = []*wirev1.Xattr{xattr("user.", 1)} }),
		"XattrOfSystem":    file(func(w *wirev1.Entry) { w.Xattrs = []*wirev1.Xattr{xattr("system.data", 1)} }),
		"XattrOfSELinux":   file(func(w *wirev1.Entry) { w.Xattrs = []*wirev1.Xattr{xattr("security.selinux", 1)} }),
		"XattrOfSmack":     file(func(w *wirev1.Entry) { w.Xattrs = []*wirev1.Xattr{xattr("security.SMACK64EXEC", 1)} }),
		"DefaultACLOfFile": file(func(w *wirev1.Entry) { w.Xattrs = []*wirev1.Xattr{xattr("system.posix_acl_default", 1)} }),
	}
	for name, w := range tests {
		t.Run(name, func(t *testing.T) {
			e, err := tree.FromWire(w)
			if err == nil {
				t.Errorf("%+v is accepted", e)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// Attributes that the kernel refuses are counted; they do not end the attempt.
func TestXattrsThatCannotBe(t *testing.T) {
	volume := t.TempDir()
	d := destination(t, volume, ".")
	look(
		t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())},
	)
	e := tree.Entry{
		Path: "a", Type: tree.File, Mode: 0o644, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
		Xattrs: tree.NewXattrs(map[string]string{
			"system.posix_acl_access": "no ACL", "security.capability": "none",
			"user.large": strings.Repeat("x", tree.MaxXattrValue), "user.small": "kept",
		}),
	}
	setXattr(t, volume, "user.probe", "")
	commit(t, d, 1, e, "")
	must(t, d.Finish())
	if got := getXattr(filepath.Join(volume, "a"), "user.small"); got != "kept" {
		t.Errorf("the small attribute is %q", got)
	}
	if o := d.Omissions().ToWire(); len(o) != 1 || o[0].What != tree.OmittedXattr || o[0].Count != 1 {
		t.Errorf("omissions are %v", o)
	}
}

// Names at the destination may change while a run is under way: whatever they are made to point at, nothing is written,
// linked, changed or removed outside.
func TestNothingLeavesTheTree(t *testing.T) {
	from, outside := t.TempDir(), t.TempDir()
	for i := range 20 {
		write(t, from, fmt.Sprintf("dir/%02d/file", i), "hostile content")
		write(t, from, fmt.Sprintf("dir/%02d/sub/file", i), "hostile content")
		write(t, outside, fmt.Sprintf("%02d/file", i), "secret")
		write(t, outside, fmt.Sprintf("%02d/sub/kept", i), "secret")
		must(t, os.Link(
			filepath.Join(from, fmt.Sprintf("dir/%02d/file", i)), filepath.Join(from, fmt.Sprintf("dir/%02d/hard", i)),
		),
			os.Symlink("target", filepath.Join(from, fmt.Sprintf("dir/%02d/link", i))),
			unix.Mkfifo(filepath.Join(from, fmt.Sprintf("dir/%02d/fifo", i)), 0o600))
	}
	must(t, os.Chmod(filepath.Join(outside, "00/file"), 0o640))
	before, err := walk(t, open(t, outside, "."))
	must(t, err)

	to := t.TempDir()
	stop := make(chan struct{})
	var attacker sync.WaitGroup
	aside := filepath.Join(t.TempDir(), "aside")
	var swaps atomic.Int64
	attacker.Go(func() {
		// A directory and a link to one outside take turns under the same name.
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := filepath.Join(to, "dir")
			if os.Rename(name, aside) != nil {
				time.Sleep(time.Millisecond)
				continue
			}
			_ = os.Symlink(outside, name)
			for range i % 7 {
				time.Sleep(50 * time.Microsecond)
			}
			_ = os.Remove(name)
			// Where an attempt has made the directory again, that one goes.
			if os.Rename(aside, name) != nil {
				_ = os.RemoveAll(aside)
			}
			swaps.Add(1)
			time.Sleep(time.Duration(i%11) * 2 * time.Millisecond)
		}
	})
	whole, broken := 0, 0
	// On a busy machine the attacker may not come to anything at first.
	for start := time.Now(); time.Since(start) < time.Second || swaps.Load() == 0 && time.Since(start) < time.Minute; {
		if _, err := tryMove(from, to, moveOptions{mirror: true}); err == nil {
			whole++
		} else {
			broken++
		}
	}
	close(stop)
	attacker.Wait()
	after, err := walk(t, open(t, outside, "."))
	must(t, err)
	if len(before) != len(after) {
		t.Fatalf("%d entries outside became %d", len(before), len(after))
	}
	for i := range before {
		if *before[i] != *after[i] {
			t.Errorf("outside %+v became %+v", before[i], after[i])
		}
	}
	if swaps.Load() == 0 {
		t.Error("nothing was swapped")
	}
	t.Logf("%d attempts went through, %d did not, with %d swaps", whole, broken, swaps.Load())
}

// Devices and sockets at the destination are left alone, and a source has none of them to give.
func TestDevicesAreNeverMade(t *testing.T) {
	privileged(t)
	from, to := t.TempDir(), t.TempDir()
	if err := unix.Mknod(filepath.Join(from, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skipf("no devices can be made here: %v", err)
	}
	m := move(t, from, to, moveOptions{})
	if m.omitted[tree.OmittedDevice] != 1 || len(paths(t, to)) != 0 {
		t.Errorf("omissions are %v, there are %q", m.examples, paths(t, to))
	}
	must(t, os.Remove(filepath.Join(from, "null")))
	write(t, from, "null", "content")
	must(t, unix.Mknod(filepath.Join(to, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	if _, err := tryMove(from, to, moveOptions{}); err == nil {
		t.Error("a device is replaced")
	}
	m = move(t, from, to, moveOptions{mirror: true})
	same(t, from, to, nil)
	if m.removed != 1 {
		t.Errorf("%d are removed", m.removed)
	}
}
