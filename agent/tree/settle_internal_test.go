// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// replaced is a file that rests at a source as a.gz, and a version that replaces it in two steps.
type replaced struct {
	t      *testing.T
	form   cargo.Form
	source *Source
	root   string
	pauses int
}

func newReplaced(t *testing.T, form cargo.Form, before, after []byte) *replaced {
	t.Helper()
	r := &replaced{t: t, form: form, root: t.TempDir()}
	r.stage(before)
	r.file()
	r.index()
	r.stage(after)
	source, err := OpenSource(r.root, Root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	source.SetForm(form, engines.Default())
	source.pause = func(time.Duration) { r.pauses++ }
	r.source = source
	return r
}

// stage writes a version beside the names.
func (r *replaced) stage(content []byte) {
	r.t.Helper()
	var file bytes.Buffer
	index, err := cargo.Pack(r.t.Context(), &file, bytes.NewReader(content), cargo.PackOptions{
		Form: r.form, Engines: engines.Default(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for name, content := range map[string][]byte{"data": file.Bytes(), "index": index.Append(nil)} {
		if err := os.WriteFile(filepath.Join(r.root, StagingName+name), content, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *replaced) rename(from, to string) {
	r.t.Helper()
	if err := os.Rename(filepath.Join(r.root, StagingName+from), filepath.Join(r.root, to)); err != nil {
		r.t.Fatal(err)
	}
}

// file and index give what is staged its name.
func (r *replaced) file()  { r.rename("data", r.form.Name("a")) }
func (r *replaced) index() { r.rename("index", r.form.IndexName("a")) }

// walk returns the one file of the source.
func (r *replaced) walk() (*Entry, error) {
	var found *Entry
	err := r.source.Walk(r.t.Context(), func(e *Entry) error {
		if e.Path == "a" {
			found = e
		}
		return nil
	})
	return found, err
}

// A walk that looks between the two steps finds the new version, whenever the second one comes.
func TestWalkBetweenIndexAndFile(t *testing.T) {
	t.Parallel()
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
		for step := 1; step <= len(restingPauses); step++ {
			r := newReplaced(t, form, []byte("before"), bytes.Repeat([]byte("after "), 1000))
			r.index()
			r.source.pause = func(time.Duration) {
				if r.pauses++; r.pauses == step {
					r.file()
				}
			}
			e, err := r.walk()
			if err != nil || e == nil || e.Size != 6000 || r.pauses != step {
				t.Fatalf("%v, step %d: found %+v after %d looks: %v", form, step, e, r.pauses, err)
			}
			content := make([]byte, e.Size)
			if err := r.source.ReadAt(e, content, 0); err != nil || !bytes.HasPrefix(content, []byte("after after ")) {
				t.Errorf("%v, step %d: read %.20q: %v", form, step, content, err)
			}
		}
	}
}

// One that nobody completes is wrong after a few looks.
func TestWalkGivesUpWrongIndex(t *testing.T) {
	t.Parallel()
	r := newReplaced(t, cargo.Gzip, []byte("before"), []byte("longer than before"))
	r.index()
	_, err := r.walk()
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE) {
		t.Errorf("the walk ended with %v", err)
	}
	if r.pauses != len(restingPauses) {
		t.Errorf("it looked %d times again, want %d", r.pauses, len(restingPauses))
	}
}

// A file that is gone when it is looked at again is none, and one that got further names is sent once.
func TestWalkFindsOtherThingsMeanwhile(t *testing.T) {
	t.Parallel()
	r := newReplaced(t, cargo.Gzip, []byte("before"), []byte("longer than before"))
	r.index()
	r.source.pause = func(time.Duration) { _ = os.Remove(filepath.Join(r.root, r.form.Name("a"))) }
	if e, err := r.walk(); e != nil || err != nil {
		t.Errorf("found %+v: %v", e, err)
	}

	r = newReplaced(t, cargo.Gzip, []byte("before"), []byte("longer than before"))
	r.index()
	r.source.pause = func(time.Duration) {
		r.file()
		for _, of := range []func(string) string{r.form.Name, r.form.IndexName} {
			if err := os.Link(filepath.Join(r.root, of("a")), filepath.Join(r.root, of("b"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if e, err := r.walk(); err != nil || e == nil || !e.Shared() {
		t.Errorf("found %+v: %v", e, err)
	}
	var last Entry
	if err := r.source.Walk(t.Context(), func(e *Entry) error {
		last = *e
		return nil
	}); err != nil || last.Type != HardLink || last.Path != "b" || last.Target != "a" {
		t.Errorf("found %+v: %v", last, err)
	}
}

// Versions of the same lengths differ in nothing that a walk sees: who reads finds the index to be of other content,
// and the file to have changed a moment later.
func TestReadBetweenIndexAndFile(t *testing.T) {
	t.Parallel()
	before, after := make([]byte, 4096), make([]byte, 4096)
	_, _ = rand.Read(before)
	_, _ = rand.Read(after)
	r := newReplaced(t, cargo.Gzip, before, after)
	e, err := r.walk()
	if err != nil || e == nil {
		t.Fatalf("found %+v: %v", e, err)
	}
	r.index()
	r.source.pause = func(time.Duration) {
		if r.pauses++; r.pauses == 2 {
			r.file()
		}
	}
	if err := r.source.ReadAt(e, make([]byte, 10), 0); !errors.Is(err, ErrChanged) {
		t.Errorf("read: %v", err)
	}
	again, err := r.source.Again(e)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 4096)
	if err := r.source.ReadAt(again, content, 0); err != nil || !bytes.Equal(content, after) {
		t.Errorf("read again: %v", err)
	}
	if r.pauses != 2 {
		t.Errorf("it looked %d times again", r.pauses)
	}
}
