// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// MaxPut is the most bytes that Put and PutPart take.
const MaxPut = 5 << 30

// Object is what a store has.
type Object struct {
	// Name relative to the prefix. One from a list is what somebody wrote, and CheckName may not like it.
	Name string
	Size int64
	// ETag without quotes. It changes with the content and is not necessarily a digest of it.
	ETag     string
	Modified time.Time
	// Metadata are what PutOptions gave it, the keys in lower case. Lists do not have them.
	Metadata map[string]string
}

// PutOptions say how an object is written.
type PutOptions struct {
	// IfAbsent: it is written only if there is none.
	IfAbsent bool
	// Metadata of the user, at most 2 KB in all: letters, digits and hyphens as keys, printable ASCII as values.
	Metadata map[string]string
}

// Check reports whether an object may have a name: ErrName.
func (s *Store) Check(name string) error { return CheckName(s.options.Prefix, name) }

// key of an object; errors are ErrName.
func (s *Store) key(name string) (string, error) {
	if err := CheckName(s.options.Prefix, name); err != nil {
		return "", err
	}
	return join(s.options.Prefix, name), nil
}

// Put writes an object of size bytes and returns its ETag. With IfAbsent it writes only if there is none: ErrExists
// otherwise. Each try reads body from its beginning to its end.
func (s *Store) Put(
	ctx context.Context, name string, body io.ReaderAt, size int64, o PutOptions,
) (string, error) {
	key, err := s.key(name)
	if err != nil {
		return "", err
	}
	if size < 0 || size > MaxPut {
		return "", fmt.Errorf("put %q: %w: it has %d bytes, and the limit of one request is %d", shorten(name), ErrInvalid,
			size, int64(MaxPut))
	}
	token := "" // It tells whose object is there when the answer to a request with a condition was lost.
	if o.IfAbsent {
		token = rand.Text()
	}
	options := s.putOptions(token, o.Metadata)
	if o.IfAbsent {
		options.SetMatchETagExcept("*")
	}
	var etag string
	tries, err := s.do(ctx, call{}, operation{"put", name}, func(ctx context.Context, _ *call) error {
		sent := newBody(body, size)
		defer sent.end()
		info, err := s.core.PutObject(ctx, s.options.Bucket, key, sent, size, "", "", options)
		if err == nil && info.ETag == "" {
			err = ErrNotS3
		}
		etag = info.ETag
		return err
	})
	if errors.Is(err, ErrExists) && tries > 1 {
		return s.own(ctx, name, token, err)
	}
	return etag, err
}

// own returns the ETag of an object if it has the token, which the answer that was lost would have had, and otherwise
// the error.
func (s *Store) own(ctx context.Context, name, token string, otherwise error) (string, error) {
	object, mine, err := s.head(ctx, name, token)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", otherwise
	case err != nil:
		return "", err
	case !mine:
		return "", otherwise
	}
	return object.ETag, nil
}

// Head returns what is known of an object: ErrNotFound if there is none.
func (s *Store) Head(ctx context.Context, name string) (Object, error) {
	object, _, err := s.head(ctx, name, "")
	return object, err
}

func (s *Store) head(ctx context.Context, name, token string) (Object, bool, error) {
	key, err := s.key(name)
	if err != nil {
		return Object{}, false, err
	}
	var info minio.ObjectInfo
	_, err = s.do(ctx, call{}, operation{"head", name}, func(ctx context.Context, _ *call) error {
		var err error
		info, err = s.core.StatObject(ctx, s.options.Bucket, key, minio.StatObjectOptions{})
		if err == nil && (info.ETag == "" || info.Size < 0) {
			err = ErrNotS3
		}
		return err
	})
	if err != nil {
		return Object{}, false, err
	}
	object := Object{
		Name: name, Size: info.Size, ETag: info.ETag, Modified: info.LastModified, Metadata: metadata(info),
	}
	return object, ownToken(info.Metadata, token), nil
}

// metadata is that of an answer, the keys in lower case.
func metadata(info minio.ObjectInfo) map[string]string {
	m := make(map[string]string, len(info.UserMetadata))
	for key, value := range info.UserMetadata {
		m[strings.ToLower(key)] = value
	}
	return m
}

// Delete removes an object. It is no error if there is none.
func (s *Store) Delete(ctx context.Context, name string) error {
	key, err := s.key(name)
	if err != nil {
		return err
	}
	_, err = s.do(ctx, call{}, operation{"delete", name}, func(ctx context.Context, _ *call) error {
		return s.core.RemoveObject(ctx, s.options.Bucket, key, minio.RemoveObjectOptions{})
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
