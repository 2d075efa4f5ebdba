// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queuefaults_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lighterage/lighterage/test/queuefaults"
)

const window = time.Minute

// story tells a history, one second after the other.
type story struct {
	events []queuefaults.Event
	now    time.Time
}

func (s *story) add(e queuefaults.Event) {
	s.now = s.now.Add(time.Second)
	e.Time = s.now
	s.events = append(s.events, e)
}

func message(key string, number uint64) queuefaults.Event {
	id := fmt.Sprint(key, number)
	return queuefaults.Event{ID: id, Key: key, Number: number, Digest: sha256.Sum256([]byte(id))}
}

func (s *story) put(key string, number uint64) {
	e := message(key, number)
	e.Kind = queuefaults.Put
	s.add(e)
}

func (s *story) acknowledged(key string, number, sequence uint64) {
	s.add(queuefaults.Event{Kind: queuefaults.PutAcknowledged, ID: message(key, number).ID, Sequence: sequence})
}

// got right after it was asked for.
func (s *story) got(key string, number, sequence uint64) {
	e := message(key, number)
	e.Kind, e.Consumer, e.Sequence, e.Asked = queuefaults.Got, "clerk", sequence, s.now.Add(time.Millisecond)
	s.add(e)
}

func (s *story) done(key string, number uint64) {
	s.add(queuefaults.Event{Kind: queuefaults.GetAcknowledged, ID: message(key, number).ID, Consumer: "clerk"})
}

// all that happens to a message when nothing goes wrong.
func (s *story) all(key string, number, sequence uint64) {
	s.put(key, number)
	s.acknowledged(key, number, sequence)
	s.got(key, number, sequence)
	s.done(key, number)
}

func check(tell func(*story)) []queuefaults.Violation {
	s := &story{now: time.Now()}
	tell(s)
	return queuefaults.Check(s.events, queuefaults.Rules{Window: window, InTurn: []string{"clerk"}})
}

// TestWhatMayBe: faults that clients have to live with are no violations.
func TestWhatMayBe(t *testing.T) {
	for what, tell := range map[string]func(*story){
		"all is well": func(s *story) { s.all("a", 1, 1); s.all("b", 1, 2); s.all("a", 2, 3) },
		"an acknowledgement of a put was lost": func(s *story) {
			s.put("a", 1)
			s.put("a", 1)
			s.acknowledged("a", 1, 1)
			s.got("a", 1, 1)
			s.done("a", 1)
		},
		"put twice, acknowledged twice, stored once": func(s *story) {
			s.put("a", 1)
			s.acknowledged("a", 1, 1)
			s.put("a", 1)
			s.acknowledged("a", 1, 1)
			s.got("a", 1, 1)
		},
		"never acknowledged, not there": func(s *story) { s.put("a", 1); s.all("a", 2, 1) },
		"never acknowledged, but there": func(s *story) { s.put("a", 1); s.got("a", 1, 1); s.done("a", 1); s.all("a", 2, 2) },
		"got again because the acknowledgement of the get was not confirmed": func(s *story) {
			s.put("a", 1)
			s.acknowledged("a", 1, 1)
			s.got("a", 1, 1)
			s.got("a", 1, 1)
			s.done("a", 1)
		},
		"got again, asked for before the acknowledgement was confirmed": func(s *story) {
			s.all("a", 1, 1)
			s.got("a", 1, 1)
			s.events[len(s.events)-1].Asked = s.events[1].Time
		},
		"put again after the window": func(s *story) {
			s.all("a", 1, 1)
			s.now = s.now.Add(window)
			s.put("a", 1)
			s.got("a", 1, 2)
			s.events[len(s.events)-1].Asked = s.events[1].Time // only where it is stored is looked at here
		},
		"places without messages": func(s *story) { s.all("a", 1, 10); s.all("a", 2, 20) },
	} {
		if got := check(tell); len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestDefects: every promise that a queue can break is found broken, and nothing beside it.
func TestDefects(t *testing.T) {
	for what, c := range map[string]struct {
		want []queuefaults.Fault
		tell func(*story)
	}{
		"an acknowledged message is not there": {
			[]queuefaults.Fault{queuefaults.Lost},
			func(s *story) { s.all("a", 1, 1); s.put("a", 2); s.acknowledged("a", 2, 2); s.all("a", 3, 3) },
		},
		"the last message is not there": {
			[]queuefaults.Fault{queuefaults.Lost},
			func(s *story) { s.all("a", 1, 1); s.put("a", 2); s.acknowledged("a", 2, 2) },
		},
		"its place is another's": {
			[]queuefaults.Fault{queuefaults.Shared, queuefaults.Lost},
			func(s *story) { s.put("a", 1); s.acknowledged("a", 1, 1); s.all("b", 1, 1) },
		},
		"stored twice, acknowledged so": {
			[]queuefaults.Fault{queuefaults.Twice},
			func(s *story) {
				s.put("a", 1)
				s.acknowledged("a", 1, 1)
				s.put("a", 1)
				s.acknowledged("a", 1, 2)
				s.got("a", 1, 1)
				s.got("a", 1, 2)
			},
		},
		"stored twice, seen by a consumer only": {
			[]queuefaults.Fault{queuefaults.Twice},
			func(s *story) { s.put("a", 1); s.acknowledged("a", 1, 1); s.got("a", 1, 1); s.got("a", 1, 2) },
		},
		"got again": {
			[]queuefaults.Fault{queuefaults.Again},
			func(s *story) { s.all("a", 1, 1); s.got("a", 1, 1) },
		},
		"stored in another order": {
			[]queuefaults.Fault{queuefaults.Order},
			func(s *story) {
				s.put("a", 1)
				s.acknowledged("a", 1, 2)
				s.put("a", 2)
				s.acknowledged("a", 2, 1)
				s.got("a", 1, 2)
				s.got("a", 2, 1)
			},
		},
		"got in another order": {
			[]queuefaults.Fault{queuefaults.Order},
			func(s *story) {
				s.put("a", 1)
				s.acknowledged("a", 1, 1)
				s.put("a", 2)
				s.acknowledged("a", 2, 2)
				s.got("a", 2, 2)
				s.got("a", 1, 1)
			},
		},
		"another payload": {
			[]queuefaults.Fault{queuefaults.Changed},
			func(s *story) {
				s.put("a", 1)
				s.got("a", 1, 1)
				s.events[1].Digest[0]++
			},
		},
		"another key": {
			[]queuefaults.Fault{queuefaults.Changed},
			func(s *story) {
				s.put("a", 1)
				s.got("a", 1, 1)
				s.events[1].Key = "b"
			},
		},
		"nobody put it": {
			[]queuefaults.Fault{queuefaults.Unknown},
			func(s *story) { s.got("a", 1, 1) },
		},
	} {
		var got []queuefaults.Fault
		for _, v := range check(c.tell) {
			got = append(got, v.Fault)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q", what, got, c.want)
		}
	}
}

func TestHistory(t *testing.T) {
	h := new(queuefaults.History)
	for number := range uint64(3) {
		e := message("a", number)
		e.Kind = queuefaults.Put
		h.Add(e)
	}
	h.Add(queuefaults.Event{Kind: queuefaults.PutAcknowledged, ID: "a0"})
	events := h.Events()
	if len(events) != 4 || events[1].Time.Before(events[0].Time) || h.Count(queuefaults.Put) != 3 || h.Count(queuefaults.Got) != 0 {
		t.Errorf("%v", events)
	}
	var b bytes.Buffer
	if n, err := h.WriteTo(&b); err != nil || n != int64(b.Len()) || bytes.Count(b.Bytes(), []byte("\n")) != 4 {
		t.Errorf("%d bytes, %v: %s", n, err, &b)
	}
}
