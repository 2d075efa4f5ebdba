// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/transport"
)

// Lease is how long a share holds.
const Lease = lease

// Probed takes in how long a probe took.
func (b *Broker) Probed(took time.Duration) { b.probed(took) }

// Pause has a broker hold answers back by another clock.
func (b *Broker) Pause(pause func(context.Context, time.Duration)) { b.pause = pause }

// Sleep has an account wait by another clock.
func (a *Account) Sleep(sleep func(time.Duration)) { a.sleep = sleep }

// Grant gives an account a lease.
func (a *Account) Grant(rate float64, contended bool) { a.grant(rate, contended) }

// Fill has as many agents of a namespace draw as may.
func (b *Broker) Fill(t *testing.T, namespace string) {
	t.Helper()
	for i := range maxOfNamespace {
		who := transport.ShareCaller{Namespace: namespace, Kind: "transfer", Name: fmt.Sprint("filler", i)}
		if _, _, _, err := b.draw(who, Drawn{}); err != nil {
			t.Fatal(err)
		}
	}
}
