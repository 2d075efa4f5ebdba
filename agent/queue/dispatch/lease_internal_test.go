// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/queue/pull"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

func TestDepartures(t *testing.T) {
	t.Parallel()
	d := newDepartures()
	for i := range uint64(5 * keptDepartures) {
		d.add(departure{Sequence: i, Put: int64(i), Nonce: i + 1, Dead: i%2 == 1})
	}
	last := d.last()
	if len(last) != keptDepartures || last[len(last)-1].Sequence != 5*keptDepartures-1 || len(d.of) > 2*keptDepartures ||
		len(d.order) > 2*keptDepartures {
		t.Errorf("%d kept, %d and %d held", len(last), len(d.order), len(d.of))
	}
	for _, x := range last {
		r := receipt{messages, x.Sequence, x.Nonce}
		acknowledged, known := d.result(acknowledge, r)
		rejected, _ := d.result(reject, r)
		if !known || (acknowledged == done) == x.Dead || (rejected == done) != x.Dead ||
			!d.has(x.Sequence, time.Unix(0, x.Put)) || d.has(x.Sequence, time.Unix(1, x.Put)) {
			t.Fatalf("%+v: %v, %v, %v", x, known, acknowledged, rejected)
		}
	}
	at := last[0]
	for _, r := range []receipt{{messages, 0, 1}, {messages, at.Sequence, at.Nonce + 1}} {
		if result, known := d.result(acknowledge, r); known {
			t.Errorf("%+v: %v", r, result)
		}
	}
	if result, known := d.result(extend, receipt{messages, at.Sequence, at.Nonce}); !known || result != expired {
		t.Errorf("%v, %v", result, known)
	}
	// A message that has the sequence again is another.
	d.add(departure{Sequence: at.Sequence, Put: -1})
	if d.has(at.Sequence, time.Unix(0, at.Put)) || !d.has(at.Sequence, time.Unix(0, -1)) {
		t.Error("a sequence counts with the first time")
	}
}

// TestLeaseLog: the log is written again before it is full, and says the same when it is read.
func TestLeaseLog(t *testing.T) {
	t.Parallel()
	kept := storetest.Start(t, store.Options{MaxPayload: 8 << 20, Capacity: 1 << 30})
	conn, js := storetest.Connect(t, kept)
	if err := kept.EnsureLeases(t.Context(), conn, store.Settings{}); err != nil {
		t.Fatal(err)
	}
	leases, departed := make(map[uint64]lease), newDepartures()
	all := func() record {
		r := record{Departed: departed.last()}
		for _, x := range leases {
			r.Leases = append(r.Leases, x)
		}
		return r
	}
	// read says how many records there are, and that they say what they should.
	read := func() (l *leaseLog, records uint64) {
		l = &leaseLog{js: js, stream: store.LeaseStream("orders"), subject: store.LeaseSubject("orders", "messages")}
		haveLeases, haveDeparted, err := l.load(t.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(haveLeases, leases) || !slices.Equal(haveDeparted.last(), departed.last()) {
			t.Errorf(
				"read %d leases and %d departures, want %d and %d", len(haveLeases), len(haveDeparted.last()), len(leases),
				len(departed.last()),
			)
		}
		stream, err := js.Stream(t.Context(), store.LeaseStream("orders"))
		if err != nil {
			t.Fatal(err)
		}
		return l, stream.CachedInfo().State.Msgs
	}
	l, _ := read()
	// write gives out one message and lets the one before depart.
	write := func(sequence uint64) {
		given, gone := lease{
			Sequence: sequence, Put: 7, Count: 1, Until: 5, Nonce: sequence,
		}, departure{Sequence: sequence - 1, Put: 7, Nonce: sequence - 1}
		delete(leases, gone.Sequence)
		leases[sequence] = given
		departed.add(gone)
		if err := l.write(t.Context(), record{Leases: []lease{given}, Departed: []departure{gone}}, all); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(recordsUntilAll) {
		write(i + 1)
	}
	again, records := read()
	if records != recordsUntilAll || *again != *l {
		t.Errorf("%d records, %+v is read as %+v", records, l, again)
	}
	write(1000)
	if again, records = read(); records != 1 || *again != *l {
		t.Errorf("after all were written at once: %d records, %+v is read as %+v", records, l, again)
	}
	write(1001)
	l.bytes = bytesUntilAll
	write(1002)
	if again, records = read(); records != 1 || *again != *l {
		t.Errorf("after so many bytes: %d records, %+v is read as %+v", records, l, again)
	}
	if err := again.write(t.Context(), record{}, all); err != nil {
		t.Fatal(err)
	}
	if err := l.write(t.Context(), record{}, all); !errors.Is(err, errFenced) {
		t.Errorf("after another wrote: %v", err)
	}
}

// TestLongestRecord: all that is in clients' hands, and all that is remembered, fits a record.
func TestLongestRecord(t *testing.T) {
	t.Parallel()
	r := record{All: true}
	for i := range uint64(windowMessages + pullBatch) { // what is asked for may come beside what is read again
		now := time.Now()
		r.Leases = append(
			r.Leases, lease{Sequence: 1<<60 + i, Put: now.UnixNano(), Count: 1 << 31, Until: now.UnixMilli(), Nonce: 1<<64 - 1},
		)
		if i >= keptDepartures {
			continue
		}
		r.Departed = append(r.Departed, departure{Sequence: 1<<60 + i, Put: now.UnixNano(), Nonce: 1<<64 - 1, Dead: true})
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > longestRecord {
		t.Errorf("%d bytes; the limit is %d", len(data), longestRecord)
	}
	for _, c := range []struct {
		of   any
		most int
	}{
		{lease{1<<64 - 1, math.MinInt64, 1<<32 - 1, math.MinInt64, 1<<64 - 1}, longestLease},
		{departure{1<<64 - 1, math.MinInt64, 1<<64 - 1, true}, longestDeparture},
	} {
		if data, err := json.Marshal(c.of); err != nil || len(data)+1 > c.most {
			t.Errorf("%s takes %d bytes, %v; the limit is %d", data, len(data)+1, err, c.most)
		}
	}
}

// TestFormerLeases: leases of messages that were not delivered yet since the start are written down as long as they fit
// a record beside the others, those that last longest first.
func TestFormerLeases(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, former := range []int{0, 1000, windowMessages, 1 << 16} {
		d := &dispatcher{
			window: newWindow(), departed: newDepartures(), former: make(map[uint64]lease), log: slog.New(slog.DiscardHandler),
			highest: 1 << 40,
		}
		for i := range uint64(windowMessages) {
			e := &entry{sequence: 1<<40 - i, put: now}
			d.window.add(e, now)
			d.window.lease(e, 1<<64-1, now.Add(time.Hour), now)
			d.departed.add(departure{Sequence: i, Put: now.UnixNano(), Nonce: 1<<64 - 1})
		}
		for i := range former {
			sequence := d.highest + uint64(i) + 1
			d.former[sequence] = lease{
				Sequence: sequence, Put: now.UnixNano(), Count: 1, Until: now.UnixMilli() + int64(i), Nonce: 1<<64 - 1,
			}
		}
		d.former[5] = lease{Sequence: 5, Count: 1} // it was removed by somebody else
		data, err := json.Marshal(d.all())
		if err != nil || len(data) > longestRecord {
			t.Fatalf("%d former leases: %d bytes, %v; the limit is %d", former, len(data), err, longestRecord)
		}
		r, err := parseRecord(data)
		if err != nil {
			t.Fatal(err)
		}
		kept, least := len(r.Leases)-windowMessages, int64(math.MaxInt64)
		for _, l := range r.Leases[windowMessages:] {
			least = min(least, l.Until)
		}
		switch {
		case len(r.Departed) != keptDepartures || kept < min(former, 1000) || kept > former ||
			former <= 1000 && kept != former:
			t.Errorf("of %d former leases %d are kept, with %d departures", former, kept, len(r.Departed))
		case kept > 0 && least != now.UnixMilli()+int64(former-kept):
			t.Errorf("of %d former leases %d are kept, of which the first ends after %d ms", former, kept, least-now.UnixMilli())
		}
	}
}

// TestFind: what a receipt comes to, whether its message is delivered again after its departure or not.
func TestFind(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	d := &dispatcher{
		window: newWindow(), departed: newDepartures(),
		former: map[uint64]lease{1: {Sequence: 1, Nonce: 1}, 9: {Sequence: 9, Nonce: 9}}, highest: 8,
	}
	for sequence := range uint64(5) {
		e := &entry{sequence: sequence + 2, put: now, nonce: sequence + 2}
		d.window.add(e, now)
		switch e.sequence {
		case 3:
			d.window.occupy(e) // it is being removed
			d.departed.add(departure{Sequence: 3, Put: now.UnixNano(), Nonce: 3})
		case 4:
			e.nonce = 0 // it was removed before, and is delivered nevertheless
			d.window.occupy(e)
			d.departed.add(departure{Sequence: 4, Put: now.UnixNano(), Nonce: 4})
		case 5:
			d.departed.add(departure{Sequence: 5, Put: now.UnixNano() - 1, Nonce: 7}) // of another message
		}
	}
	d.departed.add(departure{Sequence: 7, Put: now.UnixNano(), Nonce: 7})
	for _, c := range []struct {
		sequence, nonce uint64
		delivered       bool
		found           bool
		result          messagesv1.ReceiptResult
	}{
		{1, 1, false, false, expired}, // later ones were delivered
		{2, 2, true, true, done},
		{2, 3, true, false, expired},
		{3, 3, true, false, unknown},
		{4, 4, true, false, done},
		{4, 5, true, false, expired},
		{5, 5, true, true, done},
		{5, 7, true, false, expired},
		{6, 6, true, true, done},
		{7, 7, true, false, done},
		{7, 8, true, false, expired},
		{9, 9, false, false, unknown},
		{9, 9, true, false, expired},
		{9, 8, false, false, expired},
		{10, 1, false, false, expired},
	} {
		d.delivered = c.delivered
		e, result := d.find(acknowledge, receipt{messages, c.sequence, c.nonce})
		if (e != nil) != c.found || result != c.result {
			t.Errorf("%+v: %+v, %v", c, e, result)
		}
	}
}

// TestPause: of two that end each other's dispatchers each leaves the other more and more time, until messages are
// given out.
func TestPause(t *testing.T) {
	t.Parallel()
	h := New(Options{Leads: func() bool { return true }})
	h.leading = context.Background()
	end := func(useful bool, err error) time.Duration {
		h.ended(&dispatcher{piled: piled{pile: messages}, hub: h, useful: useful, failure: err})
		return h.pauses[messages].length
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 50, 50} {
		if got := end(false, errFenced); got != want*minPause {
			t.Errorf("%v, want %v", got, want*minPause)
		}
		if left := time.Until(h.pauses[messages].until); left > want*minPause {
			t.Errorf("%v is longer than %v", left, want*minPause)
		}
	}
	h.pauses[messages] = pause{until: time.Now().Add(time.Hour)}
	if d, err := h.dispatcher(messages); d != nil || !errors.Is(err, errEnded) {
		t.Errorf("%v, %v", d, err)
	}
	if got := end(true, pull.ErrConsumer); got != minPause {
		t.Errorf("after messages were given out: %v", got)
	}
}
