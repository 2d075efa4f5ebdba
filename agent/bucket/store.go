// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"io"
	"iter"

	"github.com/lighterage/lighterage/agent/objectstore"
)

// Store has the objects below a prefix. It is an objectstore.Store, whose methods say what these do, or for archives a
// directory of a claim: see package claimstore. Its errors match those of objectstore.
type Store interface {
	Check(name string) error
	Put(ctx context.Context, name string, body io.ReaderAt, size int64, o objectstore.PutOptions) (etag string, err error)
	Head(ctx context.Context, name string) (objectstore.Object, error)
	Get(ctx context.Context, name, etag string, offset, length int64) (objectstore.Content, error)
	Delete(ctx context.Context, name string) error
	List(ctx context.Context, begin string) iter.Seq2[objectstore.Object, error]
	Directory(ctx context.Context, path string) ([]objectstore.Child, error)

	Create(ctx context.Context, name string, metadata map[string]string) (objectstore.Upload, error)
	PutPart(
		ctx context.Context, u objectstore.Upload, number int, offset int64, body io.ReaderAt, size int64,
	) (objectstore.Part, error)
	Parts(ctx context.Context, u objectstore.Upload) ([]objectstore.Part, error)
	Complete(ctx context.Context, u objectstore.Upload, parts []objectstore.Part, ifAbsent bool) (etag string, err error)
	Abort(ctx context.Context, u objectstore.Upload) error
	Uploads(ctx context.Context, begin string) iter.Seq2[objectstore.Upload, error]
}
