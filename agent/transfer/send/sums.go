// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// maxSums is how many files' digests wait for other receivers' receipts: some MiB.
const maxSums = 1 << 15

// sums are digests of whole files, for receipts of several receivers. Like the spool it is a cache.
type sums struct {
	mu    sync.Mutex
	all   map[[sha256.Size]byte]*sum
	order [][sha256.Size]byte // the oldest first
}

// sum is that of one version of a file.
type sum struct {
	ready  chan struct{}
	err    error
	size   int64
	digest [sha256.Size]byte
}

// get returns size and digest of a file: those that are there, or that another is about to have made, for whom it waits
// and calls waiting every now and then; or what read returns. Where another could not read the file, read is called.
func (s *sums) get(
	ctx context.Context, identity []byte, waiting func() error, read func() (int64, [sha256.Size]byte, error),
) (int64, [sha256.Size]byte, error) {
	key := sha256.Sum256(identity)
	s.mu.Lock()
	one, there := s.all[key]
	if !there {
		one = &sum{ready: make(chan struct{})}
		s.add(key, one)
	}
	s.mu.Unlock()
	if !there {
		one.size, one.digest, one.err = read()
		close(one.ready)
		return one.size, one.digest, one.err
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-one.ready:
			if one.err != nil {
				return read()
			}
			return one.size, one.digest, nil
		case <-ticker.C:
			if err := waiting(); err != nil {
				return 0, [sha256.Size]byte{}, err
			}
		case <-ctx.Done():
			return 0, [sha256.Size]byte{}, context.Cause(ctx)
		}
	}
}

// add adds one, in place of the oldest if there are too many. The caller holds the lock.
func (s *sums) add(key [sha256.Size]byte, one *sum) {
	if s.all == nil {
		s.all = make(map[[sha256.Size]byte]*sum)
	}
	if len(s.order) == maxSums {
		delete(s.all, s.order[0])
		s.order = s.order[1:]
	}
	s.all[key] = one
	s.order = append(s.order, key)
}
