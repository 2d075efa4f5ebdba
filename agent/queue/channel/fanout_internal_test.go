// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"slices"
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

// A message that is redelivered while it waits for a receiver takes no space behind itself; one that all have is
// acknowledged once more.
func TestFanoutRedelivered(t *testing.T) {
	t.Parallel()
	f := NewFanout(FanoutOptions{Names: []string{"a"}})
	f.open()
	delivered, letters := make(chan *letter), make(chan *letter, 5)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.tell(ctx, delivered, letters) }()
	for _, sequence := range []uint64{1, 2, 1, 2, 3} {
		delivered <- &letter{sequence: sequence}
	}
	s, err := f.join(ctx, "a", position{sequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, sequence := range []uint64{1, 2} {
		delivered <- &letter{sequence: sequence}
	}
	s.stored(2)
	delivered <- &letter{sequence: 2}
	delivered <- &letter{sequence: 3} // tell has passed on what came before
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(letters)
	var got []uint64
	for l := range letters {
		got = append(got, l.sequence)
	}
	if want := []uint64{1, 2, 3, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("messages %d, want %d", got, want)
	}
}
