// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// Get returns length bytes of an object from offset on, at least one. A reader that loses its connection goes on where
// it was, as often in a row without progress as requests are tried. With an ETag the object must have it, and without
// one that of the first answer: ErrChanged otherwise. The reader has exactly length bytes, or returns an error.
func (s *Store) Get(ctx context.Context, name, etag string, offset, length int64) (Content, error) {
	key, err := s.key(name)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 1 || offset+length < offset {
		return nil, fmt.Errorf("get %q: %w: there are no %d bytes at %d", shorten(name), ErrInvalid, length, offset)
	}
	r := &Reader{store: s, ctx: ctx, name: name, key: key, etag: etag, offset: offset, left: length}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// Content is a part of an object that is read. Close gives up the rest.
type Content interface {
	io.ReadCloser
	// ETag of what is read, without quotes.
	ETag() string
	// Metadata of what is read, as that of Head.
	Metadata() map[string]string
}

// Reader is the rest of what is read of an object.
type Reader struct {
	store           *Store
	ctx             context.Context //nolint:containedctx // It is that of Get, which returns the reader.
	name, key, etag string
	offset, left    int64
	metadata        map[string]string
	// body is nil after its connection was lost. broken counts how often that was, since the last byte.
	body   io.ReadCloser
	broken int
}

// open asks for the rest.
func (r *Reader) open() error {
	s := r.store
	options := minio.GetObjectOptions{}
	if err := options.SetRange(r.offset, r.offset+r.left-1); err != nil {
		return fmt.Errorf("get %q: %w", shorten(r.name), err)
	}
	if r.etag != "" {
		if err := options.SetMatchETag(r.etag); err != nil {
			return fmt.Errorf("get %q: %w", shorten(r.name), err)
		}
	}
	_, err := s.do(r.ctx, call{object: true}, operation{"get", r.name}, func(ctx context.Context, c *call) error {
		body, info, header, err := s.core.GetObject(ctx, s.options.Bucket, r.key, options)
		if err != nil {
			if c.status == http.StatusPreconditionFailed {
				return ErrChanged
			}
			return err
		}
		if err := r.check(info, header); err != nil {
			_ = body.Close() // the error says what is wrong with it
			return err
		}
		r.body, r.etag, r.metadata = body, info.ETag, metadata(info)
		return nil
	})
	return err
}

// check compares an answer with what was asked for.
func (r *Reader) check(info minio.ObjectInfo, header http.Header) error {
	var first, last, total int64
	n, err := fmt.Sscanf(header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total)
	switch {
	case info.ETag == "" || err != nil || n != 3:
		return ErrNotS3
	case r.etag != "" && info.ETag != r.etag:
		return ErrChanged
	case first != r.offset || last != r.offset+r.left-1:
		if total < r.offset+r.left {
			return ErrChanged // it is shorter than what was asked for
		}
		return ErrNotS3
	}
	return nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		if r.left == 0 {
			return 0, io.EOF
		}
		if r.body == nil {
			if err := r.open(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
		r.offset, r.left = r.offset+int64(n), r.left-int64(n)
		if n > 0 {
			r.broken = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		if err := r.lost(err); err != nil {
			return 0, err
		}
	}
}

// lost prepares for going on after a connection was lost in the middle, unless that has been so too often.
func (r *Reader) lost(err error) error {
	_ = r.Close() // its connection is broken
	r.body = nil
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	err = r.store.explain(r.ctx, &call{network: err}, operation{"get", r.name}, err)
	if r.broken++; r.broken >= r.store.options.Retry.Tries || !errors.Is(err, ErrUnavailable) {
		return err
	}
	if sleep(r.ctx, r.store.options.Retry.wait(r.broken, nil)) != nil {
		return err
	}
	return nil
}

// ETag of what is read, without quotes.
func (r *Reader) ETag() string { return r.etag }

// Metadata of what is read, as that of Head.
func (r *Reader) Metadata() map[string]string { return r.metadata }

// Close gives up the rest.
func (r *Reader) Close() error {
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}
