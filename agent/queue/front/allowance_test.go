// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// ledger counts what was transformed and not written yet.
type ledger struct {
	upper
	mu        sync.Mutex
	now, most int
}

func (l *ledger) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += n
	l.most = max(l.most, l.now)
}

func (l *ledger) transform(out, in []byte) ([]byte, error) {
	l.add(len(in))
	return l.upper.transform(out, in)
}

// gate writes when it is open.
type gate struct {
	*ledger
	open chan struct{}
	bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.add(-len(b))
	return g.Buffer.Write(b)
}

// TestAllowance: several connections hold no more than the allowance, whatever the length of a message, and each of
// them comes to its end, also while others take nothing and hold most of a half.
func TestAllowance(t *testing.T) {
	const message, size = 30_000, 300_000
	one := "PUB a 030000\r\n" + strings.Repeat("x", message) + "\r\n"
	l := &ledger{upper: upper{1 << 20}}
	a := newAllowance(size)
	turns := make(chan struct{}, 8)
	var all sync.WaitGroup
	run := func(g *gate, in string) {
		p := newPump(&slow{[]byte(in), 1 << 20}, g, l, turns)
		p.memory, p.taker, p.context = a, &taker{cut: func() {}}, t.Context()
		if err := p.run(nil); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if g.Len() != len(in) {
			t.Errorf("%d bytes of %d arrive", g.Len(), len(in))
		}
	}
	opened := make(chan struct{})
	close(opened)
	stuck := make(chan struct{})
	for range 4 {
		all.Go(func() { run(&gate{ledger: l, open: stuck}, strings.Repeat(one, 20)) })
	}
	for l.peak() < 4*message { // the first part of each has one
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		run(&gate{ledger: l, open: opened}, strings.Repeat(one, 20))
	}
	close(stuck)
	all.Wait()
	if most := l.peak(); most > size/message*len(one) { // memory is granted for what is in messages
		t.Errorf("%d bytes were held at once; the allowance is %d", most, size)
	}
	// What is more than all there is passes alone.
	huge := "PUB a 200000\r\n" + strings.Repeat("y", 200_000) + "\r\n"
	run(&gate{ledger: l, open: opened}, huge+huge+one)
}

func (l *ledger) peak() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// TestAllowanceEnds: who waits for memory stops when its connection ends.
func TestAllowanceEnds(t *testing.T) {
	a := newAllowance(100)
	aside, all, other := &taker{}, &taker{}, &taker{}
	for _, c := range []*taker{aside, all} {
		if err := a.take(t.Context(), 1000, c); err != nil || c.slow != (c == aside) {
			t.Fatalf("%v; of the half for slow ones: %v", err, c.slow)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.take(ctx, 1, other); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if a.try(1, other) {
		t.Error("who holds none was given more")
	}
	a.end(all)
	if err := a.take(t.Context(), 10, other); err != nil {
		t.Error(err)
	}
}

// TestPace: only who has taken a part quickly gets memory for more at once, and for a quarter of the half; who was slow
// gets it of the half for slow ones, until one part was quick.
func TestPace(t *testing.T) {
	a := newAllowance(800)
	quickly := func(yes bool) {
		if a.patience = time.Hour; !yes {
			a.patience = -time.Hour
		}
	}
	c := &taker{}
	take := func(n int, wantSlow bool) {
		t.Helper()
		if err := a.take(t.Context(), n, c); err != nil || c.slow != wantSlow {
			t.Fatalf("%v; of the half for slow ones: %v", err, c.slow)
		}
	}
	quickly(true)
	take(40, false)
	if a.try(10, c) {
		t.Error("nobody knows whether it is quick")
	}
	a.end(c)
	take(40, false)
	if !a.try(60, c) || a.try(1, c) {
		t.Error("a quick one is given less than a quarter, or more")
	}
	quickly(false)
	a.end(c)
	if a.try(1, c) {
		t.Error("a slow one gets memory for more than one part")
	}
	a.end(c)
	take(40, true)
	quickly(true)
	a.end(c)
	take(40, false)
	a.end(c)
	take(200, true) // it takes long in any case
	a.end(c)
	if !a.quick.TryAcquire(400) || !a.slow.TryAcquire(400) || len(a.takers) > 0 {
		t.Errorf("something is not given back; %d are watched", len(a.takers))
	}
}

// TestSlowMakeRoom: what slow clients hold does not keep others from anything, as far as there is space for them in
// their half; where there is none, the one that has taken longest is sent away.
func TestSlowMakeRoom(t *testing.T) {
	a := newAllowance(800)
	a.patience, a.lastPatience, a.look = -time.Hour, time.Hour, time.Millisecond
	var cut []int
	var mu sync.Mutex
	clients := make([]*taker, 8)
	for i := range clients {
		clients[i] = &taker{cut: func() {
			mu.Lock()
			defer mu.Unlock()
			cut = append(cut, i)
			a.end(clients[i]) // as what was written fails
		}}
		// Each has a part that is not written. The fifth and those after it wait until those before it have been moved.
		if err := a.take(t.Context(), 90, clients[i]); err != nil {
			t.Fatal(err)
		}
	}
	a.mu.Lock()
	for i, c := range clients {
		if c.slow != (i < 4) {
			t.Errorf("client %d is among the slow ones: %v", i, c.slow)
		}
	}
	a.lastPatience = -time.Hour
	a.mu.Unlock()
	if err := a.take(t.Context(), 90, &taker{cut: func() {}}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	// More than one only if this test did not see for a while that one was enough.
	for i, c := range cut {
		if c != 4+i {
			t.Errorf("%v were sent away, want first who held longest of those for which there was no room", cut)
		}
	}
	if len(cut) == 0 {
		t.Error("there was no room, and nobody was sent away")
	}
}

func TestExcess(t *testing.T) {
	for _, test := range []struct {
		pending []int
		limit   int
		want    []int
	}{
		{nil, 10, nil}, {[]int{3, 4}, 10, nil}, {[]int{5, 5}, 10, nil}, {[]int{5, 6}, 10, []int{6}},
		{[]int{1, 9, 8, 2}, 10, []int{9, 8}}, {[]int{11}, 10, []int{11}},
	} {
		var pending, want []store.Pending
		for _, n := range test.pending {
			pending = append(pending, store.Pending{Client: uint64(n), Bytes: n})
		}
		for _, n := range test.want {
			want = append(want, store.Pending{Client: uint64(n), Bytes: n})
		}
		if got := excess(pending, test.limit); !reflect.DeepEqual(got, want) {
			t.Errorf("%v of %v are too much beyond %d; want %v", got, test.pending, test.limit, want)
		}
	}
}
