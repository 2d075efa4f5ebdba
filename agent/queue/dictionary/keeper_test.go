// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestLife: a dictionary is trained, used by all members, replaced when messages change, kept over a restart, and
// deleted where dictionaries are not used any more and no message needs it.
func TestLife(t *testing.T) {
	q := newQueue(t)
	one, two := q.member(true, nil), q.member(false, nil)
	orders := codectest.Orders(1, 700, 1000)
	if form, _ := one.put(orders[0]); form.Dictionary != 0 {
		t.Fatalf("before any is trained: %+v", form)
	}
	one.offer(orders[:600])
	var r *wirev1.QueueDictionaries
	q.await("both use a dictionary", func() bool {
		r = one.Report()
		return r.GetCurrent() != nil && two.Current() != nil
	})
	first := r.GetCurrent().GetNumber()
	if c := r.GetCurrent(); r.GetKept() != 1 || r.GetTrained() != 1 || c.GetTrainedTime() == nil ||
		c.GetBytes() == 0 || c.GetTrainingMessages() < 100 || c.GetWireBytes() >= c.GetWireBytesWithout() ||
		c.GetPlainBytes() == 0 || c.GetMeasuredMessages() == 0 || c.GetCompressNanos() == 0 || c.GetInflateNanos() == 0 {
		t.Errorf("reported: %v", r)
	}
	old := one.refer(orders[650], first)
	if plain, err := two.get(old); err != nil || !bytes.Equal(plain, orders[650]) {
		t.Errorf("got by the other member: %v", err)
	}

	// Messages of another kind.
	other := make([][]byte, 1400)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range other {
		other[i] = fmt.Appendf(nil, `{"sensor":%d,"unit":"degree celsius, measured at the inlet of the secondary circuit",`+
			`"calibration":{"laboratory":"north quay 17","certificate":"not older than a year"},"values":[%d,%d,%d]}`,
			random.IntN(1000), random.Int(), random.Int(), random.Int())
	}
	one.offer(other)
	var second uint32
	q.await("another takes its place", func() bool {
		one.offer(other)
		a, b := one.Current(), two.Current()
		if a == nil || b == nil || a.Number == first || a.Number != b.Number {
			return false
		}
		second = a.Number
		return true
	})
	late := two.refer(other[7], second)
	if plain, err := one.get(late); err != nil || !bytes.Equal(plain, other[7]) {
		t.Errorf("got: %v", err)
	}
	time.Sleep(20 * hasty.Poll)
	if plain, err := two.get(old); err != nil || !bytes.Equal(plain, orders[650]) {
		t.Errorf("a message of the first one: %v", err)
	}

	one.stop()
	two.stop()
	again := q.member(true, func(o *dictionary.Options) { o.Timing.First = time.Hour })
	if plain, err := again.get(old); err != nil || !bytes.Equal(plain, orders[650]) {
		t.Errorf("after a restart: %v", err)
	}
	q.await("it uses the second after a restart", func() bool {
		d := again.Current()
		return d != nil && d.Number == second
	})
	again.use(false)
	if again.Current() != nil {
		t.Error("one is in use where none is to be")
	}
	again.remove(old)
	again.remove(1)
	time.Sleep(20 * hasty.Poll)
	if _, err := again.Dictionary(second); err != nil {
		t.Errorf("it is gone while a message refers to it: %v", err)
	}
	again.remove(late)
	q.await("none is kept", func() bool { return again.Report().GetKept() == 0 })
}

// TestSlowTraining: a member that takes longer to train than the interval does other things in between.
func TestSlowTraining(t *testing.T) {
	q := newQueue(t)
	const interval = 50 * time.Millisecond
	type span struct{ from, to time.Time }
	trained := make(chan span, 1)
	m := q.member(true, func(o *dictionary.Options) {
		o.Timing.Interval, o.Timing.Always = interval, true
		train := o.Train
		o.Train = func(messages [][]byte, size int) ([]byte, int, error) {
			from := time.Now()
			time.Sleep(2 * interval)
			content, used, err := train(messages, size)
			trained <- span{from, time.Now()}
			return content, used, err
		}
	})
	m.offer(codectest.Orders(1, 300, 1000))
	before := <-trained
	for range 3 {
		next := <-trained
		if pause := next.from.Sub(before.to); pause < interval {
			t.Errorf("trained again after %v; want %v at least", pause, interval)
		}
		before = next
	}
	m.leads.Store(false)
	select { // One may be under way.
	case <-trained:
	case <-time.After(10 * interval):
	}
}

// TestAnotherCodec: where messages are compressed with another codec from now on, a dictionary of that takes the place of
// the one in use, and what refers to the old one stays readable.
func TestAnotherCodec(t *testing.T) {
	q := newQueue(t)
	m := q.member(true, func(o *dictionary.Options) { o.Train = nil })
	orders := codectest.Orders(1, 700, 1000)
	m.offer(orders[:600])
	m.await("one of zstd is in use", func() bool { return m.Current() != nil })
	first := m.Current().Number
	old := m.refer(orders[650], first)
	encoding, err := message.NewEncoding(message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast}, Codecs: []codec.ID{codec.Deflate}, MinSize: 1,
		Engines: engines.Default(), Dictionaries: m.Keeper,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoding.Close)
	m.encoding = encoding
	m.Set(dictionary.Settings{
		Use: true, Engine: goflate.New().(codec.DictionaryEngine), Level: codec.Fast,
		Value: func(s policy.Spent) float64 { return s.Wire / max(s.Plain, 1) },
	})
	var second *message.Dictionary
	m.await("one of deflate is in use", func() bool {
		second = m.Current()
		return second != nil && second.Codec == codec.Deflate
	})
	late := m.refer(orders[651], second.Number)
	for sequence, want := range map[uint64][]byte{old: orders[650], late: orders[651]} {
		if got, err := m.get(sequence); err != nil || !bytes.Equal(got, want) {
			t.Errorf("message %d: %v", sequence, err)
		}
	}
	if r := m.Report(); r.GetCurrent().GetCodec() != "deflate" || r.GetKept() != 2 || r.GetKeptDeflate() != 1 ||
		!r.GetDeflate() {
		t.Errorf("reported: %v", r)
	}
}

// TestNotRead: before a member has read what there is, it does not say that there is nothing.
func TestNotRead(t *testing.T) {
	q := newQueue(t)
	k := dictionary.New(dictionary.Options{
		Conn: q.conn, Queue: storetest.Queue, Leads: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
	})
	if r := k.Report(); r.KeptDeflate != nil {
		t.Errorf("reported before anything was read: %v", r)
	}
	if err := k.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := k.Report(); r.KeptDeflate == nil || r.GetKept() != 0 {
		t.Errorf("reported of a queue without dictionaries: %v", r)
	}
}

// TestNoise: a dictionary that does not pay is not used, and the report says why.
func TestNoise(t *testing.T) {
	m := newQueue(t).member(true, nil)
	random := rand.NewChaCha8([32]byte{})
	noise := make([][]byte, 600)
	for i := range noise {
		noise[i] = make([]byte, 1000)
		_, _ = random.Read(noise[i])
	}
	m.offer(noise[:100])
	m.await("it says that it knows too little", func() bool { return m.Report().GetProblem() != "" })
	m.offer(noise)
	few := m.Report().GetProblem()
	m.await("it says that none pays", func() bool {
		p := m.Report().GetProblem()
		return p != "" && p != few
	})
	if r := m.Report(); r.GetKept() != 0 || r.GetTrained() != 0 || m.Current() != nil {
		t.Errorf("noise has a dictionary: %v", r)
	}
}

// TestStored: where clients put at other members, stored messages are trained on.
func TestStored(t *testing.T) {
	m := newQueue(t).member(true, func(o *dictionary.Options) {
		o.Sample = func(context.Context) ([][]byte, error) { return codectest.Orders(1, 400, 1000), nil }
	})
	m.await("one is in use", func() bool { return m.Current() != nil })
}

// TestHeard: where clients put at other members, and consumers leave nothing stored, messages are trained on that pass.
func TestHeard(t *testing.T) {
	q := newQueue(t)
	plain := func(header nats.Header, payload []byte) []byte {
		if form, err := message.FormOf(header); err != nil || form.Codec != 0 {
			return nil
		}
		return bytes.Clone(payload)
	}
	var conn *nats.Conn
	one := q.member(true, func(o *dictionary.Options) { o.Plain, conn = plain, o.Conn })
	put := func(message []byte) {
		ack, err := q.js.Publish(t.Context(), "orders.new", message)
		if err != nil {
			t.Fatal(err)
		}
		q.remove(ack.Sequence)
	}
	orders := codectest.Orders(1, 1000, 1000)
	q.await("one is in use", func() bool {
		for range 20 {
			put(orders[rand.IntN(len(orders))])
		}
		return one.Current() != nil
	})
	if c := one.Report().GetCurrent(); c.GetTrainingMessages() < 100 {
		t.Errorf("in use: %v", c)
	}
	const answers = 1 // is what JetStream's answers come by
	q.await("it listens while clients put elsewhere", func() bool { return conn.NumSubscriptions() > answers })
	q.await("it listens no more while clients put here", func() bool {
		one.offer(orders[:20])
		return conn.NumSubscriptions() <= answers
	})
	q.await("it listens again", func() bool { return conn.NumSubscriptions() > answers })
	one.use(false)
	q.await("it listens no more without dictionaries", func() bool { return conn.NumSubscriptions() <= answers })
}

// TestPressure: nothing is trained while the member has too little CPU time.
func TestPressure(t *testing.T) {
	var pressed atomic.Bool
	pressed.Store(true)
	m := newQueue(t).member(true, func(o *dictionary.Options) { o.Pressed = pressed.Load })
	m.offer(codectest.Orders(1, 400, 1000))
	m.await("it says so", func() bool { return m.Report().GetProblem() != "" })
	time.Sleep(10 * hasty.Poll)
	if m.Report().GetTrained() != 0 {
		t.Error("one was trained under pressure")
	}
	pressed.Store(false)
	m.await("one is in use", func() bool { return m.Current() != nil })
}

// TestLease: a member that does not hear what is in use uses none.
func TestLease(t *testing.T) {
	q := newQueue(t)
	leader := q.member(true, nil)
	var conn *nats.Conn
	alone := q.member(false, func(o *dictionary.Options) { conn, o.Timing.Lease = o.Conn, time.Second })
	leader.offer(codectest.Orders(1, 400, 1000))
	q.await("both use one", func() bool { return leader.Current() != nil && alone.Current() != nil })
	conn.Close()
	q.await("it uses none", func() bool { return alone.Current() == nil })
	if _, err := alone.Dictionary(1 << 20); err == nil || errors.Is(err, message.ErrDictionary) {
		t.Errorf("one that it cannot ask for: %v", err)
	}
}

// changing has each look put another dictionary into use, trained on few messages.
func changing(o *dictionary.Options) {
	o.Train = quick(60, zstddict.MinSize)
	var seed atomic.Uint64
	seed.Store(rand.Uint64())
	o.Timing.Always, o.Timing.Settle, o.Timing.Interval = true, time.Millisecond, 50*time.Millisecond
	o.Sample = func(context.Context) ([][]byte, error) { return codectest.Orders(seed.Add(1), 260, 300), nil }
}

// TestFailure: why no dictionary comes into use is reported until one does.
func TestFailure(t *testing.T) {
	var failure atomic.Pointer[error]
	full := errors.New("the volume is full")
	failure.Store(&full)
	m := newQueue(t).member(true, func(o *dictionary.Options) {
		ensure := o.Ensure
		o.Ensure = func(ctx context.Context) error {
			if err := failure.Load(); err != nil {
				return *err
			}
			return ensure(ctx)
		}
	})
	m.offer(codectest.Orders(1, 400, 1000))
	m.await("it says why", func() bool { return strings.Contains(m.Report().GetProblem(), full.Error()) })
	failure.Store(nil)
	m.await("one is in use", func() bool { return m.Current() != nil && m.Report().GetProblem() == "" })
	failure.Store(&full)
	m.use(false)
	m.await("it says why it stays in use", func() bool { return strings.Contains(m.Report().GetProblem(), full.Error()) })
	failure.Store(nil)
	m.await("none is in use", func() bool { return m.InUse() == 0 && m.Report().GetProblem() == "" })
}

// TestBound: there are no more than the bound, whatever messages need.
func TestBound(t *testing.T) {
	q := newQueue(t)
	m := q.member(true, changing)
	m.put(codectest.Orders(1, 1, 300)[0])
	var full *wirev1.QueueDictionaries
	q.await("as many are kept as may be", func() bool {
		// The last one is in use a moment after it is kept.
		full = m.Report()
		return full.GetKept() == store.MaxDictionaries && full.GetTrained() >= store.MaxDictionaries &&
			full.GetProblem() != "" && full.GetCurrent() != nil
	})
	trained := full.GetTrained()
	time.Sleep(500 * time.Millisecond)
	if r := m.Report(); r.GetKept() != store.MaxDictionaries || r.GetTrained() != trained {
		t.Errorf("more of them: %v", r)
	}
	stream, err := q.js.Stream(t.Context(), storetest.Queue)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.await("others are trained when messages have left", func() bool { return m.Report().GetTrained() > trained })
}

// TestAllInUse: each of as many dictionaries as may be comes into use, and the last one out of it, with one member and
// with three, also where the stream is as earlier releases made it, which had space for the entries alone.
func TestAllInUse(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *queue{"one member": newQueue, "three members": newMembers} {
		t.Run(name, func(t *testing.T) {
			q := open(t)
			k := q.still(func(*dictionary.Timing) {})
			var last uint32
			for i := range uint64(store.MaxDictionaries) {
				last = q.adopt(k, i+1)
			}
			if k.InUse() != last || k.Report().GetKept() != store.MaxDictionaries {
				t.Fatalf("dictionary %d is in use, not %d: %v", k.InUse(), last, k.Report())
			}
			q.answered(func(ctx context.Context) error {
				stream, err := q.js.Stream(ctx, store.DictionaryStream(storetest.Queue))
				if err != nil {
					return err
				}
				earlier := stream.CachedInfo().Config
				earlier.MaxMsgs = store.MaxDictionaries + 1
				_, err = q.js.UpdateStream(ctx, earlier)
				return err
			})
			k.Set(dictionary.Settings{})
			q.await("none is in use", func() bool {
				k.Look(t.Context())
				return k.InUse() == 0
			})
		})
	}
}

// TestSecondLeader: of two members that think that they lead, each leaves what the other has put into use readable.
func TestSecondLeader(t *testing.T) {
	q := newQueue(t)
	all := []*member{q.member(true, changing), q.member(true, changing)}
	orders := codectest.Orders(1, 100, 1000)
	type stored struct {
		sequence uint64
		plain    []byte
	}
	var messages []stored
	referring := map[uint32]bool{}
	at := 0
	q.await("messages refer to several", func() bool {
		for _, m := range all {
			if c := m.Current(); c == nil || referring[c.Number] {
				continue
			}
			at = (at + 1) % 100
			form, sequence := m.put(orders[at])
			messages = append(messages, stored{sequence, orders[at]})
			if form.Dictionary != 0 {
				referring[form.Dictionary] = true
			}
		}
		return len(referring) > 2
	})
	for _, m := range all {
		for _, s := range messages {
			if plain, err := m.get(s.sequence); err != nil || !bytes.Equal(plain, s.plain) {
				t.Fatalf("message %d: %v", s.sequence, err)
			}
		}
	}
}

// trained is a dictionary of orders.
func trained(t testing.TB) (content []byte, number uint32, about *wirev1.QueueDictionary) {
	t.Helper()
	content, _, err := zstddict.Train(codectest.Orders(1, 300, 1000), zstddict.MinSize)
	if err != nil {
		t.Fatal(err)
	}
	if number, err = zstddict.Number(content); err != nil {
		t.Fatal(err)
	}
	return content, number, &wirev1.QueueDictionary{Number: number, PlainBytes: 2, WireBytes: 1, WireBytesWithout: 2}
}

// FuzzEntry: what is kept of a dictionary is read as it is written, or refused.
func FuzzEntry(f *testing.F) {
	content, number, about := trained(f)
	good, err := dictionary.Marshal(about, content)
	if err != nil {
		f.Fatal(err)
	}
	format, err := dictionaries.Of(codec.Deflate)
	if err != nil {
		f.Fatal(err)
	}
	deflate, err := format.Number(content)
	if err != nil {
		f.Fatal(err)
	}
	for name, number := range map[string]uint32{"deflate": deflate, "zstd": number, "brotli": number} {
		entry, err := dictionary.Marshal(&wirev1.QueueDictionary{Number: number, Codec: name}, content)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(number, entry)
	}
	f.Add(number, good)
	f.Add(number+1, good)
	f.Add(number, good[:len(good)/2])
	f.Add(uint32(0), []byte{})
	f.Fuzz(func(t *testing.T, number uint32, data []byte) {
		about, content, err := dictionary.ParseEntry(number, data)
		if err != nil {
			if !errors.Is(err, dictionary.ErrEntry) {
				t.Fatal(err)
			}
			return
		}
		if about.GetNumber() != number || len(content) > 64<<10 {
			t.Fatalf("dictionary %d of %d bytes was taken for %d", about.GetNumber(), len(content), number)
		}
		id := codec.Zstd
		if about.GetCodec() != "" {
			if id, err = codec.ParseID(about.GetCodec()); err != nil {
				t.Fatal(err)
			}
		}
		for _, engine := range engines.Default().ForCodec(id) {
			with, ok := engine.(codec.DictionaryEngine)
			if !ok {
				continue
			}
			if d, err := with.NewDictionaryDecoder(content); err == nil {
				_ = d.Close()
			}
			if e, err := with.NewDictionaryEncoder(codec.Fast, content); err == nil {
				_ = e.Close()
			}
		}
	})
}
