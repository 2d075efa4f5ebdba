// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"slices"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// imageNames are the objects that an image has in a form; 0: as it is.
func imageNames(form cargo.Form) []string {
	if form == 0 {
		return []string{tree.ImageName}
	}
	return []string{form.Name(tree.ImageName), form.IndexPath(tree.ImageName)}
}

// ofImage reports whether an object is an image in some form, or its index.
func ofImage(name string) bool {
	return slices.ContainsFunc([]cargo.Form{0, cargo.Gzip, cargo.Zstd}, func(form cargo.Form) bool {
		return slices.Contains(imageNames(form), name)
	})
}

// checkImage rejects a prefix that holds something else than an image: nobody could restore that into a block volume.
// It returns the objects of the image in other forms, which are to go when it is there in this one.
func (w *writing) checkImage(ctx context.Context) (former []string, err error) {
	if w.archives.any() {
		return nil, notAlone(archivesName)
	}
	index, err := openIndex(ctx, w.options.Store)
	if errors.Is(err, errIndex) {
		index, err = &indexReader{}, nil // Without archives nothing but objects has content, and the list has these.
	}
	if err != nil {
		return nil, err
	}
	there, err := newBoth(ctx, w.lister(), index, isDamaged)
	if err != nil {
		return nil, err
	}
	defer func() { _ = there.close() }() // It was only read.
	own := imageNames(w.form())
	for f := there.peek(); f != nil; f = there.peek() {
		if err := there.advance(); err != nil {
			return nil, err
		}
		switch {
		case f.path == tree.Root, f.listed == nil && !f.onlyIndexed():
		case !ofImage(f.path) || f.below():
			return nil, notAlone(f.path)
		case f.object() != nil && f.path != tree.ImageName && !slices.Contains(own, f.path):
			former = append(former, f.path)
		}
		// One under the plain name in the place of one in a form is displaced by that.
	}
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
		if name := form.Name(tree.ImageName); slices.Contains(former, name) {
			ours, err := w.ownImage(ctx, name)
			if err != nil {
				return nil, err
			}
			if !ours || !slices.Contains(former, form.IndexPath(tree.ImageName)) {
				return nil, notAlone(name)
			}
		}
	}
	return former, nil
}

// onlyIndexed reports whether the index alone has the content of an entry: no object is missing if none is listed.
func (f *found) onlyIndexed() bool { return f.record != nil && f.record.entry.Type == tree.Symlink }

// ownImage reports whether a Transfer put what an image is in a form. Who else did may need it.
func (w *writing) ownImage(ctx context.Context, name string) (bool, error) {
	object, err := w.options.Store.Head(ctx, name)
	if errors.Is(err, objectstore.ErrNotFound) {
		return true, nil // There is nothing to lose any more.
	}
	return object.Metadata[restsKey] != "", err
}

// notAlone is the failure for what an image has no place beside.
func notAlone(path string) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
		"the prefix holds %q, and a block volume needs one of its own, so nothing was written: set "+
			"spec.destination.objectStore.path to one that nothing else is written to; if nobody needs what is there, remove "+
			"all of it, %s included", failure.Shorten(path, 256), Reserved)
}

// removeFormer removes what an image was in other forms.
func (w *writing) removeFormer(ctx context.Context, former []string) error {
	for _, name := range former {
		if err := w.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// ImageSource is a bucket with the image of a block volume, as the tree of that volume. It is safe for concurrent use,
// but for walks.
type ImageSource struct{ source *Source }

// NewImageSource returns the block volume that a source without a filter has the image of.
func NewImageSource(s *Source) *ImageSource { return &ImageSource{s} }

// device is the entry of the block volume that an image is of.
func device(image *tree.Entry) *tree.Entry {
	e := *image
	e.Path, e.Sparse, e.Xattrs = tree.DeviceName, true, ""
	return &e
}

// image is the entry of the image that a block volume is of.
func image(device *tree.Entry) *tree.Entry {
	e := *device
	e.Path = tree.ImageName
	return &e
}

// Walk visits the root and the device. It fails if there is something else than an image.
func (s *ImageSource) Walk(ctx context.Context, visit func(*tree.Entry) error) error {
	return walkImage(ctx, s.source.Walk, visit)
}

// WalkAgain is Walk.
func (s *ImageSource) WalkAgain(ctx context.Context, visit func(*tree.Entry) error) error {
	return walkImage(ctx, s.source.WalkAgain, visit)
}

func walkImage(
	ctx context.Context, walk func(context.Context, func(*tree.Entry) error) error, visit func(*tree.Entry) error,
) error {
	const fix = "use a destination claim with volumeMode: Filesystem, or set spec.source.objectStore.path to what a " +
		"Transfer of a block volume wrote"
	var found *tree.Entry
	err := walk(ctx, func(e *tree.Entry) error {
		switch {
		case e.Path == tree.Root:
			return nil
		case e.Path == tree.ImageName && e.Size == 0 && e.Type == tree.File:
			return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
				"%s in the bucket is empty, so nothing was written: put the image again", tree.ImageName)
		case e.Path == tree.ImageName && e.Type == tree.File && (e.Place == nil || e.Form != 0):
			found = device(e)
			return nil
		case e.Type == tree.File && ofImage(e.Path):
			return nil // It is of a run in another form, which did not end.
		}
		return failure.New(wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
			"the bucket holds %q, which no image of a block volume has beside it, and the destination claim has volumeMode: "+
				"Block, so nothing was written: %s", failure.Shorten(e.Path, 256), fix)
	})
	switch {
	case err != nil:
		return err
	case found == nil:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
			"the bucket has no %s below the prefix, and the destination claim has volumeMode: Block, so nothing was "+
				"written: %s", tree.ImageName, fix)
	}
	if err := visit(&tree.Entry{Path: tree.Root, Type: tree.Directory, Mode: 0o700}); err != nil {
		return err
	}
	return visit(found)
}

// Again returns the image if it is still the same one, and fails otherwise: a device is written in its place, so that
// it may have parts of the former image, also beyond the end of this one. The next attempt compares before it writes.
func (s *ImageSource) Again(e *tree.Entry) (*tree.Entry, error) {
	now, err := s.source.Again(image(e))
	if err == nil && now.Changed == e.Changed {
		return device(now), nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
			"%s in the bucket was replaced or removed while it was read, so the destination is partly of that image: let no "+
				"Transfer write to spec.source.objectStore.path during a restore; the next attempt restores the image that is "+
				"there then", tree.ImageName)
	}
	return nil, err
}

// ReadAt fills p with the bytes from offset on. See Source.ReadAt.
func (s *ImageSource) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	return s.source.ReadAt(image(e), p, offset)
}

// Digest returns size and SHA-256 of the image.
func (s *ImageSource) Digest(e *tree.Entry, alive func() error) (size int64, sum [sha256.Size]byte, err error) {
	return s.source.Digest(image(e), alive)
}

// Omissions returns what walks left out.
func (s *ImageSource) Omissions() *tree.Omissions { return s.source.Omissions() }
