// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pool keeps volumes and snapshots as image files of one file system that can share extents between files. A
// snapshot is a clone of its volume's image, and a volume that is made from another one or from a snapshot is one, too.
//
// A Pool keeps nothing in memory: what is in its folder is all there is.
package pool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What callers tell apart.
var (
	ErrNotFound = errors.New("there is none")
	ErrConflict = errors.New("one of that name, but unlike it, exists")
	ErrInUse    = errors.New("it is in use")
	ErrFull     = errors.New("the pool is full")
	ErrTooSmall = errors.New("it is smaller than its source")
)

const (
	// Unit is what sizes are multiples of, in bytes.
	Unit = 1 << 20
	// MinSize is the size of the smallest volume, in bytes: one that a file system with a journal fits on.
	MinSize = 16 * Unit

	volumes, snapshots = "volumes", "snapshots"
	image, record      = "image", "record.json"
	// unfinished begins the names of folders that are being made or removed.
	unfinished = "."
)

// Volume is a block device's content.
type Volume struct {
	ID, Name string
	// Size is in bytes.
	Size int64
	// Source is the ID of the volume or of the snapshot that it was made from, or empty.
	Source string
	Content
	Created time.Time
	// Attached are the nodes that may use it, Staged and Published where they do.
	Attached          []Attachment
	Staged, Published []Place
}

// Content is what is known of an image's.
type Content struct {
	// Blank: nobody can have written to it yet.
	Blank bool
	// FileSystem is the size of the file system that the driver made, in bytes; 0: it made none.
	FileSystem int64
}

// Attachment lets a node use a volume.
type Attachment struct {
	Node     string
	ReadOnly bool
	// Shared: other nodes may have it at the same time.
	Shared bool
}

// Place is a path of a node.
type Place struct{ Node, Path string }

// Snapshot is the content that a volume had.
type Snapshot struct {
	ID, Name string
	// Volume is the ID of the volume, which may be gone.
	Volume string
	Size   int64
	Content
	Created time.Time
	// Group is the ID of the group that it was taken with; empty: with none.
	Group string
}

// Pool is a folder of volumes and snapshots. It is safe for concurrent use by one process.
type Pool struct {
	dir      string
	capacity int64
	clone    func(dst, src *os.File) error

	mu sync.Mutex
}

// Open opens the folder, which it makes if it has to, and removes what was not finished. Sizes of volumes and snapshots
// add up to no more than capacity.
func Open(dir string, capacity int64) (*Pool, error) {
	return open(dir, capacity, func(dst, src *os.File) error { return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) })
}

func open(dir string, capacity int64, clone func(dst, src *os.File) error) (*Pool, error) {
	for _, kind := range []string{volumes, snapshots} {
		path := filepath.Join(dir, kind)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("opening the pool: %w", err)
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("opening the pool: %w", err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), unfinished) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return nil, fmt.Errorf("removing what was not finished: %w", err)
			}
		}
	}
	return &Pool{dir: dir, capacity: capacity, clone: clone}, nil
}

// Image is the path of a volume's image file.
func (p *Pool) Image(id string) string { return filepath.Join(p.dir, volumes, id, image) }

// Round is the size that a volume of so many bytes gets.
func Round(size int64) int64 { return max((size+Unit-1)/Unit*Unit, MinSize) }

// CreateVolume makes a volume, or returns the one that an earlier call with the same arguments has made. Source is the
// ID of a volume or of a snapshot, or empty.
func (p *Pool) CreateVolume(name string, size int64, source string) (Volume, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := Volume{
		ID: id("vol", name), Name: name, Size: size, Source: source, Content: Content{Blank: true}, Created: time.Now(),
	}
	old, err := get[Volume](p, volumes, v.ID)
	switch {
	case err == nil && (old.Size != size || old.Source != source):
		return Volume{}, fmt.Errorf(
			"volume %q: %w: it has %d bytes and the source %q", name, ErrConflict, old.Size, old.Source,
		)
	case err == nil:
		return old, nil
	case !errors.Is(err, ErrNotFound):
		return Volume{}, err
	}
	var from string
	if source != "" {
		var least int64
		if from, least, v.Content, err = p.source(source); err != nil {
			return Volume{}, err
		}
		if size < least {
			return Volume{}, fmt.Errorf("volume %q of %d bytes: %w, which has %d", name, size, ErrTooSmall, least)
		}
	}
	if err := p.reserve(size); err != nil {
		return Volume{}, fmt.Errorf("volume %q: %w", name, err)
	}
	return v, p.add(volumes, v.ID, v, from, size)
}

// source finds what a volume is to be made from.
func (p *Pool) source(id string) (path string, size int64, content Content, err error) {
	if s, err := get[Snapshot](p, snapshots, id); !errors.Is(err, ErrNotFound) {
		return filepath.Join(p.dir, snapshots, id, image), s.Size, s.Content, err
	}
	v, err := get[Volume](p, volumes, id)
	return p.Image(id), v.Size, v.Content, err
}

// DeleteVolume removes a volume that nobody uses. One that is not there is removed already.
func (p *Pool) DeleteVolume(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := get[Volume](p, volumes, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unused(&v); err != nil {
		return err
	}
	return p.remove(volumes, id)
}

func unused(v *Volume) error {
	if len(v.Attached)+len(v.Staged)+len(v.Published) > 0 {
		return fmt.Errorf("volume %s: %w: %v, %v, %v", v.ID, ErrInUse, v.Attached, v.Staged, v.Published)
	}
	return nil
}

// Volume returns a volume.
func (p *Pool) Volume(id string) (Volume, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return get[Volume](p, volumes, id)
}

// Volumes returns all volumes in the order in which they were made.
func (p *Pool) Volumes() ([]Volume, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, err := all[Volume](p, volumes)
	slices.SortFunc(list, func(a, b Volume) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return list, err
}

// Change lets change use a volume and then keeps what that has made of the record, unless it fails. Nothing else of the
// pool happens meanwhile.
func (p *Pool) Change(id string, change func(*Volume) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := get[Volume](p, volumes, id)
	if err != nil {
		return err
	}
	if err := change(&v); err != nil {
		return err
	}
	return write(filepath.Join(p.dir, volumes, id), v)
}

// Expand makes the image of a volume that nobody uses at least so large, and returns its size.
func (p *Pool) Expand(id string, size int64) (int64, error) {
	err := p.Change(id, func(v *Volume) error {
		if size <= v.Size {
			size = v.Size
			return nil
		}
		if err := unused(v); err != nil {
			return err
		}
		if err := p.reserve(size - v.Size); err != nil {
			return fmt.Errorf("volume %s: %w", id, err)
		}
		if err := os.Truncate(p.Image(id), size); err != nil {
			return fmt.Errorf("expanding volume %s: %w", id, err)
		}
		v.Size = size
		return nil
	})
	return size, err
}

// CreateSnapshot takes a snapshot of a volume, in use or not, or returns the one that an earlier call with the same
// arguments has made. It has everything that was written to the device before, and nothing that was written after one
// moment of the call.
func (p *Pool) CreateSnapshot(name, volume string) (Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot(name, volume, "", time.Now())
}

// snapshot takes one, which may be of a group, and says that it is of a time.
func (p *Pool) snapshot(name, volume, group string, at time.Time) (Snapshot, error) {
	s := Snapshot{Group: group, Created: at, ID: id("snap", name), Name: name, Volume: volume}
	old, err := get[Snapshot](p, snapshots, s.ID)
	switch {
	case err == nil && old.Volume != volume:
		return Snapshot{}, fmt.Errorf("snapshot %q: %w: it is of volume %s", name, ErrConflict, old.Volume)
	case err == nil:
		return old, nil
	case !errors.Is(err, ErrNotFound):
		return Snapshot{}, err
	}
	v, err := get[Volume](p, volumes, volume)
	if err != nil {
		return Snapshot{}, err
	}
	if err := p.reserve(v.Size); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %q: %w", name, err)
	}
	s.Size, s.Content = v.Size, v.Content
	return s, p.add(snapshots, s.ID, s, p.Image(volume), v.Size)
}

// CreateGroup takes a snapshot of each volume, or returns those that an earlier call with the same arguments has taken.
// Whoever writes to the volumes must be held meanwhile, or they are of different moments. If one cannot be taken, none
// is.
func (p *Pool) CreateGroup(name string, volumes []string) (string, []Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	group := id("group", name)
	old, err := p.group(group)
	if err != nil {
		return "", nil, err
	}
	for _, s := range old {
		if !slices.Contains(volumes, s.Volume) || len(old) > len(volumes) {
			return "", nil, fmt.Errorf("group %q: %w: it has volume %s", name, ErrConflict, s.Volume)
		}
	}
	if len(old) == len(volumes) {
		return group, old, nil
	}
	// A process that was killed has left some.
	for _, s := range old {
		if err := p.remove(snapshots, s.ID); err != nil {
			return "", nil, err
		}
	}
	var made []Snapshot
	at := time.Now()
	for _, volume := range volumes {
		s, err := p.snapshot(name+"/"+volume, volume, group, at)
		if err != nil {
			for _, s := range made {
				err = errors.Join(err, p.remove(snapshots, s.ID))
			}
			return "", nil, err
		}
		made = append(made, s)
	}
	return group, made, nil
}

// Group returns the snapshots of a group.
func (p *Pool) Group(id string) ([]Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, err := p.group(id)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("group %q: %w", id, ErrNotFound)
	}
	return found, err
}

func (p *Pool) group(id string) ([]Snapshot, error) {
	list, err := all[Snapshot](p, snapshots)
	list = slices.DeleteFunc(list, func(s Snapshot) bool { return id == "" || s.Group != id })
	slices.SortFunc(list, func(a, b Snapshot) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

// DeleteSnapshot removes a snapshot. One that is not there is removed already.
func (p *Pool) DeleteSnapshot(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := get[Snapshot](p, snapshots, id); errors.Is(err, ErrNotFound) {
		return nil
	}
	return p.remove(snapshots, id)
}

// Snapshots returns all snapshots in the order in which they were made.
func (p *Pool) Snapshots() ([]Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, err := all[Snapshot](p, snapshots)
	slices.SortFunc(list, func(a, b Snapshot) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return list, err
}

// Free is how many bytes volumes and snapshots can still have.
func (p *Pool) Free() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free()
}

func (p *Pool) free() (int64, error) {
	vs, err1 := all[Volume](p, volumes)
	ss, err2 := all[Snapshot](p, snapshots)
	free := p.capacity
	for _, v := range vs {
		free -= v.Size
	}
	for _, s := range ss {
		free -= s.Size
	}
	return max(free, 0), errors.Join(err1, err2)
}

func (p *Pool) reserve(size int64) error {
	free, err := p.free()
	if err == nil && size > free {
		err = fmt.Errorf("%w: %d of %d bytes are left, not %d", ErrFull, free, p.capacity, size)
	}
	return err
}

// add makes the folder of a volume or of a snapshot with an image of the size, which begins with what is in from.
func (p *Pool) add(kind, id string, content any, from string, size int64) error {
	made := filepath.Join(p.dir, kind, unfinished+id)
	if err := os.RemoveAll(made); err != nil {
		return fmt.Errorf("making %s: %w", id, err)
	}
	if err := os.Mkdir(made, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", id, err)
	}
	err := p.makeImage(filepath.Join(made, image), from, size)
	if err == nil {
		err = write(made, content)
	}
	if err == nil {
		err = os.Rename(made, filepath.Join(p.dir, kind, id))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making %s: %w", id, err), os.RemoveAll(made))
	}
	return nil
}

func (p *Pool) makeImage(path, from string, size int64) error {
	dst, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	if from != "" {
		src, err := os.Open(from)
		if err != nil {
			return err
		}
		defer src.Close()
		if err := p.clone(dst, src); err != nil {
			return fmt.Errorf("cloning %s: %w", from, err)
		}
	}
	return dst.Truncate(size)
}

func (p *Pool) remove(kind, id string) error {
	path, away := filepath.Join(p.dir, kind, id), filepath.Join(p.dir, kind, unfinished+id)
	if err := os.Rename(path, away); err != nil {
		return fmt.Errorf("removing %s: %w", id, err)
	}
	if err := os.RemoveAll(away); err != nil {
		return fmt.Errorf("removing %s: %w", id, err)
	}
	return nil
}

// id is the same for the same name.
func id(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return kind + "-" + hex.EncodeToString(sum[:16])
}

// validID is what names a folder of the pool and nothing else.
var validID = regexp.MustCompile(`^(vol|snap)-[0-9a-f]{32}$`)

// get reads the record of a volume or of a snapshot.
func get[T any](p *Pool, kind, id string) (T, error) {
	var t T
	if !validID.MatchString(id) {
		return t, fmt.Errorf("%q of %s: %w", id, kind, ErrNotFound)
	}
	data, err := os.ReadFile(filepath.Join(p.dir, kind, id, record))
	if errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("%q of %s: %w", id, kind, ErrNotFound)
	}
	if err != nil {
		return t, fmt.Errorf("reading %s: %w", id, err)
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("reading %s: %w", id, err)
	}
	return t, nil
}

func all[T any](p *Pool, kind string) ([]T, error) {
	entries, err := os.ReadDir(filepath.Join(p.dir, kind))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind, err)
	}
	var list []T
	for _, e := range entries {
		if !validID.MatchString(e.Name()) {
			continue
		}
		t, err := get[T](p, kind, e.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

func write(dir string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, record)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	return nil
}
