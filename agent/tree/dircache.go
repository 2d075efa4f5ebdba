// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import "sync"

// cachedDirs is how many directories a cache keeps open: some more than there are streams, which mostly work in
// neighbouring ones.
const cachedDirs = 32

// dirCache keeps directories below a root open, those that were used last: finding the way to a directory costs as much
// as making a small file in it. A directory that has been renamed or removed since stays what it was, so who finds a
// name missing in one has to drop it and try again.
type dirCache struct {
	root dir

	mu     sync.Mutex
	open   map[string]*cachedDir
	uses   uint64
	closed bool
}

// cachedDir is an open directory.
type cachedDir struct {
	dir
	path string
	// Of the cache's mu.
	users int
	last  uint64 // the use that was the last one
	gone  bool   // not in the cache any more
}

func newDirCache(root dir) *dirCache {
	return &dirCache{root: root, open: make(map[string]*cachedDir, cachedDirs)}
}

// acquire opens a directory. release must follow.
func (c *dirCache) acquire(path string) (*cachedDir, error) {
	c.mu.Lock()
	if d := c.use(path); d != nil {
		c.mu.Unlock()
		return d, nil
	}
	c.mu.Unlock()
	fd, err := c.root.openDir(path)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.use(path); d != nil { // Another was faster.
		_ = fd.close()
		return d, nil
	}
	d := &cachedDir{dir: fd, path: path, users: 1}
	if c.closed {
		d.gone = true
		return d, nil
	}
	if len(c.open) >= cachedDirs {
		c.evict()
	}
	c.uses++
	d.last = c.uses
	c.open[path] = d
	return d, nil
}

// use returns a directory that is open, or nil.
func (c *dirCache) use(path string) *cachedDir {
	d := c.open[path]
	if d != nil {
		c.uses++
		d.users, d.last = d.users+1, c.uses
	}
	return d
}

// evict forgets the directory that was not used for longest.
func (c *dirCache) evict() {
	var oldest *cachedDir
	for _, d := range c.open {
		if oldest == nil || d.last < oldest.last {
			oldest = d
		}
	}
	c.forget(oldest)
}

func (c *dirCache) forget(d *cachedDir) {
	if d.gone {
		return
	}
	d.gone = true
	delete(c.open, d.path)
	if d.users == 0 {
		_ = d.close()
	}
}

func (c *dirCache) release(d *cachedDir) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.users--; d.users == 0 && d.gone {
		_ = d.close()
	}
}

// drop forgets a directory that is not what is there any more.
func (c *dirCache) drop(d *cachedDir) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(d)
}

// close closes all directories, those in use when they are released.
func (c *dirCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, d := range c.open {
		c.forget(d)
	}
}
