// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// newPool is a Pool on any file system, with copies in place of clones.
func newPool(t *testing.T, capacity int64) *Pool {
	t.Helper()
	p, err := open(t.TempDir(), capacity, func(dst, src *os.File) error {
		_, err := io.Copy(dst, src)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// put writes to the image of a volume as a node would.
func put(t *testing.T, p *Pool, id, text string) {
	t.Helper()
	f := must[*os.File](t)(os.OpenFile(p.Image(id), os.O_WRONLY, 0))
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Change(id, func(v *Volume) error { v.Blank = false; return nil }); err != nil {
		t.Fatal(err)
	}
}

func begins(t *testing.T, p *Pool, id string, size int64, text string) {
	t.Helper()
	data := must[[]byte](t)(os.ReadFile(p.Image(id)))
	if int64(len(data)) != size || string(data[:len(text)]) != text {
		t.Errorf("image of %s: %d bytes that begin with %q, want %d and %q", id, len(data), data[:len(text)], size, text)
	}
}

func TestSnapshotKeepsWhatWasThere(t *testing.T) {
	p := newPool(t, 10*MinSize)
	v := must[Volume](t)(p.CreateVolume("v", MinSize, ""))
	if !v.Blank {
		t.Error("a new volume is not blank")
	}
	put(t, p, v.ID, "before")
	s := must[Snapshot](t)(p.CreateSnapshot("s", v.ID))
	put(t, p, v.ID, "after!")
	if err := p.DeleteVolume(v.ID); err != nil {
		t.Fatal(err)
	}
	if s.Blank || s.Size != MinSize {
		t.Errorf("snapshot %+v", s)
	}
	restored := must[Volume](t)(p.CreateVolume("restored", 2*MinSize, s.ID))
	begins(t, p, restored.ID, 2*MinSize, "before")
	cloned := must[Volume](t)(p.CreateVolume("cloned", 2*MinSize, restored.ID))
	begins(t, p, cloned.ID, 2*MinSize, "before")
	if restored.Blank || cloned.Blank {
		t.Errorf("volumes with content are blank: %+v %+v", restored, cloned)
	}
}

func TestCallsAreRepeated(t *testing.T) {
	p := newPool(t, 10*MinSize)
	v := must[Volume](t)(p.CreateVolume("v", MinSize, ""))
	other := must[Volume](t)(p.CreateVolume("other", MinSize, ""))
	s := must[Snapshot](t)(p.CreateSnapshot("s", v.ID))
	again, sAgain := must[Volume](t)(p.CreateVolume("v", MinSize, "")), must[Snapshot](t)(p.CreateSnapshot("s", v.ID))
	if again.ID != v.ID || sAgain.ID != s.ID || !sAgain.Created.Equal(s.Created) {
		t.Errorf("repeated calls return %+v and %+v", again, sAgain)
	}
	if _, err := p.CreateVolume("v", 2*MinSize, ""); !errors.Is(err, ErrConflict) {
		t.Errorf("another size: %v", err)
	}
	if _, err := p.CreateVolume("v", MinSize, s.ID); !errors.Is(err, ErrConflict) {
		t.Errorf("another source: %v", err)
	}
	if _, err := p.CreateSnapshot("s", other.ID); !errors.Is(err, ErrConflict) {
		t.Errorf("snapshot of another volume: %v", err)
	}
	for range 2 {
		if err := errors.Join(p.DeleteVolume(v.ID), p.DeleteSnapshot(s.ID)); err != nil {
			t.Error(err)
		}
	}
}

func TestPoolIsFull(t *testing.T) {
	p := newPool(t, 3*MinSize)
	v := must[Volume](t)(p.CreateVolume("v", MinSize, ""))
	s := must[Snapshot](t)(p.CreateSnapshot("s", v.ID))
	must[Snapshot](t)(p.CreateSnapshot("s2", v.ID))
	if _, err := p.CreateSnapshot("s3", v.ID); !errors.Is(err, ErrFull) {
		t.Errorf("snapshot: %v", err)
	}
	if _, err := p.CreateVolume("v2", MinSize, ""); !errors.Is(err, ErrFull) {
		t.Errorf("volume: %v", err)
	}
	if _, err := p.Expand(v.ID, 2*MinSize); !errors.Is(err, ErrFull) {
		t.Errorf("expanding: %v", err)
	}
	if err := p.DeleteSnapshot(s.ID); err != nil {
		t.Fatal(err)
	}
	if size, err := p.Expand(v.ID, 2*MinSize); err != nil || size != 2*MinSize {
		t.Errorf("expanding when there is room: %d, %v", size, err)
	}
	if size, err := p.Expand(v.ID, MinSize); err != nil || size != 2*MinSize {
		t.Errorf("expanding to less: %d, %v", size, err)
	}
	if free := must[int64](t)(p.Free()); free != 0 {
		t.Errorf("%d bytes are free", free)
	}
}

func TestVolumeInUseStays(t *testing.T) {
	p := newPool(t, 3*MinSize)
	v := must[Volume](t)(p.CreateVolume("v", MinSize, ""))
	use := func(nodes ...Attachment) {
		t.Helper()
		if err := p.Change(v.ID, func(v *Volume) error { v.Attached = nodes; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	use(Attachment{Node: "n"})
	if err := p.DeleteVolume(v.ID); !errors.Is(err, ErrInUse) {
		t.Errorf("deleting a volume in use: %v", err)
	}
	if _, err := p.Expand(v.ID, 2*MinSize); !errors.Is(err, ErrInUse) {
		t.Errorf("expanding a volume in use: %v", err)
	}
	use()
	if err := p.DeleteVolume(v.ID); err != nil {
		t.Error(err)
	}
}

func TestSourceIsLarger(t *testing.T) {
	p := newPool(t, 10*MinSize)
	v := must[Volume](t)(p.CreateVolume("v", 2*MinSize, ""))
	if _, err := p.CreateVolume("small", MinSize, v.ID); !errors.Is(err, ErrTooSmall) {
		t.Errorf("clone that is smaller: %v", err)
	}
}

func TestStrangeIDs(t *testing.T) {
	p := newPool(t, 10*MinSize)
	if err := os.WriteFile(filepath.Join(p.dir, record), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", ".", "..", "../volumes", "vol-", "vol-00", "/", id("vol", "unknown")} {
		if _, err := p.Volume(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("volume %q: %v", id, err)
		}
		if err := errors.Join(p.DeleteVolume(id), p.DeleteSnapshot(id)); err != nil {
			t.Errorf("deleting %q: %v", id, err)
		}
		if id == "" {
			continue // No source.
		}
		if _, err := p.CreateVolume("v", MinSize, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("source %q: %v", id, err)
		}
	}
}

func TestUnfinishedIsRemoved(t *testing.T) {
	p := newPool(t, 10*MinSize)
	v := must[Volume](t)(p.CreateVolume("v", MinSize, ""))
	left := filepath.Join(p.dir, volumes, unfinished+id("vol", "other"))
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	again := must[*Pool](t)(open(p.dir, p.capacity, p.clone))
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
	if _, err := again.Volume(v.ID); err != nil {
		t.Error(err)
	}
}

// TestGroup: all snapshots of a group are taken or none, a call is repeated, also one that was killed on its way.
func TestGroup(t *testing.T) {
	p := newPool(t, 5*MinSize)
	a, b := must[Volume](t)(p.CreateVolume("a", MinSize, "")), must[Volume](t)(p.CreateVolume("b", MinSize, ""))
	volumes := []string{a.ID, b.ID}
	if _, _, err := p.CreateGroup("g", []string{a.ID, "vol-none"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("with a volume that is not there: %v", err)
	}
	if left := must[[]Snapshot](t)(p.Snapshots()); len(left) > 0 {
		t.Errorf("it left %+v", left)
	}
	id, made, err := p.CreateGroup("g", volumes)
	if err != nil || len(made) != 2 || !made[0].Created.Equal(made[1].Created) {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, _, err := p.CreateGroup("h", volumes); !errors.Is(err, ErrFull) {
		t.Errorf("more than there is space for: %v", err)
	}
	if err := p.DeleteSnapshot(made[0].ID); err != nil {
		t.Fatal(err)
	}
	again, taken, err := p.CreateGroup("g", volumes)
	if err != nil || again != id || len(taken) != 2 {
		t.Errorf("%s, %+v, %v", again, taken, err)
	}
	if _, _, err := p.CreateGroup("g", volumes[:1]); !errors.Is(err, ErrConflict) {
		t.Errorf("with other volumes: %v", err)
	}
	if found := must[[]Snapshot](t)(p.Group(id)); len(found) != 2 || len(must[[]Snapshot](t)(p.Snapshots())) != 2 {
		t.Errorf("%+v", found)
	}
	if _, err := p.Group(""); !errors.Is(err, ErrNotFound) {
		t.Errorf("without a name: %v", err)
	}
}
