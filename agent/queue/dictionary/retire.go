// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"context"
	"time"
)

// retirement is what a member that leads knows of a dictionary that is not in use. Another that leads begins with it
// again, which keeps a dictionary longer.
type retirement struct {
	// since is when it was seen first that it is not in use.
	since time.Time
	// last is that of the queue's sequences when no message could come any more that refers to it; noted says that it is
	// known.
	last  uint64
	noted bool
	// passed says that no message up to last was there at the look before.
	passed bool
}

// retire deletes dictionaries that no message refers to.
func (k *Keeper) retire(ctx context.Context, now listed) error {
	for number := range k.retired {
		if _, ok := now.entries[number]; !ok || number == now.current {
			delete(k.retired, number)
		}
	}
	var first, last uint64
	for number, e := range now.entries {
		if number == now.current {
			continue
		}
		r := k.retired[number]
		if r == nil {
			k.retired[number] = &retirement{since: time.Now()}
			continue
		}
		if time.Since(r.since) < k.timing.Grace {
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
		case !r.passed:
			r.passed = true // A member may be inflating what was just removed.
		default:
			if err := k.catalog.remove(ctx, e); err != nil {
				return err
			}
			delete(k.retired, number)
			k.options.Log.Info("Dictionary is deleted: no message refers to it", "number", number)
		}
	}
	return nil
}
