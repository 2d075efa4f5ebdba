// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lighterage/lighterage/agent/queue/classes"
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

func (l *ledger) execute(out []byte, g *generation, steps []step) ([]byte, error) {
	before := len(out)
	out, err := l.upper.execute(out, g, steps)
	l.add(len(out) - before)
	return out, err
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

// TestMemory: several connections hold no more than there is, whatever the length of a message, and each of
// them comes to its end, also while others take nothing.
func TestMemory(t *testing.T) {
	const message, size = 30_000, 600_000
	one := "PUB a 030000\r\n" + strings.Repeat("x", message) + "\r\n"
	l := &ledger{upper: upper{1 << 20}}
	m, f := newMemory(size), working(8)
	var all sync.WaitGroup
	run := func(g *gate, in string) {
		p := newPump(f, &slow{[]byte(in), 1 << 20}, g, l)
		p.memory, p.context = newAccount(m), t.Context()
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
		t.Errorf("%d bytes were held at once; the bound is %d", most, size)
	}
	// What is more than all there is passes alone.
	huge := "PUB a 1000000\r\n" + strings.Repeat("y", 1_000_000) + "\r\n"
	run(&gate{ledger: l, open: opened}, huge+huge+one)
}

func (l *ledger) peak() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// TestMemoryInTurn: who holds memory gets more only if it is free and of a part of its own; who holds none waits,
// until it is there or the connection ends.
func TestMemoryInTurn(t *testing.T) {
	m := newMemory(100)
	one, other := newAccount(m), newAccount(m)
	first, err := one.take(t.Context(), 1000)
	if err != nil || first.n != 75 {
		t.Fatalf("%+v, %v", first, err)
	}
	further, err := one.take(t.Context(), 25)
	if err != nil || further.of == first.of || one.delays() {
		t.Fatalf("%+v, %v; it delays others: %v", further, err, one.delays())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, a := range []*account{one, other} {
		if _, err := a.take(ended, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("more than there is: %v", err)
		}
	}
	taken := make(chan error)
	go func() {
		_, err := other.take(t.Context(), 75)
		taken <- err
	}()
	for !one.delays() {
		time.Sleep(time.Millisecond)
	}
	if other.delays() {
		t.Error("who holds nothing delays others")
	}
	one.give(first)
	if err := <-taken; err != nil || one.delays() {
		t.Errorf("%v; it delays others: %v", err, one.delays())
	}
	one.give(further)
	if held := one.held.Load(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	// One connection holds a bounded part of what is free.
	m = newMemory(16 * maxHeld)
	one = newAccount(m)
	for range 2 {
		if _, err := one.take(t.Context(), maxHeld/2); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.take(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("beyond what one may hold: %v", err)
	}
}

// TestSlowHolder: a client that takes slowly is disconnected only while it holds memory that others wait for.
func TestSlowHolder(t *testing.T) {
	for name, test := range map[string]struct{ holds, others, want bool }{
		"alone": {true, false, false}, "without memory": {false, true, false}, "in the way": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(100)
				f := &Front{
					options: Options{Log: slog.New(slog.DiscardHandler)}, classes: classes.New("orders", false, nil),
				}
				f.slow.Store(&defaultSlow)
				ours, theirs := net.Pipe()
				c := &conn{front: f, outer: ours, memory: newAccount(m)}
				holder := newAccount(m)
				if test.holds {
					holder = c.memory
				}
				if _, err := holder.take(t.Context(), 100); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var beside sync.WaitGroup
				if test.others {
					beside.Go(func() { _, _ = newAccount(m).take(ctx, 1) })
				}
				beside.Go(func() { // some 25 KB/s
					for buf := make([]byte, writeChunk); ; time.Sleep(10 * time.Second) {
						if _, err := io.ReadFull(theirs, buf); err != nil {
							return
						}
					}
				})
				n, err := c.write(make([]byte, 10*writeChunk))
				if cut := errors.Is(err, errSlow); cut != test.want || c.parting.Load() != test.want || !cut && err != nil {
					t.Errorf("after %d bytes: %v", n, err)
				}
				_ = ours.Close()
				cancel()
				beside.Wait()
			})
		})
	}
}

// TestShed: of the clients for which the server holds too much, those go for which it is most, as few as possible.
func TestShed(t *testing.T) {
	for _, test := range []struct {
		pending []int
		limit   int
		want    []int
	}{
		{nil, 10, nil}, {[]int{4, 3}, 10, nil}, {[]int{5, 5}, 10, nil}, {[]int{6, 5}, 10, []int{6}},
		{[]int{9, 8, 2, 1}, 10, []int{9, 8}}, {[]int{11}, 10, []int{11}},
	} {
		f := &Front{
			options: Options{Log: slog.New(slog.DiscardHandler)}, conns: make(map[*conn]struct{}),
			classes: classes.New("orders", false, nil),
		}
		var pending []store.Pending
		var got []int
		for _, n := range test.pending {
			pending = append(pending, store.Pending{Client: uint64(n), Bytes: n})
			ours, _ := net.Pipe()
			c := &conn{front: f, outer: ours, serverID: uint64(n), cancel: func() { got = append(got, n) }}
			c.greeted.Store(true)
			f.conns[c] = struct{}{}
		}
		if f.shed(pending, test.limit); !slices.Equal(got, test.want) {
			t.Errorf("%v of %v are disconnected beyond %d; want %v", got, test.pending, test.limit, test.want)
		}
	}
}
