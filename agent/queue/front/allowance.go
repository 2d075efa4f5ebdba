// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxAllowance bounds what messages are inflated to and not written to clients yet, in bytes, of all
// connections together.
const maxAllowance = 64 << 20

// allowance bounds memory that connections share. Half of it is for those whose clients are quick, or of which it is
// not known yet, and half for those whose clients are slow, which so wait for each other only. Who turns out to be slow
// while others wait goes to the other half with what it holds. Where that has no space for it, its client is sent away
// when it has had time enough.
type allowance struct {
	quick, slow *semaphore.Weighted
	half        int64
	// patience, and a second for each paceRate bytes, are how long a quick client takes for a part, and lastPatience
	// and as much how long one may hold memory of the quick half for which others wait. look is how often that is
	// looked at while somebody waits.
	patience, lastPatience, look time.Duration

	mu      sync.Mutex
	takers  map[*taker]struct{} // that hold some of the quick half
	waiting int                 // for the quick half
	looking bool
}

// paceRate in bytes per second is that of the service's bodies, for which others wait, too.
const paceRate = 1 << 20

// pace is how a client took the last part.
type pace uint8

const (
	unknownPace pace = iota
	quickPace
	slowPace
)

// taker is a connection that takes of an allowance. What is after cut is guarded by the allowance.
type taker struct {
	cut  func() // sends its client away
	pace pace
	// held is what it was granted for parts, in the order in which these are written, and total that together, of the
	// slow half or of the other; since is when the first of these was next to be written.
	held  []int64
	total int64
	slow  bool
	since time.Time
}

func newAllowance(size int64) *allowance {
	return &allowance{
		quick: semaphore.NewWeighted(size / 2), slow: semaphore.NewWeighted(size / 2), half: size / 2,
		patience: time.Second, lastPatience: 30 * time.Second, look: 100 * time.Millisecond,
		takers: make(map[*taker]struct{}),
	}
}

// take waits until there are so many bytes for a connection that holds none, or the context ends. Who asks
// for more than there can be has all of a half, alone.
func (a *allowance) take(ctx context.Context, n int, t *taker) error {
	want := min(int64(n), a.half)
	a.mu.Lock()
	slow := t.pace == slowPace
	a.mu.Unlock()
	from := a.quick
	if slow {
		from = a.slow
	}
	// What takes long in any case stays out of the way of others if it can.
	if aside := want > a.half/4 && a.slow.TryAcquire(want); aside {
		slow = true
	} else if !from.TryAcquire(want) {
		if !slow {
			a.wait()
			defer a.waited()
		}
		if err := from.Acquire(ctx, want); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t.slow, t.since = slow, time.Now()
	if !slow {
		a.takers[t] = struct{}{}
	}
	t.add(want)
	return nil
}

// try takes so many bytes for a connection that holds some, if they are there and nobody waits for them. Only quick
// ones get them, and no more than a quarter of their half.
func (a *allowance) try(n int, t *taker) bool {
	want := min(int64(n), a.half)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(t.held) == 0 || t.slow || t.pace != quickPace || t.total+want > a.half/4 || !a.quick.TryAcquire(want) {
		return false
	}
	t.add(want)
	return true
}

// add notes what was granted.
func (t *taker) add(n int64) {
	t.held = append(t.held, n)
	t.total += n
}

// end gives back what was granted for the first part that a connection holds, which was written.
func (a *allowance) end(t *taker) {
	a.mu.Lock()
	n, from, now := t.held[0], a.quick, time.Now()
	if t.slow {
		from = a.slow
	}
	t.pace = quickPace
	if now.Sub(t.since) > a.patience+allowed(n) {
		t.pace = slowPace
	}
	t.held, t.total, t.since = slices.Delete(t.held, 0, 1), t.total-n, now
	if len(t.held) == 0 {
		delete(a.takers, t)
	}
	a.mu.Unlock()
	from.Release(n)
}

// allowed is how long so many bytes may take.
func allowed(n int64) time.Duration { return time.Duration(n) * time.Second / paceRate }

// wait has somebody look who is slow for as long as one waits for the quick half, which is until waited.
func (a *allowance) wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting++; !a.looking {
		a.looking = true
		go a.watch()
	}
}

func (a *allowance) waited() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
}

// watch makes space as long as somebody waits.
func (a *allowance) watch() {
	for {
		time.Sleep(a.look)
		a.mu.Lock()
		if a.waiting == 0 {
			a.looking = false
			a.mu.Unlock()
			return
		}
		worst := a.makeRoom(time.Now())
		a.mu.Unlock()
		if worst != nil {
			worst.cut()
		}
	}
}

// makeRoom moves what slow clients hold to their half. Of those for which that has no space, and that had time enough,
// it returns the one that has taken longest, to be sent away; nil: there is none. mu is held.
func (a *allowance) makeRoom(now time.Time) (worst *taker) {
	for t := range a.takers {
		spent := now.Sub(t.since) - allowed(t.held[0])
		if spent <= a.patience {
			continue
		}
		t.pace = slowPace
		switch {
		case a.slow.TryAcquire(t.total):
			delete(a.takers, t)
			t.slow = true
			a.quick.Release(t.total)
		case spent > a.lastPatience && (worst == nil || t.since.Before(worst.since)):
			worst = t
		}
	}
	return worst
}
