// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"io"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
)

// resting compares what rests of a file in a form with its index.
func (s *scrubbing) resting(
	ctx context.Context, f *scrub.Findings, at *found, form cargo.Form,
) (what string, err error) {
	r := at.record
	object, err := s.store.Head(ctx, form.Name(at.path))
	if errors.Is(err, objectstore.ErrNotFound) {
		return tree.OmittedMissing, nil
	}
	if err != nil {
		return "", err
	}
	ours := object.Metadata[restsKey] != ""
	switch {
	case object.ETag == r.etag && object.Size != r.stored, cut(object.Metadata, object.Size):
		return scrub.Damaged, nil
	case object.ETag != r.etag && !ours:
		return scrub.ObjectReplaced, nil
	}
	index, what, err := s.index(ctx, form.IndexPath(at.path), form, object.Size)
	if err != nil {
		return changing(err)
	}
	if what != "" {
		return what, nil
	}
	if object.ETag == r.etag && index.Size() != r.entry.Size {
		return scrub.IndexInvalid, nil
	}
	f.Read(object.Size)
	file := objectFile{ctx, s.store, form.Name(at.path), object.ETag}
	what, err = scrub.Resting(ctx, s.options, file, object.Size, index, io.Discard)
	if err != nil {
		return changing(err)
	}
	return what, nil
}
