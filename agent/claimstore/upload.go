// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstore

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
)

const (
	partsSuffix = ".parts"
	// maxLines bounds the lines of a note on an upload: each part may have been put some times.
	maxLines = 4 * objectstore.MaxParts
	// maxNote is the longest note that is read, in bytes.
	maxNote = 2*objectstore.MaxKey + maxLines*64
)

// idPattern is what rand.Text returns.
var idPattern = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// placed is a part and where it begins.
type placed struct {
	objectstore.Part
	offset int64
}

func dataOf(id string) string { return writing + "/" + id }
func noteOf(id string) string { return dataOf(id) + partsSuffix }

// Create starts an upload of an object. Metadata are not kept.
func (s *Store) Create(_ context.Context, name string, _ map[string]string) (objectstore.Upload, error) {
	u := objectstore.Upload{Name: name, ID: rand.Text(), Token: rand.Text()}
	if err := s.Check(name); err != nil {
		return u, err
	}
	for of, content := range map[string]string{dataOf(u.ID): "", noteOf(u.ID): name + "\n"} {
		f, err := s.create(of)
		if err != nil {
			return u, err
		}
		if _, err := f.WriteString(content); err != nil {
			return u, errors.Join(tree.WriteError("write", of, err), f.Close())
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return u, tree.WriteError("sync", of, err)
		}
	}
	return u, s.syncAbove(dataOf(u.ID))
}

// PutPart writes a part of size bytes to its place in the object, and replaces the one of that number. It is safe when
// PutPart returns. Its ETag is a checksum, and no MD5.
func (s *Store) PutPart(
	ctx context.Context, u objectstore.Upload, number int, offset int64, body io.ReaderAt, size int64,
) (objectstore.Part, error) {
	part := placed{objectstore.Part{Number: number, Size: size}, offset}
	if number < 1 || number > objectstore.MaxParts || size < 0 || size > objectstore.MaxPut || offset < 0 {
		return part.Part, fmt.Errorf("put part %d of %d bytes at %d: %w", number, size, offset, objectstore.ErrInvalid)
	}
	if !idPattern.MatchString(u.ID) {
		return part.Part, noUpload(u.ID)
	}
	f, _, err := s.regular(dataOf(u.ID), os.O_RDWR)
	if err != nil {
		return part.Part, lost(err)
	}
	defer f.Close()
	sum, err := fill(ctx, f, offset, body, size)
	if err != nil {
		return part.Part, err
	}
	if err := f.Sync(); err != nil {
		return part.Part, tree.WriteError("sync", u.Name, err)
	}
	part.ETag = etagOf(sum)
	return part.Part, s.note(u, part)
}

func etagOf(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// note adds a part to an upload's note. What is left of a line that an end has cut ends with the new one's beginning.
func (s *Store) note(u objectstore.Upload, p placed) error {
	f, _, err := s.regular(noteOf(u.ID), os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return lost(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "\n%d %d %d %s\n", p.Number, p.offset, p.Size, p.ETag); err != nil {
		return tree.WriteError("write the note on", u.Name, err)
	}
	if err := f.Sync(); err != nil {
		return tree.WriteError("sync the note on", u.Name, err)
	}
	return nil
}

func noUpload(id string) error {
	return fmt.Errorf("look for the upload %q: %w", failure.Shorten(id, 64), objectstore.ErrNoUpload)
}

// lost is the error of an upload that somebody has removed.
func lost(err error) error {
	if errors.Is(err, objectstore.ErrNotFound) {
		return fmt.Errorf("%w (%w)", objectstore.ErrNoUpload, err)
	}
	return err
}

// read reads the note on an upload: the name of its object, and the parts from the first one on that follow each other.
func (s *Store) read(id string) (name string, parts []placed, err error) {
	if !idPattern.MatchString(id) {
		return "", nil, noUpload(id)
	}
	f, info, err := s.regular(noteOf(id), os.O_RDONLY)
	if err != nil {
		return "", nil, lost(err)
	}
	defer f.Close()
	if info.Size() > maxNote {
		return "", nil, noUpload(id)
	}
	name, all := parseNote(io.LimitReader(f, maxNote))
	if s.Check(name) != nil {
		return "", nil, noUpload(id)
	}
	var end int64
	for {
		part, ok := all[len(parts)+1]
		if !ok || part.offset != end {
			return name, parts, nil
		}
		parts, end = append(parts, part), end+part.Size
	}
}

// parseNote returns the name and the parts that a note has, by number: the last ones of each.
func parseNote(note io.Reader) (name string, all map[int]placed) {
	lines := bufio.NewScanner(note)
	if lines.Scan() {
		name = lines.Text()
	}
	all = make(map[int]placed)
	for range maxLines {
		if !lines.Scan() {
			break
		}
		var p placed
		n, err := fmt.Sscanf(lines.Text(), "%d %d %d %16s", &p.Number, &p.offset, &p.Size, &p.ETag)
		if n == 4 && err == nil && len(p.ETag) == 16 && p.Number >= 1 && p.Number <= objectstore.MaxParts &&
			p.Size >= 0 && p.Size <= objectstore.MaxPut {
			all[p.Number] = p
		}
	}
	return name, all
}

// Parts are those of an upload that are as they were put, for which they are read: objectstore.ErrNoUpload if there is
// no such upload.
func (s *Store) Parts(ctx context.Context, u objectstore.Upload) ([]objectstore.Part, error) {
	name, noted, err := s.read(u.ID)
	if err != nil {
		return nil, err
	}
	if name != u.Name {
		return nil, noUpload(u.ID)
	}
	f, _, err := s.regular(dataOf(u.ID), os.O_RDONLY)
	if err != nil {
		return nil, lost(err)
	}
	defer f.Close()
	var parts []objectstore.Part
	for _, p := range noted {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		sum := xxh3.New()
		n, err := io.Copy(sum, io.NewSectionReader(f, p.offset, p.Size))
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", dataOf(u.ID), err)
		}
		if n != p.Size || etagOf(sum.Sum64()) != p.ETag {
			break
		}
		parts = append(parts, p.Part)
	}
	return parts, nil
}

// Complete makes the object of its parts, which are all that follow each other from the first one on, and returns its
// ETag. objectstore.ErrInvalid: they do not, or have other ETags.
func (s *Store) Complete(
	_ context.Context, u objectstore.Upload, parts []objectstore.Part, ifAbsent bool,
) (string, error) {
	name, noted, err := s.read(u.ID)
	if err != nil {
		return "", err
	}
	if name != u.Name {
		return "", noUpload(u.ID)
	}
	var size int64
	for i, part := range parts {
		if i >= len(noted) || noted[i].Part != part {
			return "", fmt.Errorf("complete the upload of %q without part %d: %w", name, i+1, objectstore.ErrInvalid)
		}
		size += part.Size
	}
	f, _, err := s.regular(dataOf(u.ID), os.O_RDWR)
	if err != nil {
		return "", lost(err)
	}
	defer f.Close()
	// An earlier attempt may have written more.
	if err := f.Truncate(size); err != nil {
		return "", tree.WriteError("truncate", name, err)
	}
	etag, err := s.name(f, name, ifAbsent)
	if err != nil {
		return "", err
	}
	return etag, s.forget(noteOf(u.ID))
}

// Abort ends an upload and removes its parts. It is no error if there is no such upload.
func (s *Store) Abort(_ context.Context, u objectstore.Upload) error {
	if !idPattern.MatchString(u.ID) {
		return nil
	}
	return errors.Join(s.forget(dataOf(u.ID)), s.forget(noteOf(u.ID)))
}

// Uploads yields the uploads whose names begin with a text, and without a name what is left of others, and of objects
// that never got theirs.
func (s *Store) Uploads(ctx context.Context, begin string) iter.Seq2[objectstore.Upload, error] {
	return func(yield func(objectstore.Upload, error) bool) {
		entries, err := s.names(writing)
		if err != nil {
			yield(objectstore.Upload{}, err)
			return
		}
		seen := make(map[string]bool)
		for _, e := range entries {
			id := strings.TrimSuffix(e.Name(), partsSuffix)
			if seen[id] || !idPattern.MatchString(id) {
				continue
			}
			seen[id] = true
			if ctx.Err() != nil {
				yield(objectstore.Upload{}, context.Cause(ctx))
				return
			}
			name, _, err := s.read(id)
			switch {
			case err != nil && !errors.Is(err, objectstore.ErrNoUpload):
				yield(objectstore.Upload{}, err)
				return
			case name != "" && !strings.HasPrefix(name, begin):
				continue
			}
			if !yield(objectstore.Upload{Name: name, ID: id}, nil) {
				return
			}
		}
	}
}
