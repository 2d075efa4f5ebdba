// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargofile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"strings"

	"github.com/lighterage/lighterage/agent/cargo"
)

// place is where one file is, or may be written.
type place interface {
	// open opens what is there: fs.ErrNotExist if nothing is.
	open(ctx context.Context) (object, error)
	// create begins to write, and replaces what is there or is ErrExists.
	create(ctx context.Context, replace bool) (sink, error)
	// remove removes what is there.
	remove() error
	// index is the place of the index.
	index() place
	// list yields the names of files below, those of indexes among them.
	list(ctx context.Context) iter.Seq2[string, error]
}

// object is what is in a place. It does not change while it is open, or reading it is an error.
type object interface {
	io.ReaderAt
	cargo.RangeOpener
	io.Closer
	size() int64
}

// sink is written and then appears.
type sink interface {
	io.Writer
	// prepare makes what was written safe. It does not appear yet.
	prepare() error
	// publish has it appear.
	publish() error
	// abort removes what has not appeared.
	abort()
}

const scheme = "s3://"

// IsObject reports whether a name is that of an object.
func IsObject(name string) bool { return strings.HasPrefix(name, scheme) }

func (f *Files) place(name string) (place, error) {
	rest, isObject := strings.CutPrefix(name, scheme)
	if !isObject {
		if name == "" || strings.Contains(name, "://") {
			return nil, fmt.Errorf("%w: %q: write a path, or s3://BUCKET/KEY", ErrName, name)
		}
		return local{name}, nil
	}
	bucket, key, _ := strings.Cut(rest, "/")
	if u, err := url.Parse(scheme + bucket); err != nil || bucket == "" || u.Host != bucket {
		return nil, fmt.Errorf("%w: %q: write s3://BUCKET/KEY", ErrName, name)
	}
	store, err := f.store(bucket)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	return remote{store: store, bucket: bucket, key: key}, nil
}

// indexPath returns that of the index of a file.
func indexPath(path string) string {
	i := strings.LastIndexByte(path, '/') + 1
	return path[:i] + "." + path[i:] + cargo.IndexSuffix
}

// indexed returns of which file a path is that of the index.
func indexed(path string) (of string, ok bool) {
	i := strings.LastIndexByte(path, '/') + 1
	name, ending := strings.CutSuffix(path[i:], cargo.IndexSuffix)
	name, beginning := strings.CutPrefix(name, ".")
	return path[:i] + name, ending && beginning && name != ""
}

// List yields the names of the files that have indexes: the one of that name, or those in the directory and below it.
// Indexes are not read.
func (f *Files) List(ctx context.Context, name string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		at, err := f.place(name)
		if err != nil {
			yield("", err)
			return
		}
		if !strings.HasSuffix(name, "/") {
			o, err := at.index().open(ctx)
			if err == nil {
				yield(name, o.Close())
				return
			}
			if !errors.Is(err, fs.ErrNotExist) {
				yield("", fmt.Errorf("list %q: %w", name, err))
				return
			}
		}
		for path, err := range at.list(ctx) {
			if err != nil {
				yield("", fmt.Errorf("list %q: %w", name, err))
				return
			}
			if found, ok := indexed(path); ok && !yield(found, nil) {
				return
			}
		}
	}
}
