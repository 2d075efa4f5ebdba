// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
)

// TestSmallFilesAtOnce: of small files as many are on their way as is asked for, of others no more than there are
// streams.
func TestSmallFilesAtOnce(t *testing.T) {
	root, files := t.TempDir(), map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("a%d", i)] = "small"
	}
	for i := range 4 {
		files[fmt.Sprintf("b%d", i)] = strings.Repeat("x", bucket.SmallFile+1)
	}
	put(t, root, files)
	store := open(t, objectstoretest.New(t, ""), prefix)
	const small, large = 5, 2
	origin := &crowded{
		Source: source(t, root, nil), want: small, crowd: make(chan struct{}),
		now: map[bool]int{}, most: map[bool]int{},
	}
	mustWrite(t, origin, store, func(o *bucket.WriteOptions) { o.Streams, o.SmallStreams = large, small })
	if origin.most[false] != small || origin.most[true] > large {
		t.Errorf("at once there were %d small files and %d others", origin.most[false], origin.most[true])
	}
	_, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	for name, content := range files {
		if contents[name] != content {
			t.Errorf("%s has another content", name)
		}
	}
}

// crowded is a source that gives no small file before enough of them are read at once.
type crowded struct {
	*tree.Source
	want   int
	enough sync.Once
	crowd  chan struct{} // closed when there are enough

	mu        sync.Mutex
	now, most map[bool]int // by whether they are large
}

func (c *crowded) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	large := e.Size > bucket.SmallFile
	c.count(large, 1)
	defer c.count(large, -1)
	if large {
		time.Sleep(10 * time.Millisecond) // Others may come meanwhile.
		return c.Source.ReadAt(e, p, offset)
	}
	select {
	case <-c.crowd:
	case <-time.After(10 * time.Second): // It was not enough, which most tells.
	}
	return c.Source.ReadAt(e, p, offset)
}

func (c *crowded) count(large bool, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[large] += by
	c.most[large] = max(c.most[large], c.now[large])
	if !large && c.now[large] == c.want {
		c.enough.Do(func() { close(c.crowd) })
	}
}
