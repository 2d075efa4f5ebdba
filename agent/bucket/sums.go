// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
)

const (
	// sumsName is the object with the SHA-256 of each encrypted object as it rests, by which who has no identity
	// verifies it. It is a file of sha256sum.
	sumsName = Reserved + "/SHA256SUMS"
	// nextSums has what sumsName is to have as soon as the index that a run writes has taken the place of the one before.
	// An attempt that ends in between leaves it.
	nextSums = sumsName + ".next"
	// maxSums bounds it in bytes: two lines of 140 bytes for each archive.
	maxSums = 2*140*maxArchives + 1024
)

// sums are those of objects, by their names below Reserved.
type sums map[string][sha256.Size]byte

// errSums says that sumsName cannot be used.
var errSums = errors.New(sumsName + " is damaged")

// readSums reads sumsName or nextSums. Without an object they are nil.
func readSums(ctx context.Context, store Store, name string) (sums, error) {
	object, err := store.Head(ctx, name)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if object.Size < 1 || object.Size > maxSums {
		return nil, fmt.Errorf("%w: it has %d bytes", errSums, object.Size)
	}
	r, err := store.Get(ctx, name, object.ETag, 0, object.Size)
	if err != nil {
		return nil, err
	}
	content := make([]byte, object.Size)
	_, err = io.ReadFull(r, content)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	return parseSums(content)
}

// allSums reads those of all archives that an index may name, for who writes. What is damaged is left out.
func allSums(ctx context.Context, store Store) (sums, error) {
	all := make(sums)
	for _, name := range []string{nextSums, sumsName} {
		some, err := readSums(ctx, store, name)
		if err != nil && !errors.Is(err, errSums) {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// parseSums takes lines of a digest, two spaces and a name.
func parseSums(content []byte) (sums, error) {
	all := make(sums)
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		digest, name, ok := strings.Cut(lines.Text(), "  ")
		var sum [sha256.Size]byte
		_, twice := all[name]
		if n, err := hex.Decode(sum[:], cutTo(digest, hex.EncodedLen(len(sum)))); !ok || twice || err != nil ||
			n != len(sum) || len(digest) != hex.EncodedLen(len(sum)) || !summed(name) {
			return nil, fmt.Errorf("%w: line %d is none", errSums, len(all)+1)
		}
		all[name] = sum
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errSums, err)
	}
	return all, nil
}

func cutTo(text string, most int) []byte { return []byte(text[:min(len(text), most)]) }

// summed reports whether an object can have a sum.
func summed(name string) bool {
	if Reserved+"/"+name == IndexName {
		return true
	}
	archive, ok := strings.CutPrefix(Reserved+"/"+name, archivesName)
	if index, isIndex := strings.CutSuffix(archive, cargo.IndexSuffix); isIndex {
		archive, ok = strings.CutPrefix(index, ".")
	}
	_, isArchive := archiveForm(archive)
	return ok && isArchive && sealedArchive(archive)
}

// set takes the sum of an object.
func (s sums) set(object string, sum []byte) {
	if len(sum) == sha256.Size {
		s[strings.TrimPrefix(object, Reserved+"/")] = [sha256.Size]byte(sum)
	}
}

// of returns the sum of an object; nil if there is none.
func (s sums) of(object string) []byte {
	if sum, ok := s[strings.TrimPrefix(object, Reserved+"/")]; ok {
		return sum[:]
	}
	return nil
}

// sumOf reads an object of so many bytes as it rests, and returns its SHA-256.
func sumOf(ctx context.Context, store Store, name, etag string, size int64) ([]byte, error) {
	r, err := store.Get(ctx, name, etag, 0, size)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // It was only read.
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	return sum.Sum(nil), nil
}

// replace has complete put an index, and puts the sums of that and of the archives that it names: under nextSums before
// it, so that there are those of either index at any time.
func (s sums) replace(
	ctx context.Context, store Store, index []byte, used map[string]bool, complete func() error,
) error {
	content := s.lines(index, used)
	put := func(name string) error {
		_, err := store.Put(ctx, name, bytesAt(content), int64(len(content)), objectstore.PutOptions{})
		return err
	}
	if err := put(nextSums); err != nil {
		return err
	}
	if err := complete(); err != nil {
		return err
	}
	if err := put(sumsName); err != nil {
		return err
	}
	return store.Delete(ctx, nextSums)
}

// lines are those of the index and of the archives that it names.
func (s sums) lines(index []byte, used map[string]bool) []byte {
	var b bytes.Buffer
	kept := make(sums)
	kept.set(IndexName, index)
	for archive := range used {
		for _, object := range []string{archivesName + archive, archiveIndex(archive)} {
			kept.set(object, s.of(object))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		sum := kept[name]
		fmt.Fprintf(&b, "%x  %s\n", sum, name)
	}
	return b.Bytes()
}
