// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/tree"
)

// placesOf returns places that read and write codecs.
func placesOf(t *testing.T, budget int64, n int, codecs ...codec.ID) (*spool, []*Place) {
	t.Helper()
	names := []string{"a", "b", "c", "d"}[:n]
	places, err := NewFan(FanOptions{Spool: budget}, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		p.reads, p.writes, p.joinable = codecs, codecs, true
	}
	return &places[0].fan.spool, places
}

func blockOf(id codec.ID, bytes int) *block {
	return &block{header: frame.Header{Codec: id}, payload: make([]byte, bytes)}
}

// takes has a place take a block, and reports whether it had to make it.
func takes(t *testing.T, s *spool, p *Place, key byte, at int64, b *block) bool {
	t.Helper()
	got, made, err := s.take(t.Context(), p, blockKey{key}, at, func() (*block, error) { return b, nil })
	if err != nil || got == nil {
		t.Fatal(got, err)
	}
	return made
}

func TestSpoolKeepsWhatOthersNeed(t *testing.T) {
	s, p := placesOf(t, 1<<20, 3, codec.None, codec.Deflate)
	b := blockOf(codec.Deflate, 1000)
	for i, want := range []bool{true, false, false} {
		if made := takes(t, s, p[i], 1, 0, b); made != want {
			t.Errorf("place %d made it: %v", i, made)
		}
	}
	if s.used != 0 || len(s.blocks) != 0 || s.order.Len() != 0 {
		t.Errorf("all have it, and %d bytes are kept", s.used)
	}
	// Nobody else is left behind it.
	takes(t, s, p[0], 2, 10*behind, b)
	takes(t, s, p[1], 3, 10*behind, b)
	p[2].Leave()
	if !takes(t, s, p[0], 4, 0, b) || s.used == 0 {
		return
	}
	for k := range s.blocks {
		if k == (blockKey{4}) {
			t.Error("a block is kept that nobody needs")
		}
	}
}

func TestSpoolIsBounded(t *testing.T) {
	const budget = 10_000
	s, p := placesOf(t, budget, 2, codec.None)
	for i := range 100 {
		takes(t, s, p[0], byte(i), int64(i), blockOf(codec.None, 1000))
		if s.used > budget {
			t.Fatalf("%d bytes are kept", s.used)
		}
	}
	if takes(t, s, p[1], 99, 99, blockOf(codec.None, 1)) || !takes(t, s, p[1], 0, 0, blockOf(codec.None, 1)) {
		t.Error("not the oldest blocks are gone")
	}
	if takes(t, s, p[0], 200, 200, blockOf(codec.None, budget)); s.used > budget {
		t.Errorf("%d bytes are kept", s.used)
	}
	// What one that has left made is there for the others.
	takes(t, s, p[0], 201, 201, blockOf(codec.None, 10))
	p[0].Leave()
	if takes(t, s, p[1], 201, 201, blockOf(codec.None, 10)) {
		t.Error("a block is gone with its maker")
	}
	p[1].Leave()
	if s.used != 0 || len(s.blocks) != 0 {
		t.Errorf("%d bytes are kept for nobody", s.used)
	}
}

// Who does not read what is there makes its own, and does not wait for what it may not read.
func TestSpoolOfDifferentReaders(t *testing.T) {
	s, p := placesOf(t, 1<<20, 3, codec.None, codec.Deflate)
	p[0].reads = append(p[0].reads, codec.Zstd)
	p[0].writes = p[0].reads
	making, goOn := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_, _, err := s.take(t.Context(), p[0], blockKey{1}, 0, func() (*block, error) {
			close(making)
			<-goOn
			return blockOf(codec.Zstd, 10), nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-making
	if !takes(t, s, p[1], 1, 0, blockOf(codec.Deflate, 20)) {
		t.Error("a block that may be zstd was taken")
	}
	if takes(t, s, p[2], 1, 0, blockOf(codec.Deflate, 30)) {
		t.Error("a block of deflate was there")
	}
	close(goOn)
	running.Wait()
	// Neither is one that is stored because its maker's receiver reads nothing else.
	stored := blockOf(codec.None, 20)
	stored.stored, p[0].writes = true, []codec.ID{codec.None}
	takes(t, s, p[0], 3, 0, stored)
	if !takes(t, s, p[1], 3, 0, blockOf(codec.Deflate, 20)) {
		t.Error("a block that is stored for another was taken")
	}
	// A joinable block is not for all either.
	joined := blockOf(codec.Deflate, 20)
	joined.header.Joinable = true
	p[2].joinable = false
	takes(t, s, p[1], 2, 0, joined)
	if !takes(t, s, p[2], 2, 0, blockOf(codec.Deflate, 20)) {
		t.Error("a joinable block was taken")
	}
}

// Where one cannot make a block another of those who wait does, once.
func TestSpoolAfterAFailure(t *testing.T) {
	s, p := placesOf(t, 1<<20, 4, codec.None)
	failed := errors.New("cannot be read")
	making, goOn := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_, _, err := s.take(t.Context(), p[0], blockKey{1}, 0, func() (*block, error) {
			close(making)
			<-goOn
			return nil, failed
		})
		if !errors.Is(err, failed) {
			t.Errorf("the one who failed got %v", err)
		}
	})
	<-making
	ctx, cancel := context.WithCancel(t.Context())
	var made atomic.Int32
	for _, place := range p[1:3] {
		running.Go(func() {
			b, _, err := s.take(t.Context(), place, blockKey{1}, 0, func() (*block, error) {
				made.Add(1)
				return blockOf(codec.None, 1), nil
			})
			if b == nil || err != nil {
				t.Errorf("another got %v, %v", b, err)
			}
		})
	}
	cancel()
	_, _, err := s.take(ctx, p[3], blockKey{1}, 0, func() (*block, error) { return nil, failed })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("one who does not wait any longer got %v", err)
	}
	close(goOn)
	running.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("it was made %d times", n)
	}
}

// Everything that is spent is booked, nothing of it twice, and what is booked never falls.
func TestShares(t *testing.T) {
	p, err := NewFan(FanOptions{}, "a", "b", "c")
	if err != nil {
		t.Fatal(err)
	}
	s := &p[0].fan.shares
	s.compress.Add(9_000)
	s.sent(p[0], 100)
	s.sent(p[1], 200)
	if a, b, c := s.booked(p[0]), s.booked(p[1]), s.booked(p[2]); a.compress != 3_000 || b.compress != 6_000 ||
		c.compress != 0 {
		t.Errorf("booked are %v, %v and %v", a, b, c)
	}
	p[1].Leave()
	s.compress.Add(1_000)
	s.read.Add(500)
	left := s.booked(p[1])
	if a, c := s.booked(p[0]), s.booked(p[2]); a.compress != 3_500 || c.compress != 500 || a.read != 250 || c.read != 250 {
		t.Errorf("booked are %v and %v where nothing was sent", a, c)
	}
	if again := s.booked(p[1]); again != left || left.compress != 6_000 {
		t.Errorf("booked for one that has left are %v, then %v", left, again)
	}
	p[0].Leave()
	p[2].Leave()
	var total uint64
	for _, place := range p {
		total += s.booked(place).process
	}
	if total > s.divided.process || total+10 < s.divided.process {
		t.Errorf("%d ns are booked of %d", total, s.divided.process)
	}
}

// A digest is computed once for those that wait, and for each where that fails.
func TestSums(t *testing.T) {
	var s sums
	failed := errors.New("cannot be read")
	begun, goOn := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	for _, want := range []error{nil, failed} {
		identity := []byte{byte(len(s.order))}
		running.Go(func() {
			_, _, err := s.get(t.Context(), identity, nil, func() (int64, [32]byte, error) {
				begun <- struct{}{}
				<-goOn
				return 5, [32]byte{1}, want
			})
			if !errors.Is(err, want) {
				t.Errorf("the first got %v", err)
			}
		})
		<-begun
		var reads atomic.Int32
		for range 3 {
			running.Go(func() {
				size, digest, err := s.get(t.Context(), identity, func() error { return nil }, func() (int64, [32]byte, error) {
					reads.Add(1)
					return 5, [32]byte{1}, nil
				})
				if size != 5 || digest != [32]byte{1} || err != nil {
					t.Errorf("another got %d bytes, %x, %v", size, digest, err)
				}
			})
		}
		goOn <- struct{}{}
		running.Wait()
		if n := reads.Load(); (n > 0) != (want != nil) {
			t.Errorf("it was read %d times by others; the first got %v", n, want)
		}
	}
	for i := range 2 * maxSums {
		_, _, err := s.get(t.Context(), []byte{1, byte(i), byte(i >> 8), byte(i >> 16)}, nil, func() (int64, [32]byte, error) {
			return 0, [32]byte{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(s.all) != maxSums || len(s.order) != maxSums {
		t.Errorf("%d digests are kept", len(s.all))
	}
}

// listed is a source of entries without content that counts its walks.
type listed struct {
	Source
	entries []*tree.Entry
	walks   atomic.Int32
	err     error
}

func (l *listed) Walk(_ context.Context, visit func(*tree.Entry) error) error {
	l.walks.Add(1)
	for _, e := range l.entries {
		if err := visit(e); err != nil {
			return err
		}
	}
	return l.err
}

// follow has an attempt follow a walk and calls a function after so many entries. It reports whether it walked alone.
func (l *listed) follow(t *testing.T, w *walk, after int, call func()) (alone bool) {
	t.Helper()
	seen := 0
	err := w.each(t.Context(), l, func() { alone = true }, func(e *tree.Entry) error {
		if e != l.entries[seen] {
			t.Fatalf("entry %d is %.7s", seen, e.Path)
		}
		if seen++; seen == after {
			call()
		}
		return nil
	})
	if seen != len(l.entries) || !errors.Is(err, l.err) {
		t.Errorf("%d of %d entries: %v", seen, len(l.entries), err)
	}
	return alone
}

// Who keeps up does not walk by itself. Who falls behind, from the beginning or in the middle, does, and sees no entry
// twice.
func TestWalk(t *testing.T) {
	source := &listed{err: errors.New("cannot be read")}
	for i := range 3 * walkWeight / (4 << 10) {
		source.entries = append(source.entries, &tree.Entry{Path: fmt.Sprintf("%07d", i) + strings.Repeat("x", 4<<10)})
	}
	w := newWalk(source)
	if source.follow(t, w, 0, nil) || source.walks.Load() != 1 {
		t.Error("the first walked by itself")
	}
	if !source.follow(t, w, 0, nil) || w.weight > walkWeight {
		t.Errorf("the second found all, and %d bytes are kept", w.weight)
	}
	w.end()

	source.walks.Store(0)
	w = newWalk(source)
	ahead := func() { source.follow(t, w, 0, nil) }
	if !source.follow(t, w, 1000, ahead) || source.walks.Load() != 2 {
		t.Errorf("there were %d walks", source.walks.Load())
	}
	w.end()

	w = newWalk(source)
	if entries, _, err := w.from(0); err != nil || len(entries) != walkBatch {
		t.Errorf("%d entries: %v", len(entries), err)
	}
	w.end()
	if entries, _, err := w.from(walkBatch); err != nil || len(entries) > 0 {
		t.Errorf("%d entries after the end: %v", len(entries), err)
	}
}

// What becomes part of a gzip member is joinable, or not compressed.
func TestSpoolOfGzipMembers(t *testing.T) {
	_, places := placesOf(t, 1<<20, 3, codec.Deflate, codec.None)
	member, plain, earlier := places[0], places[1], places[2]
	member.onlyJoinable, member.joins, plain.joins, earlier.joinable = true, true, true, false
	for _, test := range []struct {
		id                 codec.ID
		joinable           bool
		member, plain, old bool
	}{
		{codec.Deflate, true, true, true, false},
		{codec.Deflate, false, false, true, true},
		{codec.None, false, true, true, true},
	} {
		b := blockOf(test.id, 1)
		b.header.Joinable = test.joinable
		if member.accepts(b) != test.member || plain.accepts(b) != test.plain || earlier.accepts(b) != test.old {
			t.Errorf("%v, joinable %v: accepted: %v, %v, %v", test.id, test.joinable, member.accepts(b), plain.accepts(b),
				earlier.accepts(b))
		}
	}
	if !member.acceptsAllOf(plain) || member.acceptsAllOf(earlier) || earlier.acceptsAllOf(member) {
		t.Error("it waits for blocks that are of no use, or not for those that are")
	}
}
