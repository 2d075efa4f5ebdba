// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// MaxIDs is how many ids of up to 64 bytes the servers of a queue remember at most. A longer one counts as
// several; see Cost.
const MaxIDs = maxKnown

// A server takes about 170 bytes for an id of 64.
const (
	shortID = 64
	perUnit = 160
)

// Cost of an id is how many short ones it counts as.
func Cost(id []byte) int64 { return 1 + int64(max(len(id)-shortID+perUnit-1, 0)/perUnit) }

// QuotaOptions of a Quota.
type QuotaOptions struct {
	// Limit of what is admitted within the window, in units of Cost. 0: MaxIDs.
	Limit int64
	// Window is how long the server remembers an id after it stored the message.
	Window time.Duration
	// Path of a file that keeps the count over restarts; empty: none.
	Path string
	// Messages that the stream has, and the sequence of the last one it had, at the start: the server has
	// read the ids of no others.
	Messages, Last uint64
	// Now is time.Now unless a test sets it.
	Now func() time.Time
}

// Quota bounds how many ids the server remembers, which itself keeps in memory as many as are put within the
// window. It counts messages with ids that are admitted. Some of those are not stored, because they are
// duplicates or the queue is full; so no more is refused than the stream has grown. A Quota is safe
// for concurrent use; one that is nil admits everything.
type Quota struct {
	options QuotaOptions
	// passed within the window, and fresh of these since the last turn; stored is the most that
	// of the others can have been stored.
	passed, fresh, stored atomic.Int64

	mu        sync.Mutex
	window    time.Duration
	spans     []span // oldest first
	turned    time.Time
	last      uint64 // sequence at the last turn
	unwritten int64
	written   time.Time
}

// span is what was admitted during a part of the window.
type span struct {
	begun time.Time
	// Until is when the last of it was, in milliseconds since 1970, Count how much, and Before
	// the sequence of the stream before it.
	Until  int64  `json:"until"`
	Count  int64  `json:"count"`
	Before uint64 `json:"before"`
}

const (
	// quotaParts is how many spans there are to a window. What was admitted since the last was
	// written is forgotten by a kill, up to as many parts of the limit.
	quotaParts = 64
	// maxSpans bounds what is read.
	maxSpans     = 4 * quotaParts
	maxQuotaFile = 64 << 10
	// lateness is how much longer than the window the server may remember, at most.
	lateness = time.Second
)

// NewQuota reads what was counted before. What cannot be read counts as nothing, and is the error beside
// the quota.
func NewQuota(o QuotaOptions) (*Quota, error) {
	if o.Limit <= 0 {
		o.Limit = MaxIDs
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	now := o.Now()
	q := &Quota{options: o, window: o.Window, last: o.Last, turned: now, written: now}
	if o.Path == "" {
		return q, nil
	}
	file, err := os.Open(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return q, nil
	}
	if err != nil {
		return q, fmt.Errorf("read how many ids were accepted: %w", err)
	}
	q.spans, err = readSpans(file)
	if err = errors.Join(err, file.Close()); err != nil {
		q.spans = nil
		return q, fmt.Errorf("read how many ids were accepted, from %s: %w", o.Path, err)
	}
	for i := range q.spans {
		s := &q.spans[i]
		s.Until = min(s.Until, now.UnixMilli())
		s.Before = min(max(s.Before, o.Last-min(o.Messages, o.Last)), o.Last)
		q.passed.Add(s.Count)
	}
	q.Turn(o.Last)
	return q, nil
}

func readSpans(r io.Reader) (spans []span, err error) {
	b, err := io.ReadAll(io.LimitReader(r, maxQuotaFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxQuotaFile {
		return nil, fmt.Errorf("it is longer than %d bytes", maxQuotaFile)
	}
	if err := json.Unmarshal(b, &spans); err != nil {
		return nil, err
	}
	if len(spans) > maxSpans {
		return nil, fmt.Errorf("it has %d spans; at most %d are written", len(spans), maxSpans)
	}
	for i, s := range spans {
		if s.Count < 0 || s.Count > math.MaxInt64/maxSpans || s.Until < 0 || i > 0 && s.Until < spans[i-1].Until {
			return nil, errors.New("it has impossible values")
		}
	}
	return spans, nil
}

// Full reports whether no more ids may be admitted now.
func (q *Quota) Full() bool {
	return q != nil && q.passed.Load() >= q.options.Limit && q.stored.Load()+q.fresh.Load() >= q.options.Limit
}

// Admit counts a message with an id, or says to who puts it why no more may be put now. One without an id is not
// counted.
func (q *Quota) Admit(id []byte) (refusal string) {
	if q == nil || len(id) == 0 {
		return ""
	}
	if q.Full() {
		q.mu.Lock()
		defer q.mu.Unlock()
		return fmt.Sprintf("no more ids can be remembered now, of which this member accepts %d within the queue's "+
			"duplicateWindow of %v: wait and put the message again, put it without an id, or shorten duplicateWindow",
			q.options.Limit, q.window)
	}
	q.fresh.Add(Cost(id))
	q.passed.Add(Cost(id))
	return ""
}

// SetWindow changes it, from now on.
func (q *Quota) SetWindow(d time.Duration) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.window = d
}

// Counts reports whether something was admitted that may count still, so that Turn needs to be called.
func (q *Quota) Counts() bool { return q != nil && q.passed.Load() > 0 }

// Turn forgets what is beyond the window. It is to be called every second or so, with the sequence of the
// stream's last message; 0: it is not known.
func (q *Quota) Turn(last uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now()
	fresh := q.fresh.Swap(0)
	if last == 0 {
		last = q.last + uint64(fresh)
	}
	last = max(last, q.last)
	if fresh > 0 {
		if k := len(q.spans) - 1; k >= 0 && now.Sub(q.spans[k].begun) < q.window/quotaParts {
			q.spans[k].Until, q.spans[k].Count = now.UnixMilli(), q.spans[k].Count+fresh
		} else {
			q.spans = append(q.spans, span{q.turned, now.UnixMilli(), fresh, q.last})
		}
		q.unwritten += fresh
	}
	for len(q.spans) > 0 && now.Sub(time.UnixMilli(q.spans[0].Until)) > q.window+lateness {
		q.passed.Add(-q.spans[0].Count)
		q.spans = q.spans[1:]
	}
	stored := int64(0)
	if len(q.spans) > 0 {
		// What was admitted just now may be stored and not be counted by the stream yet.
		stored = int64(min(last-q.spans[0].Before, math.MaxInt64/2)) + fresh
	}
	q.stored.Store(stored)
	q.last, q.turned = last, now
}

// Write keeps the count over restarts, if it is time to, or in any case.
func (q *Quota) Write(always bool) error {
	if q == nil || q.options.Path == "" {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now()
	if q.unwritten == 0 || !always && q.unwritten < q.options.Limit/quotaParts &&
		now.Sub(q.written) < q.window/quotaParts {
		return nil
	}
	b, err := json.Marshal(q.spans[max(len(q.spans)-maxSpans, 0):])
	if err != nil {
		return fmt.Errorf("write how many ids were accepted: %w", err)
	}
	fresh := q.options.Path + ".new"
	if err := os.WriteFile(fresh, b, 0o600); err != nil {
		return fmt.Errorf("write how many ids were accepted: %w", err)
	}
	if err := os.Rename(fresh, q.options.Path); err != nil {
		return fmt.Errorf("write how many ids were accepted: %w", err)
	}
	q.unwritten, q.written = 0, now
	return nil
}
