// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/lighterage/lighterage/agent/tree"
)

const (
	// walkWeight bounds the entries that wait for attempts which are behind in the walk, in bytes.
	walkWeight = 16 << 20
	// walkBatch is how many entries an attempt takes at once.
	walkBatch = 128
)

// errStopped ends a walk that nobody needs any more.
var errStopped = errors.New("all attempts have ended")

// walk is one of the source for all attempts that begin together. Who is ahead has it go on. Like the spool it is a
// cache: who falls behind walks by itself.
type walk struct {
	mu   sync.Mutex
	next func() (*tree.Entry, error, bool)
	stop func()
	// entries are the last ones, the first of which has a number; weight is that of all.
	entries []*tree.Entry
	first   int
	weight  int
	ended   bool
	err     error
}

func newWalk(source Source) *walk {
	w := &walk{}
	w.next, w.stop = iter.Pull2(func(yield func(*tree.Entry, error) bool) {
		err := source.Walk(context.Background(), func(e *tree.Entry) error {
			if !yield(e, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	})
	return w
}

// end frees the walk.
func (w *walk) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	w.entries, w.ended = nil, true
}

// from returns entries from a number on, and none at the end. behind: they are not kept any more.
func (w *walk) from(number int) (entries []*tree.Entry, behind bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number < w.first {
		return nil, true, nil
	}
	for !w.ended && len(w.entries) < number-w.first+walkBatch {
		e, err, more := w.next()
		if err != nil || !more {
			w.ended, w.err = true, err
			break
		}
		w.entries = append(w.entries, e)
		w.weight += e.Weight()
	}
	if at := number - w.first; at < len(w.entries) {
		entries = append(entries, w.entries[at:min(len(w.entries), at+walkBatch)]...)
	}
	for w.weight > walkWeight {
		w.weight -= w.entries[0].Weight()
		w.entries[0] = nil
		w.entries, w.first = w.entries[1:], w.first+1
	}
	if len(entries) == 0 {
		return nil, false, w.err
	}
	return entries, false, nil
}

// each calls visit for every entry. One that falls behind walks own from there on, and is told so before.
func (w *walk) each(ctx context.Context, own Source, alone func(), visit func(*tree.Entry) error) error {
	var last *tree.Entry
	for number := 0; ; {
		entries, behind, err := w.from(number)
		if err != nil || !behind && len(entries) == 0 {
			return err
		}
		if behind {
			alone()
			return own.Walk(ctx, func(e *tree.Entry) error {
				if last != nil && tree.Compare(e.Path, last.Path) <= 0 {
					return nil
				}
				return visit(e)
			})
		}
		for _, last = range entries {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := visit(last); err != nil {
				return err
			}
		}
		number += len(entries)
	}
}
