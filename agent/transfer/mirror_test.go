// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// filtered leaves things out, and, if mirror, asks for a destination that has nothing else.
func filtered(t testing.TB, mirror bool, include, exclude []string) sendOption {
	t.Helper()
	f, err := filter.New(include, exclude)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *send.Options) {
		o.Source.(*tree.Source).SetFilter(f)
		if mirror {
			o.Mirror = &wirev1.Mirror{Include: include, Exclude: exclude}
		}
	}
}

func names(t testing.TB, root string) []string {
	t.Helper()
	var all []string
	for path := range listing(t, root) {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

func TestFilterAndMirror(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "a.csv", []byte("1"), 0o600)
	file(t, source, "dir/b.csv", noise(1, 2<<20), 0o600)
	file(t, source, "dir/c.tmp", []byte("3"), 0o600)
	file(t, destination, "dir/c.tmp", []byte("kept"), 0o600)
	file(t, destination, "old/d", []byte("removed"), 0o600)
	sent, _ := move(t, source, destination, filtered(t, false, nil, []string{"*.tmp"}))
	if got := names(t, destination); !slices.Equal(
		got, []string{".", "a.csv", "dir", "dir/b.csv", "dir/c.tmp", "old", "old/d"},
	) || sent.Progress.Removed != 0 {
		t.Errorf("there are %q, progress is %v", got, sent.Progress)
	}
	sent, received := move(t, source, destination, filtered(t, true, nil, []string{"*.tmp"}))
	if got := names(t, destination); !slices.Equal(got, []string{".", "a.csv", "dir", "dir/b.csv", "dir/c.tmp"}) {
		t.Errorf("there are %q", got)
	}
	if sent.Progress.Removed != 2 || received.Progress.Removed != 2 || sent.Progress.FilesTotal != 2 ||
		sent.Progress.UnchangedFiles != 2 {
		t.Errorf("progress is %v and %v", sent.Progress, received.Progress)
	}
	if b, err := os.ReadFile(filepath.Join(destination, "dir/c.tmp")); err != nil || string(b) != "kept" {
		t.Errorf("what is left out is %q, %v", b, err)
	}
}

// A source that is suddenly empty does not empty the destination, and both sides say why.
func TestMirrorOfNothing(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, destination, "old", []byte("kept"), 0o600)
	p := startReceiver(t, destination)
	_, err := p.send(t.Context(), t, source, filtered(t, true, nil, nil))
	received := p.wait(t)
	for _, err := range []error{err, received} {
		if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY) ||
			!strings.Contains(err.Error(), "spec.allowEmptySource") {
			t.Errorf("a side ended with %v", err)
		}
	}
	if got := names(t, destination); !slices.Equal(got, []string{".", "old"}) {
		t.Errorf("there are %q", got)
	}
	move(t, source, destination, filtered(t, true, nil, nil), func(o *send.Options) {
		o.Mirror.AllowEmptySource = true
	})
	same(t, source, destination)
}

// An attempt that fails, for whatever reason, has removed nothing.
func TestFailedMirrorRemovesNothing(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "a", []byte("1"), 0o600)
	file(t, destination, "old", []byte("kept"), 0o600)
	disk := errors.New("the disk is broken")
	p := startReceiver(t, destination, func(o *receive.Options) {
		o.Destination = unwritable{o.Destination, disk}
	})
	if _, err := p.send(t.Context(), t, source, filtered(t, true, nil, nil)); err == nil {
		t.Error("the sender succeeded")
	}
	if err := p.wait(t); !errors.Is(err, disk) {
		t.Errorf("the receiver ended with %v", err)
	}
	if got := names(t, destination); !slices.Equal(got, []string{".", "old"}) {
		t.Errorf("there are %q", got)
	}
}

type unwritable struct {
	receive.Destination
	err error
}

func (d unwritable) Stage(uint64, *tree.Entry) (receive.StagedFile, error) { return nil, d.err }

func TestHostileMirror(t *testing.T) {
	for name, m := range map[string]*wirev1.Mirror{
		"Many":    {Exclude: make([]string, filter.MaxPatterns+1)},
		"Empty":   {Include: []string{""}},
		"Long":    {Exclude: []string{strings.Repeat("a", filter.MaxPattern+1)}},
		"Climbs":  {Exclude: []string{"../../etc"}},
		"Class":   {Exclude: []string{"[a"}},
		"Negated": {Include: []string{"!a"}},
	} {
		destination := t.TempDir()
		file(t, destination, "old", []byte("kept"), 0o600)
		p := startReceiver(t, destination)
		h := newPeer(t, p)
		begin := goodBegin()
		begin.Mirror = m
		h.begin(begin)
		if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
			t.Errorf("%s: the verdict is %v", name, f)
		}
		if err := p.wait(t); err == nil {
			t.Errorf("%s: the receiver succeeded", name)
		}
		if got := names(t, destination); !slices.Equal(got, []string{".", "old"}) {
			t.Errorf("%s: there are %q", name, got)
		}
	}
}

// M7: a sender that opened its run without spec.delete, and asks the receiving agent for a mirror all the same, removes
// nothing and writes nothing, whatever it announces.
func TestHostileMirrorThatWasNotOpened(t *testing.T) {
	destination := t.TempDir()
	file(t, destination, "old/d", []byte("kept"), 0o600)
	file(t, destination, "replaced/d", []byte("kept"), 0o600)
	p := startReceiver(t, destination, func(o *receive.Options) { o.AllowDelete = false })
	h := newPeer(t, p)
	begin := goodBegin()
	begin.Mirror = &wirev1.Mirror{AllowEmptySource: true}
	h.begin(begin)
	h.announce(root(), &wirev1.Entry{Path: []byte("replaced"), Type: wirev1.EntryType_ENTRY_TYPE_FILE})
	h.say(
		&wirev1.SessionRequest{Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: &wirev1.ManifestEnd{Entries: 2}}},
	)
	h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Finish{Finish: &wirev1.Finish{Files: 1}}})
	if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED ||
		!strings.Contains(f.Message, "spec.delete") {
		t.Errorf("the verdict is %v", f)
	}
	if err := p.wait(t); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED) {
		t.Errorf("the receiver ended with %v", err)
	}
	if got := names(t, destination); !slices.Equal(got, []string{".", "old", "old/d", "replaced", "replaced/d"}) {
		t.Errorf("there are %q", got)
	}
}

// A sender that asks for a mirror and finishes before it has announced all, or lies about it, removes nothing.
func TestHostileMirrorFinishesEarly(t *testing.T) {
	for name, finish := range map[string]func(h *peer){
		"NoEnd": func(*peer) {},
		"Lie": func(h *peer) {
			h.say(
				&wirev1.SessionRequest{Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: &wirev1.ManifestEnd{Entries: 7}}},
			)
		},
	} {
		destination := t.TempDir()
		file(t, destination, "old", []byte("kept"), 0o600)
		p := startReceiver(t, destination)
		h := newPeer(t, p)
		begin := goodBegin()
		begin.Mirror = &wirev1.Mirror{AllowEmptySource: true}
		h.begin(begin)
		h.announce(root())
		finish(h)
		h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Finish{Finish: &wirev1.Finish{}}})
		if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
			t.Errorf("%s: the verdict is %v", name, f)
		}
		if err := p.wait(t); err == nil {
			t.Errorf("%s: the receiver succeeded", name)
		}
		if got := names(t, destination); !slices.Equal(got, []string{".", "old"}) {
			t.Errorf("%s: there are %q", name, got)
		}
	}
}
