// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// attempt opens the destination for an attempt of the run.
func attempt(t *testing.T, volume string, number uint32) *tree.Destination {
	t.Helper()
	d, err := tree.OpenDestination(volume, ".", "run", number)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// stage writes the beginning of a file.
func stage(t *testing.T, d *tree.Destination, number uint64) error {
	t.Helper()
	f, err := d.Stage(number, &tree.Entry{Path: "name", Type: tree.File, Size: 100, Mode: 0o600})
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte("content"), 0)
	return err
}

func note(t *testing.T, d *tree.Destination, text string) {
	t.Helper()
	f, err := d.Staging().Create(journal.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func noted(t *testing.T, d *tree.Destination) string {
	t.Helper()
	f, err := d.Staging().Open(journal.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func stagedExists(t *testing.T, d *tree.Destination, number uint64) bool {
	t.Helper()
	bytes, exists, err := d.Staged(number)
	if err != nil || bytes < 0 {
		t.Fatalf("%d bytes, %v", bytes, err)
	}
	return exists
}

func TestTakeOver(t *testing.T) {
	volume := t.TempDir()
	first := attempt(t, volume, 1)
	for _, n := range []uint64{7, 8, 9} {
		if err := stage(t, first, n); err != nil {
			t.Fatal(err)
		}
	}
	note(t, first, "first")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := attempt(t, volume, 2)
	if noted(t, second) != "first" || !stagedExists(t, second, 7) || !stagedExists(t, second, 8) ||
		stagedExists(t, second, 10) {
		t.Errorf("journal %q", noted(t, second))
	}
	cleared, err := second.Clear(func(n uint64) bool { return n == 8 })
	if err != nil || cleared < 14 || stagedExists(t, second, 7) || !stagedExists(t, second, 8) {
		t.Errorf("clearing removes %d bytes, %v", cleared, err)
	}
	// The same attempt again, because its first try did not get far.
	third := attempt(t, volume, 2)
	if noted(t, third) != "first" || !stagedExists(t, third, 8) {
		t.Errorf("journal %q", noted(t, third))
	}
	look(t, third, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
	if err := third.Finish(); err != nil {
		t.Fatal(err)
	}
	if names, _ := os.ReadDir(volume); len(names) != 0 {
		t.Errorf("after the end there are %v", names)
	}
}

// A receiver from which another one has taken over can do nothing more to the tree.
func TestFormerOwner(t *testing.T) {
	volume := t.TempDir()
	former := attempt(t, volume, 1)
	look(t, former, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
	e := tree.Entry{Path: "name", Type: tree.File, Size: 7, Mode: 0o600}
	if !look(t, former, e) {
		t.Fatal("not needed")
	}
	open, err := former.Stage(1, &e)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := open.WriteAt([]byte("content"), 0); err != nil {
		t.Fatal(err)
	}
	note(t, former, "former")
	owner := attempt(t, volume, 2)
	for what, err := range map[string]error{
		"stage":  stage(t, former, 1),
		"new":    stage(t, former, 2),
		"commit": open.Commit(&e),
		"clear":  func() error { _, err := former.Clear(func(uint64) bool { return false }); return err }(),
		"create": func() error { _, err := former.Staging().Create(journal.Name); return err }(),
		"rename": former.Staging().Rename("a", "b"),
		"sync":   former.Staging().Sync(),
		"symlink": func() error {
			_, err := former.Look(&tree.Entry{Path: "zlink", Type: tree.Symlink, Mode: 0o777, Target: "x"})
			return err
		}(),
		"finish": former.Finish(),
	} {
		if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_ABORTED) ||
			!strings.Contains(err.Error(), "a newer attempt has taken over") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := former.Close(); err != nil {
		t.Error(err)
	}
	if noted(t, owner) != "former" || !stagedExists(t, owner, 1) {
		t.Error("what was taken over is gone")
	}
	if _, err := os.Lstat(filepath.Join(volume, "name")); err == nil {
		t.Error("the file has its name")
	}
	_, err = tree.OpenDestination(volume, ".", "run", 1)
	if told := failure.ToWire(err); told.GetReason() != wirev1.FailureReason_FAILURE_REASON_SUPERSEDED ||
		told.GetNewestAttempt() != 2 {
		t.Errorf("an attempt that comes late: %v", err)
	}
	if noted(t, owner) != "former" || !stagedExists(t, owner, 1) {
		t.Error("what was taken over is gone after an attempt that came late")
	}
}

// A crash in the middle of taking over: the journal is in one directory, staged files are in two.
func TestTakeOverAfterACrash(t *testing.T) {
	volume := t.TempDir()
	write(t, volume, tree.StagingName+"/run.1.aa/7", "seven")
	write(t, volume, tree.StagingName+"/run.1.aa/8", "old")
	write(t, volume, tree.StagingName+"/run.2.bb/8", "newer")
	write(t, volume, tree.StagingName+"/run.2.bb/journal", "journal")
	write(t, volume, tree.StagingName+"/run.1.aa/directories", "left")
	write(t, volume, tree.StagingName+"/run.1.aa/08", "no number of ours")
	d := attempt(t, volume, 3)
	if noted(t, d) != "journal" || !stagedExists(t, d, 7) || !stagedExists(t, d, 8) {
		t.Errorf("journal %q", noted(t, d))
	}
	found, err := filepath.Glob(filepath.Join(volume, tree.StagingName, "*", "*"))
	if err != nil || len(found) != 4 {
		t.Errorf("there are %v, %v", found, err)
	}
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(found[0]), "8")); err != nil || string(b) != "newer" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// A new run goes on from what the one before left; what it was already taking over itself, when it crashed, comes
// first.
func TestTakeOverFromAnotherRun(t *testing.T) {
	volume := t.TempDir()
	write(t, volume, tree.StagingName+"/former.3.aa/7", "seven")
	write(t, volume, tree.StagingName+"/former.3.aa/journal", "former")
	write(t, volume, tree.StagingName+"/former.2.aa/9", "nine")
	write(t, volume, tree.StagingName+"/run.1.bb/7", "moved")
	write(t, volume, tree.StagingName+"/run.1.bb/8", "eight")
	d := attempt(t, volume, 2)
	if noted(t, d) != "former" || !stagedExists(t, d, 7) || !stagedExists(t, d, 8) || !stagedExists(t, d, 9) {
		t.Errorf("journal %q", noted(t, d))
	}
	found, err := filepath.Glob(filepath.Join(volume, tree.StagingName, "*", "7"))
	if err != nil || len(found) != 1 {
		t.Fatalf("there are %v, %v", found, err)
	}
	if b, err := os.ReadFile(found[0]); err != nil || string(b) != "moved" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// Staged files of two other runs could be mixed up by their numbers.
func TestNothingIsTakenOverFromTwoOtherRuns(t *testing.T) {
	volume := t.TempDir()
	write(t, volume, tree.StagingName+"/first.1.aa/7", "seven")
	write(t, volume, tree.StagingName+"/first.1.aa/journal", "first")
	write(t, volume, tree.StagingName+"/second.1.aa/7", "another")
	write(t, volume, tree.StagingName+"/run.1.aa/8", "own")
	write(t, volume, tree.StagingName+"/no-name-of-ours", "left")
	d := attempt(t, volume, 2)
	if noted(t, d) != "" || stagedExists(t, d, 7) || !stagedExists(t, d, 8) {
		t.Errorf("journal %q", noted(t, d))
	}
	if left, err := os.ReadDir(filepath.Join(volume, tree.StagingName)); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// What is in the place of the staging directory does not lead outside.
func TestStagingIsSomethingElse(t *testing.T) {
	for name, place := range map[string]func(volume, elsewhere string) error{
		"File": func(volume, _ string) error { return os.WriteFile(filepath.Join(volume, tree.StagingName), nil, 0o600) },
		"Link": func(volume, elsewhere string) error {
			return os.Symlink(elsewhere, filepath.Join(volume, tree.StagingName))
		},
		"LinkOfAnOldOne": func(volume, elsewhere string) error {
			if err := os.Mkdir(filepath.Join(volume, tree.StagingName), 0o700); err != nil {
				return err
			}
			return os.Symlink(elsewhere, filepath.Join(volume, tree.StagingName, "run.1.aa"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			volume, elsewhere := t.TempDir(), t.TempDir()
			write(t, elsewhere, "7", "precious")
			write(t, elsewhere, "journal", "precious")
			if err := place(volume, elsewhere); err != nil {
				t.Fatal(err)
			}
			d := attempt(t, volume, 2)
			if noted(t, d) != "" || stagedExists(t, d, 7) {
				t.Error("something was taken over")
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if names, _ := os.ReadDir(elsewhere); len(names) != 2 {
				t.Errorf("elsewhere are %v", names)
			}
			if names, _ := os.ReadDir(volume); len(names) != 0 {
				t.Errorf("in the volume are %v", names)
			}
		})
	}
}

func TestRunNames(t *testing.T) {
	for _, run := range []string{"", ".", "..", "a/b", "a.b", "/", strings.Repeat("x", 300), "a\x00"} {
		if _, err := tree.OpenDestination(t.TempDir(), ".", run, 1); err == nil {
			t.Errorf("%q is accepted", run)
		}
	}
}
