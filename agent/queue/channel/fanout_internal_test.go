// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"testing"
)

// What the consumer delivers wakes all senders that look for messages, also while the slowest of them keeps everything.
func TestFanoutWakes(t *testing.T) {
	t.Parallel()
	f := NewFanout(FanoutOptions{})
	one, other := (&share{fanout: f}).news(), (&share{fanout: f}).news()
	ctx, cancel := context.WithCancel(t.Context())
	delivered, letters := make(chan *letter), make(chan *letter, 1)
	ended := make(chan error)
	go func() { ended <- f.tell(ctx, delivered, letters) }()
	delivered <- &letter{sequence: 1}
	<-one
	<-other
	select {
	case <-(&share{fanout: f}).news():
		t.Error("there is news again")
	default:
	}
	if l := <-letters; l.sequence != 1 {
		t.Errorf("message %d", l.sequence)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
