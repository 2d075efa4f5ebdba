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
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// touching calls a function when the receiver looks at an entry, which is before its content is read, with how often it
// has before.
type touching struct {
	receive.Destination
	touch func(e *tree.Entry, times int)
	times map[string]int
}

func touch(f func(e *tree.Entry, times int)) receiveOption {
	return func(o *receive.Options) { o.Destination = touching{o.Destination, f, make(map[string]int)} }
}

func (d touching) Look(e *tree.Entry) (bool, error) {
	d.touch(e, d.times[e.Path])
	d.times[e.Path]++
	return d.Destination.Look(e)
}

func (d touching) LookAgain(e *tree.Entry) (bool, error) {
	d.touch(e, d.times[e.Path])
	d.times[e.Path]++
	return d.Destination.LookAgain(e)
}

func atOnce(o *send.Options) {
	o.ChangedPauses = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
}

// Files that change while they are read arrive as they are then, and the attempt is none the worse for it.
func TestChangedFilesAreReadAgain(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	for i, path := range []string{"grows", "shrinks", "empties", "goes", "touched", "was/removed", "zz"} {
		file(t, source, path, noise(uint64(i), 3<<20+i), 0o600)
	}
	file(t, source, "small", []byte("1"), 0o600)
	file(t, destination, "goes", []byte("an older version"), 0o600)
	in := func(path string) string { return filepath.Join(source, path) }
	changes := map[string]func() error{
		"grows":       func() error { return os.WriteFile(in("grows"), noise(9, 5<<20), 0o600) },
		"shrinks":     func() error { return os.Truncate(in("shrinks"), 100) },
		"empties":     func() error { return os.Truncate(in("empties"), 0) },
		"goes":        func() error { return os.Remove(in("goes")) },
		"touched":     func() error { return os.Chtimes(in("touched"), time.Now(), time.Unix(7, 8)) },
		"was/removed": func() error { return os.RemoveAll(in("was/removed")) },
		"small":       func() error { return os.WriteFile(in("small"), []byte("another"), 0o640) },
	}
	p := startReceiver(t, destination, touch(func(e *tree.Entry, times int) {
		if change := changes[e.Path]; change != nil && (times == 0 ||
			times == 1 && e.Path != "shrinks" && e.Path != "empties") {
			if err := change(); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	}))
	sent, err := p.send(t.Context(), t, source, atOnce, filtered(t, true, nil, nil))
	if err != nil {
		t.Fatal("send:", err)
	}
	if err := p.wait(t); err != nil {
		t.Fatal("receive:", err)
	}
	age(t, in("was"), 1)
	age(t, filepath.Join(destination, "was"), 1)
	age(t, source, 1)
	age(t, destination, 1)
	same(t, source, destination)
	for side, progress := range map[string]*wirev1.Progress{
		"sender": sent.Progress, "receiver": p.report.Report().Progress,
	} {
		if progress.FilesTotal != 6 || progress.Files != 6 || progress.Bytes != progress.BytesTotal {
			t.Errorf("the %s's progress is %v", side, progress)
		}
	}
}

// A file that changes each time it is read is named. Everything else arrives, and a mirror removes nothing.
func TestFileThatNeverRests(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "a", text(1, 5<<20), 0o600)
	file(t, source, "b", text(2, 5<<20), 0o600)
	file(t, destination, "old", []byte("kept"), 0o600)
	looked := 0
	p := startReceiver(t, destination, touch(func(e *tree.Entry, times int) {
		if e.Path == "b" {
			looked++
			age(t, filepath.Join(source, "b"), int64(times))
		}
	}))
	sent, err := p.send(t.Context(), t, source, atOnce, filtered(t, true, nil, nil))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) ||
		!strings.Contains(err.Error(), `1 files changed`) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("the sender ended with %v", err)
	}
	if err := p.wait(t); err != nil {
		t.Errorf("the receiver ended with %v", err)
	}
	if looked != 4 || sent.Progress.Files != 1 || sent.Progress.FilesTotal != 2 {
		t.Errorf("it was announced %d times, progress is %v", looked, sent.Progress)
	}
	if got := names(t, destination); !slices.Equal(got, []string{".", "a", "old"}) {
		t.Errorf("there are %q", got)
	}
	move(t, source, destination, filtered(t, true, nil, nil))
	same(t, source, destination)
}

// What cannot be fixed without another walk is reported: names of a file that is another one now, and what is no file
// any more.
func TestChangedBeyondReadingAgain(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"Directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		"Link":      func(path string) error { return errors.Join(os.Remove(path), os.Symlink("x", path)) },
		"Shared":    func(path string) error { return errors.Join(os.Link(path, path+"-2"), os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			source, destination := t.TempDir(), t.TempDir()
			file(t, source, "a", noise(1, 2<<20), 0o600)
			if name == "Shared" {
				if err := os.Link(filepath.Join(source, "a"), filepath.Join(source, "z")); err != nil {
					t.Fatal(err)
				}
			}
			p := startReceiver(t, destination, touch(func(e *tree.Entry, _ int) {
				if e.Path == "a" {
					if err := change(filepath.Join(source, "a")); err != nil {
						t.Error(err)
					}
				}
			}))
			_, err := p.send(t.Context(), t, source, atOnce)
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) || !strings.Contains(err.Error(), `"a"`) {
				t.Errorf("the sender ended with %v", err)
			}
			if err := p.wait(t); err != nil {
				t.Errorf("the receiver ended with %v", err)
			}
			if err := os.RemoveAll(destination); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(destination, 0o755); err != nil {
				t.Fatal(err)
			}
			move(t, source, destination)
			same(t, source, destination)
		})
	}
}

func TestHostileRetries(t *testing.T) {
	again := func(index uint64, e *wirev1.Entry) *wirev1.Retry {
		return &wirev1.Retry{Files: []*wirev1.RetriedFile{{Index: index, Entry: e}}}
	}
	// Entry 1 was taken back, entry 2 was not.
	for name, retries := range map[string][]*wirev1.Retry{
		"Nothing":       {{}},
		"Unknown":       {again(9, fileEntry("a", 10))},
		"NotTakenBack":  {again(2, fileEntry("b", 10))},
		"OtherPath":     {again(1, fileEntry("b", 10))},
		"Climbs":        {again(1, fileEntry("../victim", 10))},
		"Directory":     {again(1, dirEntry("a"))},
		"Link":          {again(1, linkEntry("a", "b"))},
		"NoEntry":       {again(1, nil)},
		"HugeSize":      {again(1, fileEntry("a", 1<<62))},
		"Twice":         {again(1, fileEntry("a", 10)), again(1, fileEntry("a", 10))},
		"GoneTwice":     {{Gone: []uint64{1, 1}}},
		"GoneAndThere":  {{Gone: []uint64{1}, Files: again(1, fileEntry("a", 10)).Files}},
		"GoneUnknown":   {{Gone: []uint64{7}}},
		"GoneDirectory": {{Gone: []uint64{0}}},
		"Many":          {{Gone: make([]uint64, 4097)}},
	} {
		t.Run(name, func(t *testing.T) {
			destination, check := outside(t)
			p := startReceiver(t, destination)
			h := newPeer(t, p)
			h.accepted()
			h.announce(root(), fileEntry("a", 10), fileEntry("b", 10))
			h.say(
				&wirev1.SessionRequest{
					Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: &wirev1.ManifestEnd{Entries: 3, Files: 2, Bytes: 20}},
				},
			)
			h.say(
				&wirev1.SessionRequest{Message: &wirev1.SessionRequest_FileChanged{FileChanged: &wirev1.FileChanged{Index: 1}}},
			)
			for _, r := range retries {
				h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Retry{Retry: r}})
			}
			if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
				t.Errorf("the verdict is %v", f)
			}
			if err := p.wait(t); err == nil {
				t.Error("the receiver succeeded")
			}
			check()
		})
	}
	t.Run("BeforeTheEnd", func(t *testing.T) {
		p := startReceiver(t, t.TempDir())
		h := newPeer(t, p)
		h.accepted()
		h.announce(root(), fileEntry("a", 10))
		h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_FileChanged{FileChanged: &wirev1.FileChanged{Index: 1}}})
		h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Retry{Retry: again(1, fileEntry("a", 10))}})
		if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
			t.Errorf("the verdict is %v", f)
		}
		if err := p.wait(t); err == nil {
			t.Error("the receiver succeeded")
		}
	})
}
