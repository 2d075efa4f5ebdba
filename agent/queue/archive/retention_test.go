// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Files go when their messages have, and not before; what is left can be restored.
func TestRetention(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	a := from.archiver(directory, func(_ *archive.Options, s *archive.Settings) { s.Retention = time.Nanosecond })
	for i := uint64(1); i <= 4; i++ {
		from.put("orders", fmt.Sprint(i))
		from.archived(a, upTo(i))
	}
	from.remove(1)
	from.remove(2)
	from.remove(4)
	s := from.archived(a, func(s archive.Status) bool { return s.Index.From == 3 })
	if beside, err := filepath.Glob(filepath.Join(directory, "*", ".*.lgci")); err != nil || len(beside) != 2 {
		t.Errorf("beside them are %v, %v", beside, err)
	}
	if files := ranges(t, directory); len(files) != 2 || s.Index.Ranges != 2 || s.Index.Messages != 4 ||
		s.Index.Bytes >= s.Index.WrittenBytes {
		t.Errorf("files %v, status %+v", files, s)
	}
	to := newQueue(t, "orders-2", store.Settings{})
	to.restore(to.restorer(directory, nil))
	to.expect("orders-2=3")
}

// Whoever takes an archive up that it cannot continue says so and leaves it as it is.
func TestContinue(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	for i := uint64(1); i <= 3; i++ {
		from.put("orders", fmt.Sprint(i))
		from.archived(from.archiver(directory, nil), upTo(i))
	}
	files := ranges(t, directory)
	index := filepath.Join(filepath.Dir(files[0]), "index")

	// An index that an end kept from being written is recreated.
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if s := from.archived(from.archiver(directory, nil), upTo(3)); s.Index.Messages != 3 || s.Index.Ranges != 3 ||
		s.Index.PlainBytes != 3 || s.Index.Version != 2 {
		t.Errorf("status %+v", s)
	}
	second, err := os.ReadFile(files[1])
	if err == nil {
		err = os.Remove(files[1])
	}
	if err != nil {
		t.Fatal(err)
	}
	s := from.archived(from.archiver(directory, nil), func(s archive.Status) bool { return s.LastError != nil })
	if !errors.Is(s.LastError, archive.ErrGap) ||
		!failure.Is(s.LastError, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
		t.Errorf("refused with %v", s.LastError)
	}
	// While it tries again, it is fixed.
	a := from.archiver(directory, nil)
	fixed := false
	s = from.archived(a, func(s archive.Status) bool {
		if s.LastError != nil && !fixed {
			fixed = true
			if err := os.WriteFile(files[1], second, 0o600); err != nil {
				t.Error(err)
			}
		}
		return fixed && s.LastError == nil && s.Sequence == 3
	})
	if s.Index.Ranges != 3 {
		t.Errorf("status %+v", s)
	}
	// Deleted by hand, it begins again.
	if err := os.RemoveAll(filepath.Dir(files[0])); err != nil {
		t.Fatal(err)
	}
	from.put("orders", "4")
	if s := from.archived(from.archiver(directory, nil), upTo(4)); s.Index.Messages != 4 || s.Index.Ranges != 1 {
		t.Errorf("status %+v", s)
	}
}

// What an end left between an index beside a range and the range is removed when no other member can be about to write
// that, and harms nobody meanwhile.
func TestLostIndex(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "1")
	s := from.archived(from.archiver(directory, nil), upTo(1))
	whole := ranges(t, directory)[0]
	content, err := os.ReadFile(sidecar(whole))
	if err != nil {
		t.Fatal(err)
	}
	name := func(tag string) string {
		return filepath.Join(directory, s.Path, ".00000000000000000001-00000000000000000009-"+tag+".jsonl.zst.lgci")
	}
	for _, tag := range []string{"0000000a", "0000000b"} {
		if err := os.WriteFile(name(tag), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, path := range []string{name("0000000a"), sidecar(whole)} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	from.put("orders", "2")
	from.archived(from.archiver(directory, nil), upTo(2))
	for path, is := range map[string]bool{name("0000000a"): false, name("0000000b"): true, sidecar(whole): true} {
		if _, err := os.Stat(path); (err == nil) != is {
			t.Errorf("%s: %v", path, err)
		}
	}
	to := newQueue(t, "again", store.Settings{})
	to.restore(to.restorer(directory, nil))
	to.expect("again=1", "again=2")
}

// The index beside a range that is missing is not removed: the range may be put back.
func TestMissingRange(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	for i := uint64(1); i <= 3; i++ {
		from.put("orders", fmt.Sprint(i))
		from.archived(from.archiver(directory, nil), upTo(i))
	}
	files := ranges(t, directory)
	old := time.Now().Add(-2 * time.Hour)
	for i, missing := range files {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			from.T = t
			content, err := os.ReadFile(missing)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Remove(missing), os.Chtimes(sidecar(missing), old, old)); err != nil {
				t.Fatal(err)
			}
			s := from.archived(from.archiver(directory, nil), func(s archive.Status) bool { return s.LastError != nil })
			if !errors.Is(s.LastError, archive.ErrGap) {
				t.Errorf("refused with %v", s.LastError)
			}
			if err := os.WriteFile(missing, content, 0o600); err != nil {
				t.Fatal(err)
			}
			from.archived(from.archiver(directory, nil), upTo(3))
			to := newQueue(t, "again", store.Settings{})
			to.restore(to.restorer(directory, nil))
			to.expect("again=1", "again=2", "again=3")
		})
	}
	from.T = t
}

// Only the member that leads writes, and says anything.
func TestLead(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "1")
	var leads atomic.Bool
	asked := make(chan struct{}, 1)
	a := from.archiver(directory, func(o *archive.Options, _ *archive.Settings) {
		o.Leads = func() bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return leads.Load()
		}
	})
	looks := 0
	s := from.archived(a, func(archive.Status) bool {
		select {
		case <-asked:
			looks++
		default:
		}
		return looks > 3
	})
	if s.Path != "" || len(ranges(t, directory)) > 0 {
		t.Errorf("a member that does not lead writes: %+v", s)
	}
	leads.Store(true)
	from.archived(a, upTo(1))
}
