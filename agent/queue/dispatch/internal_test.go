// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"encoding/json"
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
			if answered := time.Duration(r.IntN(3)) * time.Second; r.IntN(10) == 0 {
				w.forget(answered, now)
			}
			for due := w.due(r.IntN(40), now); len(due) > 0; due = w.due(r.IntN(40), now) {
				for _, e := range due {
					w.restore(e, &nats.Msg{}, now)
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
			if got != want || got != nil && got.message == nil {
				t.Fatalf("seed %d: it gives out %+v, and should %+v", seed, got, want)
			}
			switch e := some(); {
			case r.IntN(3) == 0 || e == nil:
				sequence++
				e := &entry{sequence: sequence, key: []string{"", "a", "b", "c"}[r.IntN(4)], size: 10, message: &nats.Msg{}}
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
			held, size := 0, 0
			for _, e := range model {
				if e.leased || e.busy {
					held++
				}
				if size += len(e.key); e.message != nil {
					size += 10 - len(e.key)
				}
			}
			for i, e := range w.timed.all {
				if e.place != i+1 || e.gone {
					t.Fatalf("seed %d: %+v is among the timed ones at %d", seed, e, i)
				}
			}
			if len(w.held) != held || len(w.entries) != len(model) || w.bytes != size {
				t.Fatalf("seed %d: %d held of %d entries, %d bytes; want %d of %d, %d",
					seed, len(w.held), len(w.entries), w.bytes, held, len(model), size)
			}
		}
	}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	want := receipt{deadLetters, 1 << 60, 1<<63 + 5}
	if got, ok := parseReceipt(want.String()); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, text := range []string{
		"", "x", strings.Repeat("A", 23), want.String() + "A", want.String()[1:] + "!", receipt{messages, 1, 0}.String(),
		receipt{3, 1, 1}.String(),
	} {
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
	whole, err := json.Marshal(
		record{All: true, Leases: []lease{{1, 4, 2, 3, 1<<64 - 1}}, Departed: []departure{{1, 2, 3, true}}},
	)
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
