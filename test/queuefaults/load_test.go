// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/test/corpus"
	"github.com/lighterage/lighterage/test/queuefaults"
)

// Headers of messages, which say what they are.
const (
	keyHeader    = "Test-Key"
	numberHeader = "Test-Number"
)

// group is a part of the load: some keys, whose messages one durable consumer gets.
type group struct {
	name          string
	keys, getters int
	// pause of a client after each put, so that the machine has time for faults.
	pause time.Duration
	// given and not acknowledged at once: 1 keeps the order, whatever happens.
	outstanding int
}

var groups = []group{
	{name: "turn", keys: 4, getters: 1, pause: 20 * time.Millisecond, outstanding: 1},
	{name: "many", keys: 8, getters: 2, pause: 5 * time.Millisecond, outstanding: 256},
}

const (
	ackWait = 2 * time.Second
	// answerTime is how long a client waits before it puts once more.
	answerTime = 3 * time.Second
	// doubt is how many messages there are to one that a client puts once more although it was acknowledged, as one that was killed
	// would. It is one of the last doubtful of its key and no older than doubtAge, well within the window.
	doubt, doubtful = 10, 500
	doubtAge        = 45 * time.Second
)

// rules have a margin for what is on its way for long.
var rules = queuefaults.Rules{Window: duplicateWindow - 30*time.Second, InTurn: []string{"turn"}}

// load puts and gets until it is ended.
type load struct {
	*testing.T
	queue   *queue
	history *queuefaults.History
	stop    context.CancelFunc // ends putting
	putting sync.WaitGroup
	end     context.CancelFunc // ends getting
	getting sync.WaitGroup
	bodies  [][]byte
}

// begin starts clients that put. The queue has to be empty.
func begin(q *queue) *load {
	q.Helper()
	putting, stop := context.WithCancel(context.Background())
	l := &load{T: q.T, queue: q, history: new(queuefaults.History), stop: stop, end: func() {}}
	q.Cleanup(func() { stop(); l.end(); l.putting.Wait(); l.getting.Wait() })
	for _, name := range []string{"xml", "json", "random"} {
		kind, _ := corpus.ByName(name)
		l.bodies = append(l.bodies, kind.Generate(400_000))
	}
	_, js := q.connect("admin")
	for _, g := range groups {
		if err := l.consumer(js, g); err != nil {
			q.Fatal(err)
		}
	}
	for _, g := range groups {
		for key := range g.keys {
			_, js := q.connect(fmt.Sprintf("put %s %d", g.name, key))
			l.putting.Go(func() { l.put(putting, js, g, fmt.Sprintf("%s-%d", g.name, key)) })
		}
	}
	return l
}

// consume starts clients that get.
func (l *load) consume() {
	l.Helper()
	getting, end := context.WithCancel(context.Background())
	l.end = end
	for _, g := range groups {
		for i := range g.getters {
			_, js := l.queue.connect(fmt.Sprintf("get %s %d", g.name, i))
			l.getting.Go(func() { l.get(getting, js, g) })
		}
	}
}

func (l *load) consumer(js jetstream.JetStream, g group) error {
	config := jetstream.ConsumerConfig{
		Durable: g.name, FilterSubject: queueName + "." + g.name + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxAckPending: g.outstanding,
	}
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(l.Context(), answerTime)
		_, err := js.CreateOrUpdateConsumer(ctx, queueName, config)
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("make a consumer: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// body of a message: most are compressed, some are short, some do not shrink, and one in 50 is long.
func (l *load) body(key string, number uint64) []byte {
	kind := l.bodies[number%uint64(len(l.bodies))]
	length := 100 + rand.IntN(6000)
	if number%50 == 0 {
		length = 200_000
	}
	offset := rand.IntN(len(kind) - length)
	return append(fmt.Appendf(nil, "%s %d ", key, number), kind[offset:offset+length]...)
}

// put puts the messages of a key one after the other: the next when this one is acknowledged. Each is put until it is.
func (l *load) put(ctx context.Context, js jetstream.JetStream, g group, key string) {
	type first struct {
		message *nats.Msg
		at      time.Time
	}
	var sent []first
	for number := uint64(1); ctx.Err() == nil; number++ {
		payload := l.body(key, number)
		m := nats.NewMsg(queueName + "." + g.name + "." + key)
		m.Data = payload
		m.Header.Set(nats.MsgIdHdr, key+"-"+strconv.FormatUint(number, 10))
		m.Header.Set(keyHeader, key)
		m.Header.Set(numberHeader, strconv.FormatUint(number, 10))
		sent = append(sent, first{m, time.Now()})
		if !l.putUntilAcknowledged(js, m) {
			return
		}
		if os.Getenv(doubtVariable) != "" && number%doubt == 0 {
			if old := sent[rand.IntN(len(sent))]; time.Since(old.at) < doubtAge {
				l.putUntilAcknowledged(js, old.message)
			}
		}
		if len(sent) > doubtful {
			sent = sent[1:]
		}
		wait(ctx, g.pause)
	}
}

// putUntilAcknowledged goes on when putting is to stop: what is not acknowledged could be anywhere.
func (l *load) putUntilAcknowledged(js jetstream.JetStream, m *nats.Msg) bool {
	number, _ := strconv.ParseUint(m.Header.Get(numberHeader), 10, 64)
	put := queuefaults.Event{
		Kind: queuefaults.Put, ID: m.Header.Get(nats.MsgIdHdr), Key: m.Header.Get(keyHeader), Number: number, Digest: sha256.Sum256(m.Data),
	}
	deadline := time.Now().Add(patience)
	for {
		l.history.Add(put)
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		ack, err := js.PublishMsg(ctx, m)
		cancel()
		if err == nil {
			l.history.Add(queuefaults.Event{Kind: queuefaults.PutAcknowledged, ID: put.ID, Sequence: ack.Sequence})
			return true
		}
		if time.Now().After(deadline) {
			l.Errorf("message %s is not acknowledged after %v: %v", put.ID, patience, err)
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// get gets what a consumer has, and acknowledges it.
func (l *load) get(ctx context.Context, js jetstream.JetStream, g group) {
	for ctx.Err() == nil {
		if err := l.fetch(ctx, js, g); err != nil {
			wait(ctx, 50*time.Millisecond)
		}
	}
}

func (l *load) fetch(ctx context.Context, js jetstream.JetStream, g group) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	consumer, err := js.Consumer(ctx, queueName, g.name)
	if err != nil {
		return err
	}
	for range 20 { // Then it asks for the consumer once more.
		asked := time.Now()
		batch, err := consumer.Fetch(min(g.outstanding, 32), jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for m := range batch.Messages() {
			if err := l.got(m, g, asked); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

func (l *load) got(m jetstream.Msg, g group, asked time.Time) error {
	meta, err := m.Metadata()
	if err != nil {
		l.Errorf("a message came without its place: %v", err)
		return err
	}
	number, _ := strconv.ParseUint(m.Headers().Get(numberHeader), 10, 64)
	id := m.Headers().Get(nats.MsgIdHdr)
	l.history.Add(queuefaults.Event{
		Kind: queuefaults.Got, ID: id, Key: m.Headers().Get(keyHeader), Number: number, Digest: sha256.Sum256(m.Data()),
		Sequence: meta.Sequence.Stream, Consumer: g.name, Asked: asked,
	})
	ctx, cancel := context.WithTimeout(context.Background(), ackWait)
	defer cancel()
	if err := m.DoubleAck(ctx); err != nil {
		return err // It comes again.
	}
	l.history.Add(queuefaults.Event{Kind: queuefaults.GetAcknowledged, ID: id, Consumer: g.name})
	return nil
}

// finish ends putting, waits until all was got, and returns what was seen.
func (l *load) finish() []queuefaults.Event {
	l.Helper()
	l.stop()
	l.putting.Wait()
	_, js := l.queue.connect("admin")
	deadline := time.Now().Add(patience)
	for {
		left, err := messages(js)
		if err == nil && left == 0 {
			break
		}
		if time.Now().After(deadline) {
			l.Errorf("%d messages are in the queue %v after the last put: %v", left, patience, err)
			l.showLeft(js)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	// What was given before a fault comes again if the queue does not know that it is acknowledged.
	time.Sleep(2 * ackWait)
	l.end()
	l.getting.Wait()
	return l.history.Events()
}

// showLeft says what is in the queue, and what of that consumers have acknowledged.
func (l *load) showLeft(js jetstream.JetStream) {
	done := make(map[string]time.Time)
	for _, e := range l.history.Events() {
		if e.Kind == queuefaults.GetAcknowledged {
			done[e.ID] = e.Time
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := js.Stream(ctx, queueName)
	if err != nil {
		l.Log(err)
		return
	}
	state := stream.CachedInfo().State
	l.Logf("the stream has %d to %d", state.FirstSeq, state.LastSeq)
	for sequence, shown := state.FirstSeq, 0; sequence <= state.LastSeq && shown < 10; sequence++ {
		if m, err := stream.GetMsg(ctx, sequence); err == nil {
			id := m.Header.Get(nats.MsgIdHdr)
			l.Logf("  %d: %s, acknowledged %v", sequence, id, done[id])
			shown++
		}
	}
	for _, g := range groups {
		if consumer, err := stream.Consumer(ctx, g.name); err == nil {
			l.Logf("  consumer %s: %+v", g.name, *consumer.CachedInfo())
		}
	}
}

func messages(js jetstream.JetStream) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	stream, err := js.Stream(ctx, queueName)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.Msgs, nil
}

// judge fails the test for each promise that was not kept.
func (l *load) judge() {
	l.Helper()
	events := l.finish()
	puts, acknowledged := l.history.Count(queuefaults.Put), l.history.Count(queuefaults.PutAcknowledged)
	gets, done := l.history.Count(queuefaults.Got), l.history.Count(queuefaults.GetAcknowledged)
	l.Logf("%d puts, %d acknowledged; %d gets, %d acknowledged", puts, acknowledged, gets, done)
	if done == 0 {
		l.Error(errors.New("nothing was put and got: nothing was tested"))
	}
	shown := make(map[queuefaults.Fault]int)
	for _, v := range queuefaults.Check(events, rules) {
		const most = 3
		if shown[v.Fault]++; shown[v.Fault] > most {
			continue
		}
		l.Error(v)
		for _, e := range events {
			if e.ID == v.ID {
				l.Logf("  %s %s sequence %d %s", e.Time.Format("15:04:05.000"), e.Kind, e.Sequence, e.Consumer)
			}
		}
	}
	for fault, n := range shown {
		l.Logf("%d times: %s", n, fault)
	}
}
