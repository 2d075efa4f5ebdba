// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build security

package security

import (
	"testing"
	"time"
)

// TestEavesdropperHoldsAWay: somebody who read a channel's server name off the wire holds as many connections under it
// as a way has, in silence or with a certificate of another CA. Who may send still connects, from the same address; and
// a channel that the Queue has authenticated stays.
//
// M2: 128 connections took the way.
func TestEavesdropperHoldsAWay(t *testing.T) {
	w := newWay(t)
	before := w.sender(t)
	for range 300 { // answers of more than a handshake's length
		exchange(t, before)
	}
	const held = 128
	f := flood{
		Address: w.west.Address, ServerName: w.name, Sources: []string{"127.0.0.1"},
		First: held, Handshakes: 30, Silent: 30, Duration: 3 * time.Second,
	}
	ended := f.start(t)
	after := time.After(f.Duration)
	const attempts = 5
	evicted := 0
	for flooded := true; flooded; {
		select {
		case <-after:
			flooded = false
		default:
			// The connections that come in one burst may evict a sender within its handshake; it connects again, as
			// agents do.
			sender, err := w.connect(t)
			for i := 1; err != nil && i < attempts; i++ {
				evicted++
				sender, err = w.connect(t)
			}
			if err != nil {
				t.Fatalf("%d attempts to connect failed, the last one with: %v", attempts, err)
			}
			exchange(t, sender)
			exchange(t, before)
		}
	}
	result := ended()
	t.Logf("the eavesdropper: %d handshakes, CPU of the generator %s; %d connections reached the Queue; %d attempts of "+
		"senders failed",
		result.Handshakes, result.CPU, w.arrived.Load(), evicted)
	if w.arrived.Load() < held {
		t.Errorf("only %d connections reached the Queue", w.arrived.Load())
	}
}
