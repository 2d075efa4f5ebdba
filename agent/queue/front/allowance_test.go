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

// TestAllowance: several connections hold no more than the allowance, whatever the length of a message, and each of them comes to its end,
// also while another takes nothing.
func TestAllowance(t *testing.T) {
	const message, size = 30_000, 300_000
	one := "PUB a 030000\r\n" + strings.Repeat("x", message) + "\r\n"
	l := &ledger{upper: upper{1 << 20}}
	a := newAllowance(size)
	turns := make(chan struct{}, 8)
	var all sync.WaitGroup
	run := func(g *gate, in string) {
		p := newPump(&slow{[]byte(in), 1 << 20}, g, l, turns)
		p.memory, p.context = a, t.Context()
		if err := p.run(nil); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if g.Len() != len(in) {
			t.Errorf("%d bytes of %d arrive", g.Len(), len(in))
		}
	}
	opened := make(chan struct{})
	close(opened)
	stuck := &gate{ledger: l, open: make(chan struct{})}
	all.Go(func() { run(stuck, strings.Repeat(one, 20)) })
	for l.peak() == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		run(&gate{ledger: l, open: opened}, strings.Repeat(one, 20))
	}
	close(stuck.open)
	all.Wait()
	if most := l.peak(); most > size {
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
	held, err := a.take(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.take(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, ok := a.try(50); !ok {
		t.Error("connections that hold some have no part of their own")
	}
	if _, ok := a.try(1); ok {
		t.Error("more was given than there is")
	}
	if !held.end() || (grant{}).end() {
		t.Error("what is given back is not what was taken")
	}
	if _, err := a.take(t.Context(), 50); err != nil {
		t.Error(err)
	}
}

func TestExcess(t *testing.T) {
	for _, test := range []struct {
		pending []int
		limit   int
		want    []int
	}{
		{nil, 10, nil}, {[]int{3, 4}, 10, nil}, {[]int{5, 5}, 10, nil}, {[]int{5, 6}, 10, []int{6}}, {[]int{1, 9, 8, 2}, 10, []int{9, 8}}, {[]int{11}, 10, []int{11}},
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
