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
	// look is how often it is looked whether it may be used.
	look = 5 * time.Millisecond
)

// Account keeps an agent to its share of an accelerator. Without a lease it may use the accelerator as it likes. It is
// safe for concurrent use and implements policy.Gate.
type Account struct {
	now func() time.Time
	// spent is how long this process was in calls, since it started.
	spent func() time.Duration
	// sleep is replaced in tests.
	sleep func(time.Duration)

	mu        sync.Mutex
	until     time.Time // when the lease ends; zero: there never was one
	rate      float64   // nanoseconds in calls for each second
	contended bool
	balance   float64 // nanoseconds
	counted   time.Duration
	updated   time.Time
	refused   uint64
}

// NewAccount returns an account without a lease. spent is how long this process was in calls of the accelerator since
// it started; now nil: time.Now.
func NewAccount(spent func() time.Duration, now func() time.Time) *Account {
	if now == nil {
		now = time.Now
	}
	return &Account{now: now, spent: spent, sleep: time.Sleep}
}

// Enter implements policy.Gate. Who is patient waits up to a second, and then has the accelerator in any case.
func (a *Account) Enter(patient bool) policy.Reason {
	reason := a.enter(1)
	if !patient {
		return reason
	}
	for deadline := a.now().Add(patience); reason != "" && a.now().Before(deadline); reason = a.enter(0) {
		a.sleep(look)
	}
	return ""
}

// enter returns why the accelerator may not be used now, and counts that as so many refusals.
func (a *Account) enter(refusals uint64) policy.Reason {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if !now.Before(a.until) {
		return ""
	}
	if a.update(now); a.balance > 0 {
		return ""
	}
	a.refused += refusals
	if a.contended {
		return policy.AcceleratorBusy
	}
	return policy.AcceleratorShare
}

// update brings the balance up to date. The caller holds a.mu.
func (a *Account) update(now time.Time) {
	spent := a.spent()
	a.balance += a.rate*now.Sub(a.updated).Seconds() - float64(spent-a.counted)
	a.balance = min(max(a.balance, -a.rate*mostDebt.Seconds()), a.rate*burst.Seconds())
	a.counted, a.updated = spent, now
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
