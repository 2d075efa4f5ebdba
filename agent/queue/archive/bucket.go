// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/lighterage/lighterage/agent/objectstore"
)

// storeRangeBytes is the length of messages from which a range of an object store is closed at the latest. A range is
// held in memory until it is put, with one request: there is no upload that an end could leave behind.
const storeRangeBytes = 8 << 20

// maxObject bounds what is held in memory for one object: a range with one message more, whose lines may be longer than
// what they are of, or an index.
const maxObject = 4*storeRangeBytes + 2*maxLine

// bucket is an archive in an object store.
type bucket struct {
	// ctx bounds the requests.
	ctx   context.Context //nolint:containedctx // It is that of who opens the archive.
	store *objectstore.Store
	// below is what names of the archive begin with, with its slash.
	below string
}

func newBucket(ctx context.Context, store *objectstore.Store, below, name string) *bucket {
	path := name + "/"
	if below = strings.Trim(below, "/"); below != "" {
		path = below + "/" + path
	}
	return &bucket{ctx: ctx, store: store, below: path}
}

func (b *bucket) list(yield func(file) bool) error {
	for object, err := range b.store.List(b.ctx, b.below) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(object.Name, b.below)
		if strings.Contains(name, "/") {
			continue // It is in a directory below, which no archive has.
		}
		if !yield(file{name: name, size: object.Size, modified: object.Modified}) {
			return nil
		}
	}
	return nil
}

func (b *bucket) open(name string) (io.ReadCloser, error) {
	object, err := b.store.Head(b.ctx, b.below+name)
	if err != nil {
		return nil, absentObject(err)
	}
	if object.Size == 0 {
		return nil, damaged("it is empty")
	}
	r, err := b.store.Get(b.ctx, b.below+name, object.ETag, 0, object.Size)
	if err != nil {
		return nil, absentObject(err)
	}
	return r, nil
}

func (b *bucket) part(name string) (part, error) {
	o, err := b.store.Head(b.ctx, b.below+name)
	if err != nil {
		return nil, absentObject(err)
	}
	return &objectPart{bucket: b, object: o}, nil
}

// objectPart is an object of which parts are got.
type objectPart struct {
	bucket *bucket
	object objectstore.Object
}

func (p *objectPart) size() int64 { return p.object.Size }

func (p *objectPart) Close() error { return nil }

// OpenRange implements cargo.RangeOpener: one request.
func (p *objectPart) OpenRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	r, err := p.bucket.store.Get(ctx, p.object.Name, p.object.ETag, offset, length)
	if err != nil {
		return nil, absentObject(err)
	}
	return r, nil
}

// ReadAt implements io.ReaderAt by a request for each call.
func (p *objectPart) ReadAt(b []byte, offset int64) (int, error) {
	n := min(int64(len(b)), max(p.object.Size-offset, 0))
	if n > 0 {
		r, err := p.OpenRange(p.bucket.ctx, offset, n)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		if read, err := io.ReadFull(r, b[:n]); err != nil {
			return read, err
		}
	}
	if n < int64(len(b)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (b *bucket) stat(name string) (file, error) {
	object, err := b.store.Head(b.ctx, b.below+name)
	if err != nil {
		return file{}, absentObject(err)
	}
	return file{name: name, size: object.Size, modified: object.Modified}, nil
}

func (b *bucket) create(string) (draft, error) { return &object{bucket: b}, nil }

func (b *bucket) remove(name string) error { return b.store.Delete(b.ctx, b.below+name) }

func (b *bucket) Close() error { return nil }

// object is one that was not put yet.
type object struct {
	bucket *bucket
	buffer bytes.Buffer
}

func (o *object) Write(p []byte) (int, error) {
	if o.buffer.Len()+len(p) > maxObject {
		return 0, fmt.Errorf("a file of an archive would exceed %d bytes", int64(maxObject))
	}
	return o.buffer.Write(p)
}

// commit puts the object. A range, and the index beside it, is never overwritten. That there is one of its name is
// objectstore.ErrExists.
func (o *object) commit(name string) error {
	content := o.buffer.Bytes()
	_, err := o.bucket.store.Put(
		o.bucket.ctx, o.bucket.below+name, bytes.NewReader(content), int64(len(content)),
		objectstore.PutOptions{IfAbsent: name != indexName},
	)
	return err
}

func (o *object) abandon() error {
	o.buffer = bytes.Buffer{}
	return nil
}

// absentObject has an object that is not there match fs.ErrNotExist, as a file does.
func absentObject(err error) error {
	if errors.Is(err, objectstore.ErrNotFound) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
