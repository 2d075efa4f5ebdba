// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestWindow gives out, extends, releases, acknowledges and lets expire at random, by a clock of
// its own, and holds the window to what a plain model says.
func TestWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWindow()
		now := time.Unix(1000, 0)
		var sequence uint64
		var model []*entry // in order of sequence
		some := func() *entry {
			if len(model) == 0 {
				return nil
			}
			return model[r.IntN(len(model))]
		}
		for range 400 {
			w.expire(now)
			if r.IntN(10) == 0 {
				w.park(1+r.IntN(3), 1+r.IntN(20))
			}
			for due := w.due(1+r.IntN(5), r.IntN(4)); len(due) > 0; due = w.due(1+r.IntN(5), r.IntN(4)) {
				for _, e := range due {
					w.unpark(e, &nats.Msg{}, now)
				}
			}
			// The oldest of each key may be given out, unless somebody has it.
			var want *entry
			behind := make(map[string]bool)
			for _, e := range model {
				if want == nil && !e.until.After(now) && !e.busy && !behind[e.key] {
					want = e
				}
				behind[e.key] = e.key != ""
			}
			got := w.peek(now)
			if got != want {
				t.Fatalf("seed %d: it gives out %+v, and should %+v", seed, got, want)
			}
			switch e := some(); {
			case r.IntN(3) == 0 || e == nil:
				sequence++
				e := &entry{sequence: sequence, key: []string{"", "a", "b", "c"}[r.IntN(4)], size: 1}
				model = append(model, e)
				w.add(e, now)
			case got != nil && r.IntN(2) == 0:
				before := got.count
				w.lease(got, 1, now.Add(time.Duration(1+r.IntN(5))*time.Second), now)
				if got.count != before+1 || !got.leased {
					t.Fatalf("seed %d: %+v", seed, got)
				}
			case e.leased && !e.busy && r.IntN(2) == 0:
				if r.IntN(2) == 0 {
					w.extend(e, now.Add(time.Duration(r.IntN(9))*time.Second), now)
					break
				}
				w.release(e, now.Add(time.Duration(r.IntN(3))*time.Second), now)
			case e.busy:
				if r.IntN(2) == 0 {
					w.vacate(e, now)
					break
				}
				w.remove(e, now)
				model = slices.DeleteFunc(model, func(other *entry) bool { return other == e })
			case e.leased && r.IntN(2) == 0:
				w.occupy(e)
			default:
				now = now.Add(time.Duration(r.IntN(3)) * time.Second)
			}
			held := 0
			for _, e := range model {
				if e.leased || e.busy {
					held++
				}
			}
			if len(w.held) != held || len(w.entries) != len(model) || w.bytes+w.parked != len(model) {
				t.Fatalf("seed %d: %d held, %d entries, %d bytes, %d parked; want %d held of %d", seed, len(w.held), len(w.entries), w.bytes, w.parked, held, len(model))
			}
		}
	}
}

// TestDue: what is read anew at once is bounded in bytes over all keys, by one message at least, and each comes to its turn.
func TestDue(t *testing.T) {
	t.Parallel()
	const keys, each, size = 10, 100, 1 << 20
	w := newWindow()
	now := time.Unix(1000, 0)
	for i := range keys * each {
		w.add(&entry{sequence: uint64(i + 1), key: fmt.Sprint(i % keys), size: size}, now)
	}
	w.park(0, keys*each)
	for i := range keys {
		w.wanted[fmt.Sprint(i)] = struct{}{}
	}
	for bytes, most := range map[int]int{-size: 1, 0: 1, size / 2: 1, 3*size + 1: 3} {
		if due := w.due(64, bytes); len(due) == 0 || len(due) > most {
			t.Errorf("%d messages of %d bytes where there is room for %d", len(due), size, bytes)
		} else {
			for _, e := range due {
				w.unpark(e, &nats.Msg{}, now)
			}
		}
	}
	seen := make(map[string]bool)
	for due := w.due(64, 5*size); len(due) > 0; due = w.due(64, 5*size) {
		if len(due) > 5 {
			t.Fatalf("%d messages of %d bytes at once", len(due), size)
		}
		for _, e := range due {
			w.unpark(e, &nats.Msg{}, now)
		}
	}
	for e := w.peek(now); e != nil; e = w.peek(now) {
		seen[e.key] = true
		w.lease(e, 1, now.Add(time.Hour), now)
	}
	if len(seen) != keys {
		t.Errorf("messages of %d of %d keys were given out", len(seen), keys)
	}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	want := receipt{deadLetters, 1 << 60, 1<<63 + 5}
	if got, ok := parseReceipt(want.String()); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, text := range []string{"", "x", strings.Repeat("A", 23), want.String() + "A", want.String()[1:] + "!", receipt{messages, 1, 0}.String(), receipt{3, 1, 1}.String()} {
		if got, ok := parseReceipt(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func FuzzReceipt(f *testing.F) {
	f.Add(receipt{messages, 1, 2}.String())
	f.Add(strings.Repeat("\n", 23))
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := parseReceipt(text); ok && r.String() != text {
			t.Errorf("%q is read as %q", text, r.String())
		}
	})
}

func FuzzRecord(f *testing.F) {
	whole, err := json.Marshal(record{All: true, Leases: []lease{{1, 4, 2, 3, 1<<64 - 1}}, Departed: []departure{{1, 2, 3, true}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"leases":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		same, err := parseRecord(again)
		if err != nil && len(again) <= maxRecord {
			t.Fatal(err)
		}
		if third, _ := json.Marshal(same); err == nil && !bytes.Equal(again, third) {
			t.Errorf("%s is read as %s", again, third)
		}
	})
}
