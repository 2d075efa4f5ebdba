// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const nobody = 65534

// Everything that needs no privilege passes without any, too.
func TestWithoutPrivilege(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is without privilege already")
	}
	dir := t.TempDir()
	public(t, dir)
	own := filepath.Join(dir, "own")
	must(t, os.Mkdir(own, 0o700), os.Chown(own, nobody, nobody))
	program := filepath.Join(dir, "tree.test")
	copyProgram(t, program)
	cmd := exec.CommandContext(t.Context(), program, "-test.short", "-test.timeout=8m")
	cmd.Dir = own
	cmd.Env = append(os.Environ(), "TMPDIR="+own, "HOME="+own)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.ENOEXEC) {
		t.Skip("this machine runs the test only through an emulator that was started by hand")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// copyProgram copies the test to where others may run it.
func copyProgram(t *testing.T, name string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	in, err := os.Open(self)
	must(t, err)
	defer in.Close()
	out, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err, out.Close())
}
