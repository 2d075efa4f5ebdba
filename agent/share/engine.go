// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"errors"
	"fmt"
	"time"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// Engine returns an engine of an accelerator that is a policy.Gate besides, and asks the account. The time of its calls
// is counted by whoever counts for the account.
func Engine(e codec.Engine, account *Account) codec.Engine { return gated{e, account} }

type gated struct {
	codec.Engine
	account *Account
}

// Unwrap implements codec.Wrapped.
func (g gated) Unwrap() codec.Engine { return g.Engine }

// Enter implements policy.Gate.
func (g gated) Enter(patient bool) policy.Reason { return g.account.Enter(patient) }

const (
	// probeSize is the length of what is compressed to probe an accelerator, in bytes.
	probeSize = 64 << 10
	// probeTries are how often it is tried while agents leave the accelerator alone, settles after that began, for calls
	// that are under way, and with a gap after each.
	probeTries        = 5
	settles, probeGap = 6 * time.Millisecond, 2 * time.Millisecond
	// probeTime is how much of the quiet time has to be left for a try.
	probeTime = 5 * time.Millisecond
)

var errNotUsed = errors.New("the library did not use the accelerator")

// Prober returns a function that says how long an accelerator takes for 64 KiB, at best of several times that begin
// before a time: one that has to wait for a processor, or behind a call of an agent, says nothing. It returns 0 where
// it is too late for a try. The function is not safe for concurrent use; close frees what it holds.
func Prober(e codec.Engine) (probe func(until time.Time) (time.Duration, error), closeIt func() error, err error) {
	encoder, err := codec.NewLowestEncoder(e)
	if err != nil {
		return nil, nil, fmt.Errorf("make an encoder to probe the accelerator: %w", err)
	}
	plain := calibrate.Sample(probeSize)
	packed := make([]byte, len(plain))
	return func(until time.Time) (time.Duration, error) {
		least := time.Duration(0)
		for range probeTries {
			begun := time.Now()
			left := until.Sub(begun)
			if left < probeTime {
				break
			}
			_, err := encoder.Encode(packed, plain)
			took := min(max(time.Since(begun), 1), left) // after that agents may have been in the way
			if err != nil {
				return 0, fmt.Errorf("probe the accelerator: %w", err)
			}
			if w, ok := encoder.(codec.Witness); !ok || !w.UsedHardware() {
				return 0, fmt.Errorf("probe the accelerator: %w", errNotUsed)
			}
			if least == 0 || took < least {
				least = took
			}
			time.Sleep(probeGap)
		}
		return least, nil
	}, encoder.Close, nil
}
