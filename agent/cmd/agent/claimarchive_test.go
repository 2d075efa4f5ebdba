// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// archivedRun has packed a claim into archives of another one, with modes, times, links and an extended attribute.
func archivedRun(t *testing.T, codec string) *localRun {
	t.Helper()
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	sub := filepath.Join(r.source, "data/sub")
	when := time.Unix(1_700_000_000, 123456789)
	for _, err := range []error{
		os.Symlink("file", filepath.Join(sub, "link")),
		os.Link(filepath.Join(sub, "file"), filepath.Join(sub, "second")),
		os.WriteFile(filepath.Join(sub, "tool"), []byte("run"), 0o750),
		os.Chtimes(filepath.Join(sub, "file"), when, when),
		os.Chmod(sub, 0o711),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = unix.Setxattr(filepath.Join(sub, "tool"), "user.colour", []byte("blue"), 0)
	r.config.Send.Form, r.config.Transfer = wirev1.Form_FORM_ARCHIVE, "bank/ledger (1)"
	r.config.Send.Compression.Codecs = []string{codec}
	code, report, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	c, d := report.GetCompression(), report.GetDecompression()
	if c.GetCompressedBytes() == 0 || c.GetCompressedBytes() > c.GetUncompressedBytes()/2 || c.GetReason() == "NoNetwork" {
		t.Errorf("compression %v", c)
	}
	if d.GetSoftware().GetOperations()+d.GetHardware().GetOperations()+d.GetFallback().GetOperations() > 0 {
		t.Errorf("what rests was inflated: %v", d)
	}
	return r
}

// restored fails the test unless a tree is the one that was packed.
func (r *localRun) restored(t *testing.T, root string) {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(root, "sub/file")); err != nil || string(b) != r.content {
		t.Errorf("%d bytes were restored, %v", len(b), err)
	}
	for _, name := range []string{"sub", "sub/file", "sub/second", "sub/tool", "sub/link"} {
		var want, got unix.Stat_t
		if err := unix.Lstat(filepath.Join(r.source, "data", name), &want); err != nil {
			t.Fatal(err)
		}
		if err := unix.Lstat(filepath.Join(root, name), &got); err != nil {
			t.Error(err)
			continue
		}
		if got.Mode != want.Mode || got.Nlink != want.Nlink || got.Mtim != want.Mtim && want.Mode&unix.S_IFMT != unix.S_IFLNK {
			t.Errorf("%s is %o of %d names, modified %v; want %o of %d, %v", name, got.Mode, got.Nlink, got.Mtim, want.Mode,
				want.Nlink, want.Mtim)
		}
	}
	want, got := make([]byte, 10), make([]byte, 10)
	n, _ := unix.Getxattr(filepath.Join(r.source, "data/sub/tool"), "user.colour", want)
	if m, _ := unix.Getxattr(filepath.Join(root, "sub/tool"), "user.colour", got); m != n || string(got) != string(want) {
		t.Errorf("the extended attribute is %q, want %q", got[:max(m, 0)], want[:max(n, 0)])
	}
}

// restore is the configuration that restores what was packed.
func (r *localRun) restore(t *testing.T) *localRun {
	t.Helper()
	back := &localRun{directory: r.directory, source: r.source, destination: t.TempDir(), content: r.content}
	back.config = proto.CloneOf(r.config)
	back.config.Send.Volume, back.config.Send.Path = r.destination, "copy"
	back.config.Send.Form, back.config.Send.SourceForm = wirev1.Form_FORM_UNSPECIFIED, wirev1.Form_FORM_ARCHIVE
	back.config.Receive.Volume = back.destination
	return back
}

// A claim is packed into archives of another one, which tar extracts; what did not change is not packed again; and
// another Transfer gives the tree back.
func TestArchivesInAClaim(t *testing.T) {
	for codec, tar := range map[string]string{"deflate": "-z", "zstd": "--zstd"} {
		t.Run(codec, func(t *testing.T) {
			r := archivedRun(t, codec)
			if code, report, log := r.run(t.Context(), t); code != exitOK || report.GetProgress().GetUnchangedFiles() != 2 {
				t.Errorf("again: exit code %d, %v\n%s", code, report.GetProgress(), log)
			}
			archives, err := filepath.Glob(filepath.Join(r.destination, "copy/.lighterage/archives/[0-9]*.tar*"))
			if err != nil || len(archives) != 1 {
				t.Fatalf("archives %q, %v", archives, err)
			}
			if _, err := exec.LookPath("zstd"); err == nil || codec != "zstd" {
				into := t.TempDir()
				c := exec.CommandContext(t.Context(), "tar", "-x", "-p", tar, "--xattrs", "-f", archives[0], "-C", into)
				if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
					t.Fatalf("tar: %v: %s", err, out)
				}
				if b, err := os.ReadFile(filepath.Join(into, "sub/file")); err != nil || string(b) != r.content {
					t.Errorf("tar extracts %d bytes, %v", len(b), err)
				}
			}

			back := r.restore(t)
			code, report, log := back.run(t.Context(), t)
			if code != exitOK {
				t.Fatalf("the agent exits with %d:\n%s", code, log)
			}
			back.restored(t, filepath.Join(back.destination, "copy"))
			if d := report.GetDecompression(); d.GetSoftware().GetOperations() == 0 || report.GetCopyTime() == nil {
				t.Errorf("decompression %v, copied at %v", d, report.GetCopyTime())
			}
			if code, report, _ = back.run(t.Context(), t); code != exitOK || report.GetProgress().GetUnchangedFiles() != 2 {
				t.Errorf("again: exit code %d, %v", code, report)
			}
		})
	}
}

// What a filter leaves out of archives is not restored, and what is restored may rest in another form.
func TestRestoresArchivesOfAClaimInAForm(t *testing.T) {
	back := archivedRun(t, "zstd").restore(t)
	back.config.Send.Form, back.config.Send.Exclude = wirev1.Form_FORM_GZIP, []string{"tool"}
	if code, _, log := back.run(t.Context(), t); code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	for name, want := range map[string]bool{"file.gz": true, ".file.gz.lgci": true, "file": false, "tool.gz": false} {
		if _, err := os.Lstat(filepath.Join(back.destination, "copy/sub", name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
