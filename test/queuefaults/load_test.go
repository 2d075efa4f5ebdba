// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/envelope"
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

// pace is how much load there is.
type pace struct {
	groups []group
	// deepest is how many messages may wait before clients pause putting: all has to be got within the patience of the
	// test.
	deepest uint64
	// silence after which a client gives up a connection.
	silence time.Duration
}

var (
	busy = pace{deepest: 5000, silence: 2 * time.Second, groups: []group{
		{name: "turn", keys: 4, getters: 1, pause: 20 * time.Millisecond, outstanding: 1},
		{name: "many", keys: 8, getters: 2, pause: 5 * time.Millisecond, outstanding: 256},
	}}
	// slow leaves a small machine something for what else it does. What is given at once is acknowledged before it
	// comes again, as a rule.
	slow = pace{deepest: 500, silence: 20 * time.Second, groups: []group{
		{name: "turn", keys: 2, getters: 1, pause: 50 * time.Millisecond, outstanding: 1},
		{name: "many", keys: 4, getters: 2, pause: 50 * time.Millisecond, outstanding: 16},
	}}
)

const (
	ackWait = 2 * time.Second
	// answerTime is how long a client waits before it puts once more.
	answerTime = 3 * time.Second
	// doubt is how many messages there are to one that a client puts once more although it was acknowledged, as one
	// that was killed would. It is one of the last doubtful of its key and no older than doubtAge, well within the
	// window.
	doubt, doubtful = 10, 500
	doubtAge        = 45 * time.Second
)

// rules have a margin for what is on its way for long.
func rules() queuefaults.Rules {
	return queuefaults.Rules{
		Window: duplicateWindow() - 30*time.Second, InTurn: []string{"turn"}, OneByOne: []string{tellers},
	}
}

// load puts and gets until it is ended.
type load struct {
	*testing.T
	pace
	// to is the queue that messages are put into, from the one that they are got from: another where there is a channel
	// between.
	to, from *queue
	history  *queuefaults.History
	stop     context.CancelFunc // ends putting
	putting  sync.WaitGroup
	end      context.CancelFunc // ends getting
	getting  sync.WaitGroup
	bodies   [][]byte
	depth    atomic.Uint64 // of to, as it was said last
	puts     sync.Map      // when messages were put first, by id
	// when the last fault was over, in nanoseconds of Unix time; 0: something that was put after that has come
	healed atomic.Int64
	// deposed is when there may have been two leaders.
	deposed []queuefaults.Span
	// hasty: what is got is acknowledged, so that the queue becomes empty.
	hasty atomic.Bool
}

// newLoad returns one that puts and gets nothing yet, and the context of those that put. The queues have to be empty.
func newLoad(at pace, to, from *queue) (*load, context.Context) {
	to.Helper()
	putting, stop := context.WithCancel(context.Background())
	l := &load{T: to.T, pace: at, to: to, from: from, history: new(queuefaults.History), stop: stop, end: func() {}}
	to.Cleanup(func() { stop(); l.end(); l.putting.Wait(); l.getting.Wait() })
	for _, name := range []string{"xml", "json", "random"} {
		kind, _ := corpus.ByName(name)
		l.bodies = append(l.bodies, kind.Generate(400_000))
	}
	_, js := to.connect("depth")
	l.putting.Go(func() {
		for ; putting.Err() == nil; wait(putting, 200*time.Millisecond) {
			if depth, err := messages(js, to.name); err == nil {
				l.depth.Store(depth)
			}
		}
	})
	return l, putting
}

// begin starts clients of NATS that put, as busy ones.
func begin(to, from *queue) *load {
	to.Helper()
	return beginAt(busy, to, from)
}

func beginAt(at pace, to, from *queue) *load {
	to.Helper()
	to.silence, from.silence = at.silence, at.silence
	l, putting := newLoad(at, to, from)
	js := from.admin()
	for _, g := range l.groups {
		if err := l.consumer(js, g); err != nil {
			to.Fatal(err)
		}
	}
	for _, g := range l.groups {
		for key := range g.keys {
			_, js := to.connect(fmt.Sprintf("put %s %d", g.name, key))
			l.putting.Go(func() { l.put(putting, js, g, fmt.Sprintf("%s-%d", g.name, key)) })
		}
	}
	// What is being put is acknowledged before connections are closed, which would have it put in vain for long.
	to.Cleanup(func() { l.stop(); l.putting.Wait() })
	return l
}

// consume starts clients of NATS that get.
func (l *load) consume() {
	l.Helper()
	getting, end := context.WithCancel(context.Background())
	l.end = end
	for _, g := range l.groups {
		for i := range g.getters {
			_, js := l.from.connect(fmt.Sprintf("get %s %d", g.name, i))
			l.getting.Go(func() { l.get(getting, js, g) })
		}
	}
}

// doubts reports whether clients put messages once more that were acknowledged.
func (l *load) doubts() bool { return len(l.to.members) == 1 || os.Getenv(doubtVariable) != "" }

// rest is between two puts of a client.
func (l *load) rest(ctx context.Context, pause time.Duration) {
	wait(ctx, pause)
	for ctx.Err() == nil && l.depth.Load() > l.deepest {
		wait(ctx, 100*time.Millisecond)
	}
}

func (l *load) consumer(js jetstream.JetStream, g group) error {
	config := jetstream.ConsumerConfig{
		Durable: g.name, FilterSubject: l.from.name + "." + g.name + ".>", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxAckPending: g.outstanding,
	}
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(l.Context(), answerTime)
		_, err := js.CreateOrUpdateConsumer(ctx, l.from.name, config)
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

// body of a message: most are compressed, some are short, some do not shrink, one in 50 is long and one in 53 empty.
func (l *load) body(key string, number uint64) []byte {
	if number%53 == 0 {
		return nil
	}
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
		m := nats.NewMsg(l.to.name + "." + g.name + "." + key)
		m.Data = payload
		m.Header.Set(nats.MsgIdHdr, key+"-"+strconv.FormatUint(number, 10))
		m.Header.Set(keyHeader, key)
		m.Header.Set(numberHeader, strconv.FormatUint(number, 10))
		sent = append(sent, first{m, time.Now()})
		if !l.putUntilAcknowledged(js, m) {
			return
		}
		if l.doubts() && number%doubt == 0 {
			if old := sent[rand.IntN(len(sent))]; time.Since(old.at) < doubtAge {
				l.putUntilAcknowledged(js, old.message)
			}
		}
		if len(sent) > doubtful {
			sent = sent[1:]
		}
		l.rest(ctx, g.pause)
	}
}

// putUntilAcknowledged goes on when putting is to stop: what is not acknowledged could be anywhere.
func (l *load) putUntilAcknowledged(js jetstream.JetStream, m *nats.Msg) bool {
	number, _ := strconv.ParseUint(m.Header.Get(numberHeader), 10, 64)
	put := queuefaults.Event{
		Kind: queuefaults.Put, ID: m.Header.Get(nats.MsgIdHdr), Key: m.Header.Get(keyHeader), Number: number,
		Digest: sha256.Sum256(m.Data),
	}
	l.puts.LoadOrStore(put.ID, time.Now().UnixNano())
	deadline := time.Now().Add(putPatience())
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
			l.Errorf("message %s is not acknowledged after %v: %v", put.ID, putPatience(), err)
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
	consumer, err := js.Consumer(ctx, l.from.name, g.name)
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
	id := cmp.Or(m.Headers().Get(envelope.IDHeader), m.Headers().Get(nats.MsgIdHdr))
	e := queuefaults.Event{
		Kind: queuefaults.Got, ID: id, Key: m.Headers().Get(keyHeader), Number: number, Digest: sha256.Sum256(m.Data()),
		Sequence: meta.Sequence.Stream, Consumer: g.name, Asked: asked,
	}
	if l.from != l.to {
		e.Stream = l.from.name
	}
	if put, ok := l.puts.LoadAndDelete(id); ok && put.(int64) > l.healed.Load() {
		l.healed.Store(0)
	}
	l.history.Add(e)
	l.history.Add(queuefaults.Event{Kind: queuefaults.GetAcknowledging, ID: id, Consumer: g.name})
	ctx, cancel := context.WithTimeout(context.Background(), ackWait)
	defer cancel()
	if err := m.DoubleAck(ctx); err != nil {
		return err // It comes again.
	}
	l.history.Add(queuefaults.Event{Kind: queuefaults.GetAcknowledged, ID: id, Consumer: g.name})
	return nil
}

// flows waits until something comes behind a channel that was put after now, so that the next fault breaks a channel
// that runs.
func (l *load) flows() error {
	l.healed.Store(time.Now().UnixNano())
	for deadline := time.Now().Add(patience); l.healed.Load() != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%v after the fault was over nothing has come that was put since", patience)
		}
	}
	return nil
}

// awaitDictionaries waits, while clients put, until n dictionaries were put into use since the beginning: faults meet
// messages that refer to one, and on a busy machine members that are broken all the time train few.
func (l *load) awaitDictionaries(n int) error {
	for deadline := time.Now().Add(patience); l.to.dictionaries() < n; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d dictionaries were put into use, not %d", l.to.dictionaries(), n)
		}
	}
	return nil
}

// finish ends putting, waits until all was got, and returns what was seen.
func (l *load) finish() []queuefaults.Event {
	l.Helper()
	l.hasty.Store(true)
	l.stop()
	l.putting.Wait()
	l.empty(l.to, 0)
	if l.from != l.to {
		l.empty(l.from, 1) // where the channel has come to
	}
	// What was given before a fault comes again if the queue does not know that it is acknowledged.
	time.Sleep(2 * ackWait)
	l.end()
	l.getting.Wait()
	return l.history.Events()
}

// empty waits until a queue has no messages, but for some that nobody gets.
func (l *load) empty(q *queue, most uint64) {
	l.Helper()
	js := q.admin()
	deadline := time.Now().Add(patience)
	for {
		left, err := messages(js, q.name)
		if err == nil && left <= most {
			return
		}
		if time.Now().After(deadline) {
			l.Errorf("%d messages are in the queue %s %v after the last put: %v", left, q.name, patience, err)
			l.showLeft(q, js)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// showLeft says what is in the queue, and what of that consumers have acknowledged.
func (l *load) showLeft(q *queue, js jetstream.JetStream) {
	done := make(map[string]time.Time)
	for _, e := range l.history.Events() {
		if e.Kind == queuefaults.GetAcknowledged {
			done[e.ID] = e.Time
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := js.Stream(ctx, q.name)
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
	for _, g := range l.groups {
		if consumer, err := stream.Consumer(ctx, g.name); err == nil {
			l.Logf("  consumer %s: %+v", g.name, *consumer.CachedInfo())
		}
	}
}

func messages(js jetstream.JetStream, queue string) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	stream, err := js.Stream(ctx, queue)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.Msgs, nil
}

// span says when who got a message had asked for it, and until when it is theirs.
func span(e queuefaults.Event) string {
	text := ""
	if !e.Asked.IsZero() {
		text += e.Asked.Format(", asked for 15:04:05.000")
	}
	if !e.Until.IsZero() {
		text += e.Until.Format(", until 15:04:05.000")
	}
	return text
}

// judge fails the test for each promise that was not kept.
func (l *load) judge() {
	l.Helper()
	events := l.finish()
	count := l.history.Count
	l.Logf("%d puts, %d acknowledged; %d gets, %d acknowledged; %d rejected, %d dead letters got, %d "+
		"acknowledged", count(queuefaults.Put), count(queuefaults.PutAcknowledged),
		count(queuefaults.Got), count(queuefaults.GetAcknowledged), count(queuefaults.Rejected), count(queuefaults.GotDead),
		count(queuefaults.DeadAcknowledged))
	if count(queuefaults.GetAcknowledged) == 0 {
		l.Error("nothing was put and got: nothing was tested")
	}
	lenient := rules()
	lenient.Deposed = l.deposed
	found := queuefaults.Check(events, lenient)
	l.Logf(
		"messages that came again from leaders that had been deposed: %d", len(queuefaults.Check(events, rules()))-len(found),
	)
	shown := make(map[queuefaults.Fault]int)
	for _, v := range found {
		const most = 3
		if shown[v.Fault]++; shown[v.Fault] > most {
			continue
		}
		l.Error(v)
		for _, e := range events {
			if e.ID == v.ID {
				l.Logf("  %s %s sequence %d %s%s", e.Time.Format("15:04:05.000"), e.Kind, e.Sequence, e.Consumer, span(e))
			}
		}
	}
	l.Logf("promises that were broken: %v", shown)
}
