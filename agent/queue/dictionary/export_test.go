// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"context"
	"runtime"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Marshal is what is kept of a dictionary, and ErrEntry says that something is not.
var (
	Marshal  = marshal
	ErrEntry = errEntry
)

// ParseEntry reads what is kept.
func ParseEntry(number uint32, data []byte) (*wirev1.QueueDictionary, []byte, error) {
	e, err := parseEntry(number, data)
	return e.about, e.content, err
}

// Adopt keeps a dictionary and puts it into use.
func (k *Keeper) Adopt(ctx context.Context, about *wirev1.QueueDictionary, content []byte) error {
	if err := k.Refresh(ctx); err != nil {
		return err
	}
	_, now := k.state()
	return k.adopt(ctx, about, content, now.sequence)
}

// Retire is a look of a member that leads.
func (k *Keeper) Retire(ctx context.Context) error {
	if err := k.Refresh(ctx); err != nil {
		return err
	}
	s, now := k.state()
	return k.retire(ctx, s, now)
}

// Look is one of Run.
func (k *Keeper) Look(ctx context.Context) { k.look(ctx) }

// InUse is the number of the dictionary that the store says is in use, as it was read last; 0: none.
func (k *Keeper) InUse() uint32 {
	_, now := k.state()
	return now.current
}

// Settle changes Timing.Settle of one that does not run.
func (k *Keeper) Settle(d time.Duration) { k.timing.Settle = d }

// OfferUntilKept is Offer, again and again while somebody else is at the samples.
func (k *Keeper) OfferUntilKept(plain []byte) {
	for !k.samples.offer(plain) {
		runtime.Gosched()
	}
}

// Samples is how many messages it has to train on.
func (k *Keeper) Samples() int { return len(k.samples.recent()) }
