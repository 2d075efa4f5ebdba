// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargofile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"os"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
)

const (
	// partSize is how many bytes of an object are held and put at once.
	partSize = 32 << 20
	// patience is how long what a failure left is removed for.
	patience = 10 * time.Second
)

// store returns that of a bucket.
func (f *Files) store(bucket string) (*objectstore.Store, error) {
	first := func(names ...string) string {
		for _, name := range names {
			if value := f.getenv(name); value != "" {
				return value
			}
		}
		return ""
	}
	o := objectstore.Options{
		Endpoint: first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), Bucket: bucket,
		Region: first("AWS_REGION", "AWS_DEFAULT_REGION"),
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	}
	if o.Endpoint == "" {
		if o.Region == "" {
			o.Region = objectstore.DefaultRegion
		}
		o.Endpoint, o.VirtualHost = "https://s3."+o.Region+".amazonaws.com", true
	}
	c := objectstore.Credentials{
		AccessKeyID: first("AWS_ACCESS_KEY_ID"), SecretAccessKey: first("AWS_SECRET_ACCESS_KEY"),
		SessionToken: first("AWS_SESSION_TOKEN"),
	}
	switch {
	case c.AccessKeyID != "" && c.SecretAccessKey != "":
		o.Credentials = &c
	case c.AccessKeyID != "" || c.SecretAccessKey != "":
		return nil, fmt.Errorf("%w: set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or none",
			objectstore.ErrCredentials)
	}
	if bundle := first("AWS_CA_BUNDLE"); bundle != "" {
		var err error
		if o.CABundle, err = os.ReadFile(bundle); err != nil {
			return nil, fmt.Errorf("read AWS_CA_BUNDLE: %w", err)
		}
	}
	return objectstore.New(o)
}

// remote is an object. A store is made for each place and its connections end when they are idle.
type remote struct {
	store       *objectstore.Store
	bucket, key string
}

func (r remote) index() place {
	r.key = indexPath(r.key)
	return r
}

func (r remote) open(ctx context.Context) (object, error) {
	o, err := r.store.Head(ctx, r.key)
	if errors.Is(err, objectstore.ErrNotFound) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	return &remoteFile{remote: r, ctx: ctx, object: o}, nil
}

// remoteFile is an object of which parts are got.
type remoteFile struct {
	remote
	ctx    context.Context //nolint:containedctx // that of open: io.ReaderAt has none
	object objectstore.Object
}

func (f *remoteFile) size() int64 { return f.object.Size }

// Close closes connections.
func (f *remoteFile) Close() error {
	f.store.Close()
	return nil
}

// OpenRange implements cargo.RangeOpener: one request.
func (f *remoteFile) OpenRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	r, err := f.store.Get(ctx, f.key, f.object.ETag, offset, length)
	if err != nil {
		return nil, err // not a nil *Reader in an interface
	}
	return r, nil
}

// ReadAt implements io.ReaderAt by a request for each call.
func (f *remoteFile) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read at %d: %w", offset, fs.ErrInvalid)
	}
	n := min(int64(len(p)), max(f.object.Size-offset, 0))
	if n > 0 {
		r, err := f.OpenRange(f.ctx, offset, n)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		if read, err := io.ReadFull(r, p[:n]); err != nil {
			return read, err
		}
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (r remote) create(ctx context.Context, replace bool) (sink, error) {
	if err := r.store.Check(r.key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrName, err)
	}
	if !replace {
		_, err := r.store.Head(ctx, r.key)
		if err == nil {
			return nil, ErrExists
		}
		if !errors.Is(err, objectstore.ErrNotFound) {
			return nil, err
		}
	}
	return &remoteSink{remote: r, ctx: ctx, replace: replace}, nil
}

// remoteSink is an object to be: one put of a short one, or an upload of parts.
type remoteSink struct {
	remote
	ctx     context.Context //nolint:containedctx // that of create: io.Writer has none
	replace bool
	buf     []byte
	upload  *objectstore.Upload // nil: nothing was put so far
	parts   []objectstore.Part
}

// Write implements io.Writer.
func (s *remoteSink) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		if s.buf == nil {
			s.buf = make([]byte, 0, partSize)
		}
		n := min(len(p), partSize-len(s.buf))
		s.buf, p = append(s.buf, p[:n]...), p[n:]
		// A part is put when it is known not to be all.
		if len(s.buf) == partSize && len(p) > 0 {
			if err := s.put(); err != nil {
				return 0, err
			}
		}
	}
	return written, nil
}

// put puts what was written since the last part.
func (s *remoteSink) put() error {
	if s.upload == nil {
		u, err := s.store.Create(s.ctx, s.key, nil)
		if err != nil {
			return err
		}
		s.upload = &u
	}
	if len(s.parts) == objectstore.MaxParts {
		return fmt.Errorf("an object of more than %d parts of %d bytes", objectstore.MaxParts, partSize)
	}
	part, err := s.store.PutPart(s.ctx, *s.upload, len(s.parts)+1, int64(len(s.parts))*partSize,
		bytes.NewReader(s.buf), int64(len(s.buf)))
	if err != nil {
		return err
	}
	s.parts, s.buf = append(s.parts, part), s.buf[:0]
	return nil
}

func (s *remoteSink) prepare() error {
	if s.upload == nil || len(s.buf) == 0 {
		return nil
	}
	return s.put()
}

func (s *remoteSink) publish() (err error) {
	// An index may have appeared already: who interrupts the program now gets both.
	ctx := context.WithoutCancel(s.ctx)
	if s.upload == nil {
		_, err = s.store.Put(ctx, s.key, bytes.NewReader(s.buf), int64(len(s.buf)),
			objectstore.PutOptions{IfAbsent: !s.replace})
	} else {
		_, err = s.store.Complete(ctx, *s.upload, s.parts, !s.replace)
	}
	if errors.Is(err, objectstore.ErrExists) {
		return ErrExists
	}
	if err == nil {
		s.upload = nil
	}
	return err
}

func (s *remoteSink) abort() {
	if s.upload != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), patience)
		defer cancel()
		_ = s.store.Abort(ctx, *s.upload) // what ended the copy is what is told
	}
	s.store.Close()
}

func (r remote) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.store.Delete(ctx, r.key)
}

func (r remote) list(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		directory := r.key
		if directory != "" && !strings.HasSuffix(directory, "/") {
			directory += "/"
		}
		found := false
		for o, err := range r.store.List(ctx, directory) {
			if found = true; err != nil {
				yield("", err)
				return
			}
			if !yield(scheme+r.bucket+"/"+o.Name, nil) {
				return
			}
		}
		if !found {
			yield("", fs.ErrNotExist)
		}
	}
}
