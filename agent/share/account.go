// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/policy"
)

const (
	// burst is for how long a share that was not used can be used later.
	burst = 50 * time.Millisecond
	// mostDebt is for how long a share is paid back at most. Calls that are under way when a share is used up, and what
	// is inflated, which nothing holds back, make debts.
	mostDebt = 10 * time.Second
	// patience is how long the accelerator is waited for where software may not compress.
	patience = time.Second
	// quietEvery and quiet: agents leave the accelerator alone at the end of every two seconds of the node's clock, which
	// all of its containers read, so that the node agent sees what others do there. A lease ends that.
	quietEvery, quiet = 2 * time.Second, 20 * time.Millisecond
	// shortest and longest are how long a patient caller sleeps before it looks again. Its share may change meanwhile.
	shortest, longest = 5 * time.Millisecond, 100 * time.Millisecond
)

// Account keeps an agent to its share of an accelerator. Without a lease it may use the accelerator as it likes. It is
// safe for concurrent use and implements policy.Gate.
type Account struct {
	now func() time.Time
	// spent is how long the accelerator worked for this process, since it started.
	spent func() time.Duration
	// sleep is replaced in tests.
	sleep func(time.Duration)

	mu        sync.Mutex
	until     time.Time // when the lease ends; zero: there never was one
	rate      float64   // nanoseconds of the accelerator for each second
	contended bool
	balance   float64 // nanoseconds
	counted   time.Duration
	updated   time.Time
	refused   uint64
}

// NewAccount returns an account without a lease. spent is how long the accelerator worked for this process since that
// started, without what calls waited for each other; now nil: time.Now.
func NewAccount(spent func() time.Duration, now func() time.Time) *Account {
	if now == nil {
		now = time.Now
	}
	return &Account{now: now, spent: spent, sleep: time.Sleep}
}

// Enter implements policy.Gate. A patient caller waits for up to a second and then uses the accelerator in any case.
func (a *Account) Enter(patient bool) policy.Reason {
	reason, wait := a.enter(1)
	if !patient {
		return reason
	}
	for deadline := a.now().Add(patience); reason != ""; reason, wait = a.enter(0) {
		left := deadline.Sub(a.now())
		if left <= 0 {
			break
		}
		a.sleep(min(wait, left))
	}
	return ""
}

// enter returns why the accelerator may not be used now, and when to look again, and counts that as so many refusals.
func (a *Account) enter(refusals uint64) (reason policy.Reason, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if !now.Before(a.until) {
		return "", 0
	}
	a.update(now)
	switch {
	case a.balance <= 0:
		a.refused += refusals
		wait = longest
		if a.rate > 0 {
			wait = time.Duration(min(-a.balance/a.rate, longest.Seconds()) * 1e9)
		}
	case isQuiet(now): // which says nothing about what the agent wants
		wait = quiet
	default:
		return "", 0
	}
	wait = max(wait, shortest)
	if a.contended {
		return policy.AcceleratorBusy, wait
	}
	return policy.AcceleratorShare, wait
}

// update brings the balance up to date. The caller holds a.mu.
func (a *Account) update(now time.Time) {
	spent := a.spent()
	least := min(a.balance, -a.rate*mostDebt.Seconds()) // a smaller rate forgives no debt
	a.balance += a.rate*now.Sub(a.updated).Seconds() - float64(spent-a.counted)
	a.balance = min(max(a.balance, least), a.rate*burst.Seconds())
	a.counted, a.updated = spent, now
}

// isQuiet reports whether agents leave the accelerator alone.
func isQuiet(now time.Time) bool {
	return time.Duration(now.UnixNano()%int64(quietEvery)) >= quietEvery-quiet
}

// nextQuiet returns when agents next begin to leave the accelerator alone.
func nextQuiet(now time.Time) time.Time {
	wait := quietEvery - quiet - time.Duration(now.UnixNano()%int64(quietEvery))
	if wait <= 0 {
		wait += quietEvery
	}
	return now.Add(wait)
}

// grant gives the account a lease.
func (a *Account) grant(rate float64, contended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if now.Before(a.until) {
		a.update(now)
	} else {
		a.balance, a.counted, a.updated = rate*burst.Seconds(), a.spent(), now
	}
	a.rate, a.contended, a.until = rate, contended, now.Add(lease)
}

// drawn is what the broker is to be told.
func (a *Account) drawn() Drawn {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Drawn{Used: uint64(max(a.spent(), 0)), Refused: a.refused}
}

func (a *Account) leased() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now().Before(a.until)
}
