// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/claimstore"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/killtest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestKilledInClaims kills agents that write a claim in a form before a system call that changes files, and the next
// attempt before another one. Nothing half is under its name then, and the attempt after that leaves what a run leaves
// that nobody kills.
func TestKilledInClaims(t *testing.T) {
	for form, codec := range map[wirev1.Form]string{
		wirev1.Form_FORM_GZIP: "deflate", wirev1.Form_FORM_ZSTD: "zstd", wirev1.Form_FORM_ARCHIVE: "deflate",
	} {
		t.Run(form.String(), func(t *testing.T) {
			t.Parallel()
			k := newKilling(t, form, codec)
			want := k.destinationOf(t, func() { k.completes(t, 1, "without a kill") })
			every := killtest.Every(53)
			before := make(map[string]int)
			for n := 1 + rand.IntN(every); ; n += every {
				when := fmt.Sprintf("killed before change %d", n)
				ended := false
				got := k.destinationOf(t, func() {
					call := k.attempt(t, 1, n)
					if ended = call == ""; ended {
						return
					}
					before[call]++
					k.whole(t, when)
					again := 1 + rand.IntN(n)
					when = fmt.Sprintf("%s, and the next attempt before change %d", when, again)
					k.attempt(t, 2, again)
					k.whole(t, when)
					k.completes(t, 3, when)
				})
				if ended {
					break
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: there are %q instead of %q", when, got, want)
				}
			}
			t.Logf("killed before %v", before)
			if len(before) == 0 || killtest.Every(0) == 1 && before["renameat"]+before["renameat2"]+before["linkat"] < 3 {
				t.Errorf("killed before %v only", before)
			}
		})
	}
}

// killing is a run of mode local whose agents are killed.
type killing struct {
	*localRun
	form wirev1.Form
	// files of the source by path.
	files map[string][]byte
}

func newKilling(t *testing.T, form wirev1.Form, codec string) *killing {
	k := &killing{localRun: newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO), form: form}
	noise := make([]byte, 9<<20) // which makes two parts of an archive
	rand.NewChaCha8([32]byte{}).Read(noise)
	k.files = map[string][]byte{
		"noise": noise, "sub/file": []byte(k.content[:1<<20+1]), "empty": nil, "sub/a": []byte("a"), "sub/b": []byte("b"),
	}
	for name, content := range k.files {
		if err := os.WriteFile(filepath.Join(k.source, "data", name), content, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	k.config.Transfer = "bank/ledger (1)"
	k.config.Send.Form, k.config.Send.Compression.Codecs = form, []string{codec}
	k.config.Send.CheckpointInterval = 1 << 20
	return k
}

// number is that of an archive, and what is random in its name.
var number = regexp.MustCompile(`[0-9]+-[0-9a-z]+\.tar`)

// destinationOf does something with a destination that is empty, and returns the names of what is there then.
func (k *killing) destinationOf(t *testing.T, do func()) (names []string) {
	t.Helper()
	var err error
	if k.destination, err = os.MkdirTemp(t.TempDir(), ""); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(k.destination)
	k.config.Receive.Volume = k.destination
	do()
	err = filepath.WalkDir(k.destination, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, number.ReplaceAllString(strings.TrimPrefix(path, k.destination), "N.tar"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// attempt runs an agent that is killed before its nth change, whose name it returns; empty: the agent has succeeded.
func (k *killing) attempt(t *testing.T, attempt uint32, n int) string {
	t.Helper()
	k.config.Send.Attempt, k.config.Receive.Attempt = attempt, attempt
	k.config.Send.ControlAddress = freeAddress(t)
	configure(t, k.directory, k.config)
	c := exec.CommandContext(t.Context(), os.Args[0], "local", "--config-dir", k.directory)
	c.Env = append(os.Environ(), childEnv+"=1")
	var log lines
	c.Stdout, c.Stderr = &log, &log
	call := killtest.Run(t, c, k.destination, n)
	if call == "" && !c.ProcessState.Success() {
		t.Fatalf("the agent failed:\n%s", log.String())
	}
	return call
}

// completes runs an attempt to its end, and compares what is there with the source.
func (k *killing) completes(t *testing.T, attempt uint32, when string) {
	t.Helper()
	k.config.Send.Attempt, k.config.Receive.Attempt = attempt, attempt
	if code, _, log := k.run(t.Context(), t); code != exitOK {
		t.Fatalf("%s: the agent exits with %d:\n%s", when, code, log)
	}
	if n := k.whole(t, when); n != len(k.files) {
		t.Errorf("%s: %d files arrived of %d", when, n, len(k.files))
	}
}

// whole fails the test if something half has a name, and returns how many files can be read.
func (k *killing) whole(t *testing.T, when string) (n int) {
	t.Helper()
	if k.form == wirev1.Form_FORM_ARCHIVE {
		return k.wholeArchives(t, when)
	}
	form := map[wirev1.Form]cargo.Form{wirev1.Form_FORM_GZIP: cargo.Gzip, wirev1.Form_FORM_ZSTD: cargo.Zstd}[k.form]
	root := filepath.Join(k.destination, "copy")
	for _, path := range resting(t, root) {
		plain := k.expands(t, path, when)
		directory, name := filepath.Split(strings.TrimPrefix(path, root+"/"))
		of, ok := form.PlainName(name)
		if want, there := k.files[directory+of]; !ok || !there || !bytes.Equal(plain, want) {
			t.Errorf("%s: %s expands to %d bytes of %d", when, path, len(plain), len(want))
		}
		n++
	}
	return n
}

// wholeArchives is whole for archives: those that have a name, and all files that the index of the prefix has.
func (k *killing) wholeArchives(t *testing.T, when string) (n int) {
	t.Helper()
	root := filepath.Join(k.destination, "copy", bucket.Reserved, "archives")
	for _, path := range resting(t, root) {
		k.expands(t, path, when)
	}
	store, err := claimstore.OpenSource(t.Context(), k.destination, "copy")
	if failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND) {
		return 0 // There is no index yet.
	}
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer store.Close()
	source := bucket.NewSource(t.Context(), store, nil)
	source.Inflate(engines.Default)
	err = source.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Type != tree.File {
			return nil
		}
		n++
		got := make([]byte, e.Size)
		if e.Size > 0 {
			if err := source.ReadAt(e, got, 0); err != nil {
				return err
			}
		}
		if !bytes.Equal(got, k.files[e.Path]) {
			t.Errorf("%s: %s has %d bytes of %d", when, e.Path, len(got), len(k.files[e.Path]))
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", when, err)
	}
	return n
}

// resting are the files with names of their own below a directory, which need not be there.
func resting(t *testing.T, root string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.Name() == tree.StagingName || e.Name() == "journal":
			return fs.SkipDir
		case !e.IsDir() && !strings.HasPrefix(e.Name(), "."):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// expands returns what a file expands to, by a library that is none of ours. It fails the test unless the file is as
// its index says, and a program of others finds no fault with it.
func (k *killing) expands(t *testing.T, path, when string) (plain []byte) {
	t.Helper()
	files := cargofile.Files{Engines: engines.Default()}
	f, err := files.Open(t.Context(), path)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return nil
	}
	defer f.Close()
	if err := f.Scrub(t.Context(), true); err != nil {
		t.Errorf("%s: %s: %v", when, path, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	program, expand := "gzip", func() (io.Reader, error) { return gzip.NewReader(bytes.NewReader(b)) }
	if f.Index().Form() == cargo.Zstd {
		program, expand = "zstd", func() (io.Reader, error) { return zstd.NewReader(bytes.NewReader(b)) }
	}
	r, err := expand()
	if err == nil {
		plain, err = io.ReadAll(r)
	}
	if err != nil {
		t.Errorf("%s: %s: %v", when, path, err)
	}
	if program, err := exec.LookPath(program); err == nil {
		if out, err := exec.CommandContext(t.Context(), program, "-tq", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %s: %v: %s", when, path, err, out)
		}
	}
	return plain
}
