// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// spared is how many stay as long as dictionaries are used, whether messages refer to them or not: a put that was under
// way for very long, as of a member that stood still, may refer to one.
const spared = store.MaxDictionaries / 2

// retirement is what a member that leads knows of a dictionary that is not in use. Another that leads begins with it
// again, which keeps a dictionary longer. Times are of Keeper.watched.
type retirement struct {
	// entry is the sequence of what is retired. A dictionary that was put into use once more since has another.
	entry uint64
	// since is when it was seen first that it is not in use.
	since time.Duration
	// last is that of the queue's sequences when no message could come any more that refers to it; noted says that it is
	// known.
	last  uint64
	noted bool
	// left is since when no message up to last is there; gone says that none is.
	left time.Duration
	gone bool
}

// watch has the time go on for retirements. While the process stood still, or the store did not answer, messages were
// under way as long: of that little counts.
func (k *Keeper) watch(now time.Time) {
	if !k.lookedAt.IsZero() {
		k.watched += min(now.Sub(k.lookedAt), max(3*k.timing.Poll, k.timing.Grace/8))
	}
	k.lookedAt = now
}

// retire deletes dictionaries that no message refers to, the oldest first, but for those that are spared.
func (k *Keeper) retire(ctx context.Context, s Settings, now listed) error {
	k.watch(time.Now())
	for number, r := range k.retired {
		if e, ok := now.entries[number]; !ok || number == now.current || e.sequence != r.entry {
			delete(k.retired, number)
		}
	}
	var first, last uint64
	kept := len(now.entries)
	for _, e := range slices.SortedFunc(maps.Values(now.entries), func(a, b entry) int {
		return cmp.Compare(a.sequence, b.sequence)
	}) {
		number := e.about.GetNumber()
		if number == now.current {
			continue
		}
		r := k.retired[number]
		if r == nil {
			k.retired[number] = &retirement{entry: e.sequence, since: k.watched}
			continue
		}
		if k.watched-r.since < k.timing.Grace {
			continue
		}
		if s.active() && kept <= spared {
			r.noted, r.gone = false, false // What comes meanwhile has to leave as well, once it is not spared any more.
			continue
		}
		if last == 0 {
			var err error
			if first, last, err = k.catalog.place(ctx); err != nil {
				return err
			}
		}
		switch {
		case !r.noted:
			r.noted, r.last = true, last
		case first <= r.last:
			r.gone = false
		case !r.gone:
			r.gone, r.left = true, k.watched
		case k.watched-r.left < k.timing.Grace:
			// What was just removed may be on the way to a slow client that acknowledges nothing, or come back when the
			// machine fails before the volume knows.
		default:
			if err := k.catalog.remove(ctx, e); err != nil {
				return err
			}
			delete(k.retired, number)
			kept--
			k.options.Log.Info("Dictionary is deleted: no message refers to it", "number", number)
		}
	}
	return nil
}
