// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/lighterage/lighterage/agent/failure"
)

// DefaultMaxNames is how many names a directory may have.
const DefaultMaxNames = 500_000

// Child is what there is under one name of a directory: an object, names below it, or both.
type Child struct {
	// Name is the last element of the path, without a slash. It is what somebody wrote and may be unfit. It is empty for
	// an object whose key ends with the directory's slash.
	Name string
	// Object is nil if there are only names below.
	Object *Object
	// Directory: there are keys below.
	Directory bool
}

// Directory returns what is in a directory, sorted by name; an empty path is the root. Everything in one directory is
// held in memory, and more than Options.MaxNames is a failure. Object stores have no directories: nothing is what one
// has that does not exist.
func (s *Store) Directory(ctx context.Context, path string) ([]Child, error) {
	prefix := s.root()
	if path != "" {
		prefix += path + "/"
	}
	d := listing{store: s, prefix: prefix, children: make(map[string]*Child)}
	for {
		before := d.after
		_, err := s.do(ctx, call{}, operation{"list", path}, d.list)
		if err == nil {
			return d.sorted(), nil
		}
		if d.after == before || !retryable(err) {
			return nil, err
		}
	}
}

// listing is what was listed of a directory so far.
type listing struct {
	store    *Store
	prefix   string
	children map[string]*Child
	// after: everything up to this key is known. newest is the greatest key that was seen.
	after, newest string
}

// list goes on after what is known. A page has its objects before its directories, so that what is known ends with the
// last whole page.
func (d *listing) list(ctx context.Context, c *call) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	owner, requests := false, 0
	d.newest = d.after
	for info := range d.store.core.ListObjectsIter(ctx, d.store.options.Bucket, minio.ListObjectsOptions{
		Prefix: d.prefix, StartAfter: d.after, FetchOwner: &owner,
	}) {
		if info.Err != nil {
			return info.Err
		}
		if c.requests != requests {
			d.after, requests = d.newest, c.requests
		}
		name, ours := strings.CutPrefix(info.Key, d.prefix)
		if !ours || info.Size < 0 {
			return ErrNotS3
		}
		added := d.add(name, info)
		if limit := d.store.options.MaxNames; len(d.children) > limit {
			return &Error{failure: failure.New(unfit, "the bucket %s has more than %d names in %q: split this directory, or "+
				"use a path beside it", d.store.options.Bucket, limit, shorten(d.prefix))}
		}
		if added {
			c.requests, requests = 0, 0
		}
		d.newest = max(d.newest, info.Key)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the iterator ends without saying so
	}
	return nil
}

// add notes an entry of the list and reports whether it is new.
func (d *listing) add(name string, info minio.ObjectInfo) bool {
	name, below := strings.CutSuffix(name, "/")
	child := d.children[name]
	if child == nil {
		child = &Child{Name: name}
		d.children[name] = child
	}
	if below && info.ETag == "" {
		added := !child.Directory
		child.Directory = true
		return added
	}
	added := child.Object == nil
	child.Object = &Object{
		Name: strings.TrimPrefix(info.Key, d.store.root()), Size: info.Size, ETag: info.ETag, Modified: info.LastModified,
	}
	return added
}

func (d *listing) sorted() []Child {
	children := make([]Child, 0, len(d.children))
	for _, child := range d.children {
		children = append(children, *child)
	}
	slices.SortFunc(children, func(a, b Child) int { return strings.Compare(a.Name, b.Name) })
	return children
}
