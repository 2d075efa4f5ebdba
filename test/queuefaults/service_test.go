// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/queue/envelope"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
	"github.com/lighterage/lighterage/test/queuefaults"
)

// What clients of MessageService do.
const (
	// tellers get messages, an undertaker gets dead letters.
	tellers    = "teller"
	undertaker = "undertaker"
	// visibility is how long they have what they got, or longVisibility, which is longer than a member is away;
	// extension is how long when they ask for more.
	visibility, longVisibility, extension = 3 * time.Second, 12 * time.Second, 14 * time.Second
	// certain is by how much sooner that may be over: it is written in milliseconds.
	certain = 10 * time.Millisecond
	// maxDeliveries after which a message is a dead letter. One of poisonous is acknowledged by nobody.
	maxDeliveries, poisonous = 4, 97
	// Of a hundred messages so many are left alone, given back, had for longer, and rejected; the others are
	// acknowledged.
	ignored, released, extended, rejected = 2, 2, 2, 2
	complaint                             = "cannot be read"
	// longPoll is how long they wait for a message.
	longPoll = time.Second
)

// outgoing is a message that is put.
type outgoing struct {
	queuefaults.Event
	payload []byte
}

// incoming is one that was got.
type incoming struct {
	queuefaults.Event
	receipt string
	// dead says why it is a dead letter; nil: it is none.
	dead *messagesv1.DeadLetter
}

// verb is what is done with messages by their receipts.
type verb string

const (
	acknowledge verb = "acknowledge"
	release     verb = "release"
	extend      verb = "extend"
	reject      verb = "reject"
)

// wayIn is one to put messages into a queue. After an error another member may be reached.
type wayIn interface {
	// put returns the places of messages in the stream; 0: it may not be there.
	put(ctx context.Context, messages []outgoing) ([]uint64, error)
}

// way is one to get them, too.
type way interface {
	wayIn
	// get waits for messages for longPoll. They are the client's for some time.
	get(ctx context.Context, count int, held time.Duration, dead bool) ([]incoming, error)
	// settle says for each receipt what became of it.
	settle(ctx context.Context, v verb, receipts []string) ([]messagesv1.ReceiptResult, error)
}

// putter puts, in each round, one message for each of its keys, and some without a key.
type putter struct {
	way     wayIn
	name    string
	keys    int
	keyless int
	pause   time.Duration
}

// serve starts clients that put by MessageService, some by NATS, and get by MessageService.
func serve(q *queue) *load {
	q.Helper()
	l, putting := newLoad(busy, q, q)
	for _, p := range []putter{
		{newGRPCWay(q), "grpc", 4, 4, 20 * time.Millisecond},
		{newGRPCWay(q), "one", 1, 0, 20 * time.Millisecond},
		{newHTTPWay(q), "json", 2, 2, 30 * time.Millisecond},
		{newHTTPWay(q), "http", 1, 0, 20 * time.Millisecond},
		{newNATSWay(q), "nats", 2, 1, 20 * time.Millisecond},
	} {
		l.putting.Go(func() { l.putRounds(putting, p) })
	}
	getting, end := context.WithCancel(context.Background())
	l.end = end
	for i, w := range []way{newGRPCWay(q), newGRPCWay(q), newHTTPWay(q)} {
		held := visibility
		if i == 0 {
			held = longVisibility
		}
		l.getting.Go(func() { l.getAll(getting, w, held, false) })
	}
	dead := newGRPCWay(q)
	l.getting.Go(func() { l.getAll(getting, dead, visibility, true) })
	return l
}

func (l *load) putRounds(ctx context.Context, p putter) {
	type first struct {
		message outgoing
		at      time.Time
	}
	var sent []first
	for number := uint64(1); ctx.Err() == nil; number++ {
		round := make([]outgoing, p.keys+p.keyless)
		for i := range round {
			name, key := fmt.Sprintf("%s-%d", p.name, i), ""
			if i < p.keys {
				key = name
			}
			payload := l.body(name, number)
			round[i] = outgoing{queuefaults.Event{
				Kind: queuefaults.Put, ID: name + "-" + strconv.FormatUint(number, 10), Key: key, Number: number,
				Digest: sha256.Sum256(payload),
			}, payload}
		}
		sent = append(sent, first{round[rand.IntN(len(round))], time.Now()})
		if !l.putAll(p.way, round) {
			return
		}
		if l.doubts() && number%doubt == 0 {
			if old := sent[rand.IntN(len(sent))]; time.Since(old.at) < doubtAge && !l.putAll(p.way, []outgoing{old.message}) {
				return
			}
		}
		if len(sent) > doubtful {
			sent = sent[1:]
		}
		l.rest(ctx, p.pause)
	}
}

// putAll puts messages until all are acknowledged. It goes on when putting is to stop: what is not acknowledged could
// be anywhere.
func (l *load) putAll(w wayIn, messages []outgoing) bool {
	for deadline := time.Now().Add(putPatience()); ; {
		for _, m := range messages {
			l.history.Add(m.Event)
		}
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		places, err := w.put(ctx, messages)
		cancel()
		var left []outgoing
		for i, m := range messages {
			if i < len(places) && places[i] > 0 {
				l.history.Add(queuefaults.Event{Kind: queuefaults.PutAcknowledged, ID: m.ID, Sequence: places[i]})
			} else {
				left = append(left, m)
			}
		}
		if len(left) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			l.Errorf("message %s is not acknowledged after %v: %v", left[0].ID, putPatience(), err)
			return false
		}
		messages = left
		time.Sleep(20 * time.Millisecond)
	}
}

// getAll gets messages, or dead letters, and does something with each.
func (l *load) getAll(ctx context.Context, w way, held time.Duration, dead bool) {
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, longPoll+answerTime)
		asked := time.Now()
		got, err := w.get(asking, 1+rand.IntN(32), held, dead)
		cancel()
		if err != nil {
			wait(ctx, 50*time.Millisecond)
			continue
		}
		todo := make(map[verb][]incoming)
		for _, m := range got {
			m.Asked, m.Until = asked, asked.Add(held-certain)
			v := l.decide(m)
			l.note(m)
			if v != "" {
				todo[v] = append(todo[v], m)
			}
		}
		for _, v := range []verb{acknowledge, release, reject, extend} {
			l.settle(w, v, todo[v])
		}
	}
}

// note says that a message was got.
func (l *load) note(m incoming) {
	m.Kind, m.Consumer = queuefaults.Got, tellers
	if m.dead != nil {
		m.Kind, m.Consumer, m.Until = queuefaults.GotDead, undertaker, time.Time{}
		switch why := m.dead; {
		case why.GetReason() == envelope.Rejected && why.GetDetail() == complaint:
		case why.GetReason() == envelope.MaxDeliveries && why.GetDeliveries() >= maxDeliveries:
		default:
			l.Errorf("%s is a dead letter without a reason: %v", m.ID, why)
		}
	}
	l.history.Add(m.Event)
}

// decide says what is done with a message; "": nothing.
func (l *load) decide(m incoming) verb {
	chance := rand.IntN(100)
	switch {
	case l.hasty.Load():
		return acknowledge
	case m.dead != nil && chance < 10:
		return ""
	case m.dead != nil:
		return acknowledge
	case m.Number%poisonous == 0 && chance < 50:
		return release
	case m.Number%poisonous == 0 || chance < ignored:
		return ""
	case chance < ignored+released:
		return release
	case chance < ignored+released+extended:
		return extend
	case chance < ignored+released+extended+rejected:
		return reject
	default:
		return acknowledge
	}
}

// settle does something with messages, once more if it is not known whether it was done.
func (l *load) settle(w way, v verb, messages []incoming) {
	const tries = 3
	for range tries {
		if len(messages) == 0 {
			return
		}
		receipts := make([]string, len(messages))
		for i, m := range messages {
			receipts[i] = m.receipt
			l.told(beginning(v, m))
		}
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		asked := time.Now()
		results, err := w.settle(ctx, v, receipts)
		cancel()
		var left, longer []incoming
		for i, m := range messages {
			switch {
			case err != nil || i >= len(results) || results[i] == messagesv1.ReceiptResult_RECEIPT_RESULT_UNKNOWN:
				left = append(left, m)
			case results[i] == messagesv1.ReceiptResult_RECEIPT_RESULT_DONE:
				l.told(ending(v, m, asked))
				longer = append(longer, m)
			case results[i] == messagesv1.ReceiptResult_RECEIPT_RESULT_INVALID:
				l.Errorf("the receipt of %s is said to be none: %s", m.ID, m.receipt)
			}
		}
		if v == extend {
			l.settle(w, acknowledge, longer)
		}
		messages = left
		if len(left) > 0 {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// told adds what there is to add.
func (l *load) told(e queuefaults.Event) {
	if e.Kind != "" {
		l.history.Add(e)
	}
}

// beginning is what is said of a message before something is done with it.
func beginning(v verb, m incoming) queuefaults.Event {
	e := queuefaults.Event{ID: m.ID, Sequence: m.Sequence, Consumer: tellers}
	switch {
	case m.dead != nil || v == extend: // nothing
	case v == acknowledge:
		e.Kind = queuefaults.GetAcknowledging
	case v == release:
		e.Kind = queuefaults.Releasing
	case v == reject:
		e.Kind = queuefaults.Rejecting
	}
	return e
}

// ending is what is said of it when it was done.
func ending(v verb, m incoming, asked time.Time) queuefaults.Event {
	e := queuefaults.Event{ID: m.ID, Sequence: m.Sequence, Consumer: tellers}
	switch {
	case m.dead != nil:
		e.Kind, e.Consumer = queuefaults.DeadAcknowledged, undertaker
	case v == acknowledge:
		e.Kind = queuefaults.GetAcknowledged
	case v == extend:
		e.Kind, e.Until = queuefaults.Extended, asked.Add(extension-certain)
	case v == reject:
		e.Kind = queuefaults.Rejected
	}
	return e
}

// judgeService fails the test also if not all was done that clients can do.
func (l *load) judgeService() {
	l.Helper()
	if os.Getenv(longVariable) == "" {
		return
	}
	for _, kind := range []queuefaults.Kind{
		queuefaults.Releasing, queuefaults.Extended, queuefaults.Rejected, queuefaults.DeadAcknowledged,
	} {
		if l.history.Count(kind) == 0 {
			l.Errorf("not once: %s", kind)
		}
	}
}

// TestServiceOneMember breaks a queue of one member whose clients speak gRPC and HTTP, and whose dictionaries are those
// of deflate.
func TestServiceOneMember(t *testing.T) {
	at := home(t)
	at.configure = func(c *wirev1.QueueConfig) { c.Compression.Codecs, c.DeflateDictionaries = []string{"deflate"}, true }
	l := serve(newQueueAt(t, at, 1))
	l.breaks(oneMember, duration(t, 15*time.Second))
	l.judgeService()
}

// TestServiceThreeMembers breaks a queue of three.
func TestServiceThreeMembers(t *testing.T) {
	l := serve(newQueue(t, 3))
	l.breaks(threeMembers, duration(t, 45*time.Second))
	l.judgeService()
}
