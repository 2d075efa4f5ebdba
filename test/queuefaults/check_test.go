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

const (
	window = time.Minute
	// deposedFrom and deposedTo is when there may be two leaders, in seconds from the beginning of a story.
	deposedFrom, deposedTo = 100, 200
)

// story tells a history, one second after the other.
type story struct {
	events     []queuefaults.Event
	begun, now time.Time
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

// taken right after it was asked for, by a clerk who gets one at a time or by who is named.
func (s *story) taken(key string, number, sequence uint64, consumer ...string) {
	e := message(key, number)
	e.Kind, e.Consumer, e.Sequence, e.Asked = queuefaults.Got, "clerk", sequence, s.now.Add(time.Millisecond)
	if len(consumer) > 0 {
		e.Consumer = consumer[0]
	}
	s.add(e)
}

// tell what happens to a message, by one who may not know whether it succeeded.
func (s *story) tell(kind queuefaults.Kind, key string, number uint64) {
	s.add(queuefaults.Event{Kind: kind, ID: message(key, number).ID, Consumer: "clerk"})
}

// got by who acknowledges it and does not hear that it was heard.
func (s *story) got(key string, number, sequence uint64) {
	s.taken(key, number, sequence)
	s.tell(queuefaults.GetAcknowledging, key, number)
}

func (s *story) done(key string, number uint64) { s.tell(queuefaults.GetAcknowledged, key, number) }

// dead is got as a dead letter.
func (s *story) dead(key string, number, sequence uint64) {
	e := message(key, number)
	e.Kind, e.Consumer, e.Sequence, e.Asked = queuefaults.GotDead, "undertaker", sequence, s.now.Add(time.Millisecond)
	s.add(e)
}

func (s *story) buried(key string, number, sequence uint64) {
	s.add(queuefaults.Event{Kind: queuefaults.DeadAcknowledged, ID: message(key, number).ID, Sequence: sequence})
}

// stored puts a message and hears of it.
func (s *story) stored(key string, number, sequence uint64) {
	s.put(key, number)
	s.acknowledged(key, number, sequence)
}

// arrived is got behind a channel.
func (s *story) arrived(key string, number, sequence uint64) {
	s.got(key, number, sequence)
	s.events[len(s.events)-2].Stream = "west"
}

// all that happens to a message when nothing goes wrong.
func (s *story) all(key string, number, sequence uint64) {
	s.put(key, number)
	s.acknowledged(key, number, sequence)
	s.got(key, number, sequence)
	s.done(key, number)
}

// at goes on at some second of the story.
func (s *story) at(second int) { s.now = s.begun.Add(time.Duration(second) * time.Second) }

func check(tell func(*story)) []queuefaults.Violation {
	begun := time.Now()
	s := &story{now: begun, begun: begun}
	tell(s)
	return queuefaults.Check(s.events, queuefaults.Rules{
		Window: window, InTurn: []string{"clerk"}, OneByOne: []string{"teller", "other teller"},
		Deposed: []queuefaults.Span{{From: begun.Add(deposedFrom * time.Second), To: begun.Add(deposedTo * time.Second)}},
	})
}

// TestWhatMayBe: faults that clients have to live with are no violations.
func TestWhatMayBe(t *testing.T) {
	for what, tell := range map[string]func(*story){
		"got again from a leader that was deposed": func(s *story) {
			s.all("a", 1, 1)
			s.at(deposedFrom + 1)
			s.got("a", 1, 1)
		},
		"put again behind a channel after the window, and no answer at first": func(s *story) {
			s.put("a", 1)
			s.arrived("a", 1, 1)
			s.now = s.now.Add(2 * window)
			s.stored("a", 1, 9)
			s.arrived("a", 1, 2)
		},
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
			s.taken("a", 1, 1)
			s.events[len(s.events)-1].Asked = s.events[1].Time
		},
		"put again after the window": func(s *story) {
			s.all("a", 1, 1)
			s.now = s.now.Add(window)
			s.put("a", 1)
			s.taken("a", 1, 2)
			s.events[len(s.events)-1].Asked = s.events[1].Time // only where it is stored is looked at here
		},
		"places without messages": func(s *story) { s.all("a", 1, 10); s.all("a", 2, 20) },
		"got again in its turn, before the next": func(s *story) {
			s.stored("a", 1, 1)
			s.stored("a", 2, 2)
			s.taken("a", 1, 1, "teller")
			s.taken("a", 1, 1, "other teller")
			s.tell(queuefaults.GetAcknowledging, "a", 1)
			s.taken("a", 2, 2, "teller")
			s.tell(queuefaults.GetAcknowledging, "a", 2)
		},
		"given before the next, heard of after it": func(s *story) {
			s.stored("a", 1, 1)
			s.stored("a", 2, 2)
			asked := s.now
			s.taken("a", 1, 1, "teller")
			s.tell(queuefaults.GetAcknowledging, "a", 1)
			s.taken("a", 2, 2, "teller")
			s.tell(queuefaults.GetAcknowledging, "a", 2)
			s.taken("a", 1, 1, "other teller")
			s.events[len(s.events)-1].Asked = asked
		},
		"given out too often, and a dead letter": func(s *story) {
			s.stored("a", 1, 1)
			s.stored("a", 2, 2)
			s.taken("a", 1, 1, "teller")
			s.taken("a", 2, 2, "teller")
			s.tell(queuefaults.GetAcknowledging, "a", 2)
			s.dead("a", 1, 3)
			s.dead("a", 1, 3)
			s.buried("a", 1, 3)
		},
		"rejected, not confirmed, got again and acknowledged": func(s *story) {
			s.stored("a", 1, 1)
			s.taken("a", 1, 1, "teller")
			s.tell(queuefaults.Rejecting, "a", 1)
			s.taken("a", 1, 1, "teller")
			s.tell(queuefaults.GetAcknowledging, "a", 1)
		},
		"without a key there is no order": func(s *story) {
			s.stored("", 1, 2)
			s.stored("", 2, 1)
			s.got("", 2, 1)
			s.got("", 1, 2)
		},
		"got again when the time of who had it is over": func(s *story) {
			s.stored("a", 1, 1)
			s.taken("a", 1, 1, "teller")
			s.events[2].Until = s.now.Add(time.Second)
			s.tell(queuefaults.Extended, "a", 1)
			s.events[3].Until = s.now.Add(time.Second)
			s.now = s.now.Add(time.Second)
			s.taken("a", 1, 1, "other teller")
			s.events[4].Until = s.now.Add(time.Minute)
			s.tell(queuefaults.Releasing, "a", 1)
			s.got("a", 1, 1)
		},
		"given before another had it, heard of after that": func(s *story) {
			s.stored("a", 1, 1)
			asked := s.now
			s.taken("a", 1, 1, "teller")
			s.events[2].Until = s.now.Add(time.Minute)
			s.got("a", 1, 1)
			s.events[3].Asked = asked
		},
		"through a channel": func(s *story) {
			s.stored("a", 1, 7)
			s.stored("b", 1, 8)
			s.arrived("a", 1, 1)
			s.arrived("b", 1, 2)
			s.arrived("b", 1, 2)
		},
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
		"gone without an acknowledgement": {
			[]queuefaults.Fault{queuefaults.Dropped},
			func(s *story) { s.stored("a", 1, 1); s.taken("a", 1, 1) },
		},
		"rejected and not among the dead letters": {
			[]queuefaults.Fault{queuefaults.Dropped},
			func(s *story) {
				s.stored("a", 1, 1)
				s.taken("a", 1, 1)
				s.tell(queuefaults.Rejecting, "a", 1)
				s.tell(queuefaults.Rejected, "a", 1)
			},
		},
		"two dead letters": {
			[]queuefaults.Fault{queuefaults.Twice},
			func(s *story) { s.stored("a", 1, 1); s.dead("a", 1, 2); s.dead("a", 1, 3) },
		},
		"a dead letter again": {
			[]queuefaults.Fault{queuefaults.Again},
			func(s *story) {
				s.stored("a", 1, 1)
				s.dead("a", 1, 2)
				s.buried("a", 1, 2)
				s.dead("a", 1, 2)
			},
		},
		"another dead letter": {
			[]queuefaults.Fault{queuefaults.Changed},
			func(s *story) { s.stored("a", 1, 1); s.dead("a", 1, 2); s.events[2].Digest[0]++ },
		},
		"got again before there were two leaders": {
			[]queuefaults.Fault{queuefaults.Again},
			func(s *story) { s.all("a", 1, 1); s.at(deposedFrom - 10); s.got("a", 1, 1) },
		},
		"got again after there were two leaders": {
			[]queuefaults.Fault{queuefaults.Again},
			func(s *story) { s.at(deposedFrom + 10); s.all("a", 1, 1); s.at(deposedTo + 1); s.got("a", 1, 1) },
		},
		"got again one by one, from a leader that was deposed": {
			[]queuefaults.Fault{queuefaults.Again},
			func(s *story) {
				s.stored("a", 1, 1)
				s.taken("a", 1, 1, "teller")
				s.tell(queuefaults.GetAcknowledging, "a", 1)
				s.done("a", 1)
				s.at(deposedFrom + 1)
				s.taken("a", 1, 1, "teller")
			},
		},
		"got again after it was rejected": {
			[]queuefaults.Fault{queuefaults.Again},
			func(s *story) {
				s.stored("a", 1, 1)
				s.taken("a", 1, 1)
				s.tell(queuefaults.Rejected, "a", 1)
				s.taken("a", 1, 1)
				s.dead("a", 1, 2)
			},
		},
		"got while an earlier one is with somebody": {
			[]queuefaults.Fault{queuefaults.Order},
			func(s *story) {
				s.stored("a", 1, 1)
				s.stored("a", 2, 2)
				s.taken("a", 1, 1, "teller")
				s.taken("a", 2, 2, "other teller")
				s.tell(queuefaults.GetAcknowledging, "a", 1)
				s.tell(queuefaults.GetAcknowledging, "a", 2)
			},
		},
		"got again behind the next": {
			[]queuefaults.Fault{queuefaults.Order},
			func(s *story) {
				s.stored("a", 1, 1)
				s.stored("a", 2, 2)
				s.taken("a", 1, 1, "teller")
				s.tell(queuefaults.GetAcknowledging, "a", 1) // not confirmed
				s.taken("a", 2, 2, "teller")
				s.tell(queuefaults.GetAcknowledging, "a", 2)
				s.taken("a", 1, 1, "teller")
			},
		},
		"got while it is with somebody": {
			[]queuefaults.Fault{queuefaults.Early},
			func(s *story) {
				s.stored("a", 1, 1)
				s.taken("a", 1, 1, "teller")
				s.events[2].Until = s.now.Add(time.Minute)
				s.got("a", 1, 1)
			},
		},
		"got before the time is over that was extended": {
			[]queuefaults.Fault{queuefaults.Early},
			func(s *story) {
				s.stored("a", 1, 1)
				s.taken("a", 1, 1, "teller")
				s.tell(queuefaults.Extended, "a", 1)
				s.events[3].Until = s.now.Add(time.Minute)
				s.got("a", 1, 1)
			},
		},
		"twice behind a channel": {
			[]queuefaults.Fault{queuefaults.Twice},
			func(s *story) { s.stored("a", 1, 1); s.arrived("a", 1, 1); s.arrived("a", 1, 2) },
		},
		"in another order behind a channel": {
			[]queuefaults.Fault{queuefaults.Order},
			func(s *story) {
				s.stored("a", 1, 1)
				s.stored("a", 2, 2)
				s.arrived("a", 1, 2)
				s.arrived("a", 2, 1)
			},
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
			func(s *story) { s.taken("a", 1, 1) },
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
	if len(events) != 4 || events[1].Time.Before(events[0].Time) || h.Count(queuefaults.Put) != 3 ||
		h.Count(queuefaults.Got) != 0 {
		t.Errorf("%v", events)
	}
	var b bytes.Buffer
	if n, err := h.WriteTo(&b); err != nil || n != int64(b.Len()) || bytes.Count(b.Bytes(), []byte("\n")) != 4 {
		t.Errorf("%d bytes, %v: %s", n, err, &b)
	}
}
