// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/minio/minio-go/v7"
)

// List yields the objects whose names begin with a text, by key in the order of bytes; an empty one stands for all. It
// is a text and no directory: end it with a slash to have what is in one. After an error, nothing follows.
func (s *Store) List(ctx context.Context, begin string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		root := s.root()
		after, done := "", false
		for !done {
			before := after
			_, err := s.do(ctx, call{}, operation{"list", begin}, func(ctx context.Context, c *call) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				owner := false
				for info := range s.core.ListObjectsIter(ctx, s.options.Bucket, minio.ListObjectsOptions{
					Prefix: root + begin, Recursive: true, StartAfter: after, FetchOwner: &owner,
				}) {
					if info.Err != nil {
						return info.Err
					}
					if info.Key <= after || !strings.HasPrefix(info.Key, root+begin) || info.Size < 0 {
						return ErrNotS3 // it would be listed for ever, or is none of ours
					}
					after, c.requests = info.Key, 0
					done = !yield(Object{
						Name: strings.TrimPrefix(info.Key, root), Size: info.Size, ETag: info.ETag, Modified: info.LastModified,
					}, nil)
					if done {
						return nil
					}
				}
				if ctx.Err() != nil {
					return context.Cause(ctx) // the iterator ends without saying so
				}
				done = true
				return nil
			})
			if err != nil && (after == before || !retryable(err)) {
				yield(Object{}, err)
				return
			}
		}
	}
}

// retryable reports whether a server may do better the next time.
func retryable(err error) bool { return errors.Is(err, ErrUnavailable) }

// root is the prefix with its slash.
func (s *Store) root() string {
	if s.options.Prefix == "" {
		return ""
	}
	return s.options.Prefix + "/"
}

// Uploads yields the uploads under way whose names begin with a text, in no certain order. After an error, nothing
// follows.
func (s *Store) Uploads(ctx context.Context, begin string) iter.Seq2[Upload, error] {
	return func(yield func(Upload, error) bool) {
		const page = 1000
		root := s.root()
		var key, id string
		for {
			var result minio.ListMultipartUploadsResult
			_, err := s.do(ctx, call{}, operation{"list uploads of", begin}, func(ctx context.Context, _ *call) error {
				var err error
				result, err = s.core.ListMultipartUploads(ctx, s.options.Bucket, root+begin, key, id, "", page)
				if err == nil && result.IsTruncated && (result.NextKeyMarker < key ||
					result.NextKeyMarker == key && result.NextUploadIDMarker == id) {
					err = ErrNotS3 // it would be listed for ever
				}
				return err
			})
			if err != nil {
				yield(Upload{}, err)
				return
			}
			for _, u := range result.Uploads {
				if !strings.HasPrefix(u.Key, root+begin) {
					continue // there are servers that take the prefix for that of a directory
				}
				if !yield(Upload{Name: strings.TrimPrefix(u.Key, root), ID: u.UploadID, Started: u.Initiated}, nil) {
					return
				}
			}
			if !result.IsTruncated {
				return
			}
			key, id = result.NextKeyMarker, result.NextUploadIDMarker
		}
	}
}
