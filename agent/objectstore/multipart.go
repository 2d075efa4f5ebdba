// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// MaxParts is how many parts an upload may have.
	MaxParts = 10_000
	// MinPart is the fewest bytes of a part that is not the last.
	MinPart = 5 << 20
)

// Upload is a multipart upload, as a journal keeps it.
type Upload struct {
	Name, ID string
	// Token is in the object's metadata and tells it from others' objects of that name. One from a list has none.
	Token string
	// Retried: Create was tried more than once, and an upload may be left whose answer was lost.
	Retried bool
	// Started is zero but for one from a list.
	Started time.Time
}

// Part of an upload.
type Part struct {
	// Number is 1 to MaxParts.
	Number int
	Size   int64
	// ETag without quotes.
	ETag string
}

// Create starts an upload of an object with metadata as those of PutOptions. When its answer is lost an upload is left
// that only Uploads finds: see Upload.Retried.
func (s *Store) Create(ctx context.Context, name string, metadata map[string]string) (Upload, error) {
	key, err := s.key(name)
	if err != nil {
		return Upload{}, err
	}
	u := Upload{Name: name, Token: rand.Text()}
	tries, err := s.do(ctx, call{}, operation{"create upload of", name}, func(ctx context.Context, _ *call) error {
		var err error
		u.ID, err = s.core.NewMultipartUpload(ctx, s.options.Bucket, key, s.putOptions(u.Token, metadata))
		if err == nil && u.ID == "" {
			err = ErrNotS3
		}
		return err
	})
	u.Retried = tries > 1
	return u, err
}

// PutPart writes a part of size bytes, and replaces the one of that number. There must be MinPart bytes in all but the
// last. The server finds out the part's offset in the object by itself.
func (s *Store) PutPart(
	ctx context.Context, u Upload, number int, _ int64, body io.ReaderAt, size int64,
) (Part, error) {
	key, err := s.key(u.Name)
	if err != nil {
		return Part{}, err
	}
	if number < 1 || number > MaxParts || size < 0 || size > MaxPut {
		return Part{}, fmt.Errorf("put part %d of %q: %w: there are at most %d parts of at most %d bytes", number,
			shorten(u.Name), ErrInvalid, MaxParts, int64(MaxPut))
	}
	var part minio.ObjectPart
	what := operation{fmt.Sprintf("put part %d of", number), u.Name}
	_, err = s.do(ctx, call{}, what, func(ctx context.Context, _ *call) error {
		sent := newBody(body, size)
		defer sent.end()
		var err error
		part, err = s.core.PutObjectPart(ctx, s.options.Bucket, key, u.ID, number, sent, size, minio.PutObjectPartOptions{})
		if err == nil && part.ETag == "" {
			err = ErrNotS3
		}
		return err
	})
	return Part{Number: number, Size: size, ETag: unquote(part.ETag)}, err
}

// unquote removes the quotes that lists have around ETags and answers to puts have not.
func unquote(etag string) string { return strings.Trim(etag, `"`) }

// Parts are those of an upload that the server has, by number: ErrNoUpload if there is no such upload.
func (s *Store) Parts(ctx context.Context, u Upload) ([]Part, error) {
	key, err := s.key(u.Name)
	if err != nil {
		return nil, err
	}
	const page = 1000
	var parts []Part
	for {
		var result minio.ListObjectPartsResult
		marker := 0
		if n := len(parts); n > 0 {
			marker = parts[n-1].Number
		}
		_, err := s.do(ctx, call{}, operation{"list parts of", u.Name}, func(ctx context.Context, _ *call) error {
			var err error
			result, err = s.core.ListObjectParts(ctx, s.options.Bucket, key, u.ID, marker, page)
			if err == nil && !ascending(result.ObjectParts, marker) {
				err = ErrNotS3
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, part := range result.ObjectParts {
			parts = append(parts, Part{Number: part.PartNumber, Size: part.Size, ETag: unquote(part.ETag)})
		}
		if !result.IsTruncated || len(result.ObjectParts) == 0 {
			return parts, nil
		}
	}
}

// ascending reports whether parts have the numbers of parts after a marker, in order.
func ascending(parts []minio.ObjectPart, marker int) bool {
	for _, part := range parts {
		if part.PartNumber <= marker || part.PartNumber > MaxParts || part.Size < 0 {
			return false
		}
		marker = part.PartNumber
	}
	return true
}

// Complete makes the object of its parts, which are sorted by number, and returns its ETag. With ifAbsent it does so
// only if there is none of that name: ErrExists otherwise, and the upload is still there. ErrInvalid: a part is missing
// or has another ETag. An upload that was completed before is not ErrNoUpload if its object is still there.
func (s *Store) Complete(ctx context.Context, u Upload, parts []Part, ifAbsent bool) (string, error) {
	key, err := s.key(u.Name)
	if err != nil {
		return "", err
	}
	complete := make([]minio.CompletePart, 0, len(parts))
	for _, part := range parts {
		complete = append(complete, minio.CompletePart{PartNumber: part.Number, ETag: part.ETag})
	}
	slices.SortFunc(complete, func(a, b minio.CompletePart) int { return a.PartNumber - b.PartNumber })
	options := minio.PutObjectOptions{}
	if ifAbsent {
		options.SetMatchETagExcept("*")
	}
	var etag string
	what := operation{"complete upload of", u.Name}
	tries, err := s.do(ctx, call{}, what, func(ctx context.Context, _ *call) error {
		info, err := s.core.CompleteMultipartUpload(ctx, s.options.Bucket, key, u.ID, complete, options)
		if err == nil && info.ETag == "" {
			err = ErrNotS3
		}
		etag = info.ETag
		return err
	})
	if err == nil && tries > 1 {
		// versitygw 1.8.0 that a crash ended in mid-completion acknowledges the next try, and makes no object.
		err = fmt.Errorf("%v: %w", what, ErrNoUpload)
	}
	if errors.Is(err, ErrNoUpload) || errors.Is(err, ErrExists) {
		return s.own(ctx, u.Name, u.Token, err)
	}
	return etag, err
}

// Abort ends an upload and removes its parts. It is no error if there is no such upload.
func (s *Store) Abort(ctx context.Context, u Upload) error {
	key, err := s.key(u.Name)
	if err != nil {
		return err
	}
	_, err = s.do(ctx, call{}, operation{"abort upload of", u.Name}, func(ctx context.Context, _ *call) error {
		return s.core.AbortMultipartUpload(ctx, s.options.Bucket, key, u.ID)
	})
	if errors.Is(err, ErrNoUpload) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
