// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// orderLength is that of orders which refer to dictionaries.
const orderLength = 1000

// shelf are the dictionaries of a queue. The first is in use.
type shelf []*message.Dictionary

func (s shelf) Current() *message.Dictionary { return s[0] }
func (shelf) Offer([]byte)                   {}
func (shelf) Used()                          {}

func (s shelf) Dictionary(number uint32) ([]byte, error) {
	for _, d := range s {
		if d.Number == number {
			return d.Content, nil
		}
	}
	return nil, fmt.Errorf("%w: number %d", message.ErrDictionary, number)
}

// newShelf trains a dictionary of its own for each seed.
func newShelf(id codec.ID, seeds ...uint64) (shelf, error) {
	format, err := dictionaries.Of(id)
	if err != nil {
		return nil, err
	}
	var out shelf
	for _, seed := range seeds {
		content, _, err := format.Train(codectest.Orders(seed, 100, orderLength), 8<<10)
		if err != nil {
			return nil, err
		}
		number, err := format.Number(content)
		if err != nil {
			return nil, err
		}
		out = append(out, &message.Dictionary{Codec: id, Number: number, Content: content})
	}
	return out, nil
}

// trained are dictionaries of zstd.
func trained(t *testing.T, seeds ...uint64) shelf { return trainedOf(t, codec.Zstd, seeds...) }

func trainedOf(t *testing.T, id codec.ID, seeds ...uint64) shelf {
	t.Helper()
	s, err := newShelf(id, seeds...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// decoding is that of a queue with the dictionaries.
func (s shelf) decoding() *message.Decoding {
	d := newDecoding()
	d.Use(s)
	return d
}

// encoding compresses with the first dictionary.
func (s shelf) encoding() (*message.Encoding, error) {
	o := encoding(1)
	o.Policy.Mode, o.Codecs, o.Dictionaries = policy.Auto, []codec.ID{s[0].Codec}, s
	return message.NewEncoding(o)
}

// refer returns messages as they rest that refer to the first dictionary.
func (s shelf) refer(plain ...[]byte) ([]*nats.Msg, error) {
	e, err := s.encoding()
	if err != nil {
		return nil, err
	}
	defer e.Close()
	encoder, err := e.Encoder()
	if err != nil {
		return nil, err
	}
	defer encoder.Release()
	var out []*nats.Msg
	for _, p := range plain {
		payload, form, _, err := encoder.Encode(nil, p)
		if err != nil || form.Dictionary != s[0].Number {
			return nil, fmt.Errorf("in form %+v: %w", form, err)
		}
		m := nats.NewMsg("orders")
		m.Data = payload
		for name, value := range form.Fields() {
			m.Header.Set(name, value)
		}
		out = append(out, m)
	}
	return out, nil
}

// arrived are requests as a receiver got them.
type arrived struct {
	mu           sync.Mutex
	dictionaries []*wirev1.ChannelDictionary
	referring    int
	messages     int
	bytes        uint64 // of payloads
}

func (a *arrived) see(r *wirev1.ChannelRunRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := r.GetDictionary(); d != nil {
		a.dictionaries = append(a.dictionaries, d)
	}
	for _, m := range r.GetBatch().GetMessages() {
		a.messages++
		a.bytes += uint64(len(m.GetPayload()))
		if m.GetForm().GetDictionary() != 0 {
			a.referring++
		}
	}
}

// numbers of the dictionaries that were sent, in their order, and how many messages came and referred to any.
func (a *arrived) numbers() (numbers []uint32, referring, messages int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.dictionaries {
		numbers = append(numbers, d.GetNumber())
	}
	return numbers, a.referring, a.messages
}

// across are two queues, and what passes between them.
type across struct {
	*testing.T
	east, west         *queue
	network            *network
	receiver           *channel.Receiver
	arrived            arrived
	workEast, workWest channel.Work
	sent               [][]byte
	ours               shelf // of the receiving queue
}

// newAcross has a receiving queue with a dictionary of its own.
func newAcross(t *testing.T, accepts channel.Acceptance, change func(*channel.ReceiverOptions)) *across {
	t.Helper()
	a := &across{T: t, east: newQueue(t, "orders", nil), west: newQueue(t, "incoming", nil), ours: trained(t, 99)}
	puts, err := a.ours.encoding()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(puts.Close)
	var stop func()
	a.receiver, a.network, stop, err = serveAs(a.west, "127.0.0.1:0", accepts, a.arrived.see,
		func(o *channel.ReceiverOptions) {
			o.Work, o.Encoding = &a.workWest, func() *message.Encoding { return puts }
			if change != nil {
				change(o)
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return a
}

// send starts the sending end of a queue with dictionaries.
func (a *across) send(s shelf, codecs ...codec.ID) *channel.Sender {
	a.Helper()
	o := senderOptions(a.east, a.network, codecs...)
	o.Decoding, o.Work = s.decoding(), &a.workEast
	sender, _ := send(a.T, o)
	return sender
}

// put stores orders that refer to the first dictionary.
func (a *across) put(s shelf, seed uint64, count int) {
	a.Helper()
	orders := codectest.Orders(seed, count, orderLength)
	messages, err := s.refer(orders...)
	if err != nil {
		a.Fatal(err)
	}
	a.sent = append(a.sent, orders...)
	a.east.put(a.T, messages...)
}

// has waits until the receiving queue has all that was put, once and in order, and returns the forms.
func (a *across) has() []message.Form {
	a.Helper()
	got := a.west.waitFor(a.T, len(a.sent))
	if len(got) != len(a.sent) {
		a.Fatalf("%d messages of %d", len(got), len(a.sent))
	}
	decoder, err := a.ours.decoding().Decoder()
	if err != nil {
		a.Fatal(err)
	}
	defer decoder.Release()
	var forms []message.Form
	for i, m := range got {
		form, err := formOf(m.Header)
		if err != nil {
			a.Fatal(err)
		}
		plain, _, err := decoder.Decode(nil, form, m.Data, maxMessage)
		if err != nil || !bytes.Equal(plain, a.sent[i]) {
			a.Fatalf("message %d: %v", i, err)
		}
		forms = append(forms, form)
	}
	a.east.waitEmpty(a.T)
	return forms
}

func operations(m *meter.Meter) int64 {
	s := m.Snapshot()
	return s.Hardware.Operations + s.Software.Operations
}

// TestDictionarySentOnce: many messages travel as they rest, after their dictionary, and the receiving queue has them in
// its own form. Another dictionary follows when a message refers to it.
func TestDictionarySentOnce(t *testing.T) {
	t.Parallel()
	for _, id := range []codec.ID{codec.Zstd, codec.Deflate} {
		t.Run(id.String(), func(t *testing.T) { testSentOnce(t, id) })
	}
}

func testSentOnce(t *testing.T, id codec.ID) {
	t.Parallel()
	a := newAcross(t, channel.Acceptance{Any: true}, nil)
	first, second := trainedOf(t, id, 1), trainedOf(t, id, 2)
	all := slices.Concat(first, second)
	sender := a.send(all, id)
	a.put(first, 11, 150)
	a.has()
	if numbers, referring, _ := a.arrived.numbers(); !slices.Equal(numbers, []uint32{first[0].Number}) || referring != 150 {
		t.Fatalf("%d messages came with dictionaries %v", referring, numbers)
	}
	a.put(second, 12, 50)
	a.put(first, 13, 50)
	for i, form := range a.has() {
		if form.Dictionary != a.ours[0].Number {
			t.Fatalf("message %d is stored in form %+v", i, form)
		}
	}
	numbers, referring, messages := a.arrived.numbers()
	if want := []uint32{first[0].Number, second[0].Number}; !slices.Equal(numbers, want) || referring != messages ||
		messages != len(a.sent) {
		t.Fatalf("%d of %d messages came with dictionaries %v", referring, messages, numbers)
	}
	if n := operations(&a.workEast.Decoded) + operations(&a.workEast.Encoded); n != 0 {
		t.Errorf("the engines did something for %d messages at the sending end", n)
	}
	for what, m := range map[string]*meter.Meter{"inflated": &a.workWest.Decoded, "compressed": &a.workWest.Encoded} {
		if n := operations(m); n != int64(len(a.sent)) {
			t.Errorf("the receiving end %s %d messages of %d", what, n, len(a.sent))
		}
	}
	a.arrived.mu.Lock()
	payload := a.arrived.bytes
	a.arrived.mu.Unlock()
	payload += uint64(len(first[0].Content) + len(second[0].Content))
	now := sender.Status()
	if now.GetRecoded() != 0 || now.GetMessages() != uint64(len(a.sent)) ||
		now.GetPlainBytes() != uint64(len(slices.Concat(a.sent...))) || now.GetPayloadBytes() != payload {
		t.Errorf("status is %v, want %d bytes", now, payload)
	}
	if got := a.receiver.Status()[0].GetPayloadBytes(); got != payload {
		t.Errorf("the receiver counts %d bytes, want %d", got, payload)
	}
	counted := func(want uint64) {
		t.Helper()
		if sent, arrived := sender.Status().GetDictionaries(), a.receiver.Status()[0].GetDictionaries(); sent != want ||
			arrived != want {
			t.Errorf("%d dictionaries are counted as sent, %d as received; want %d", sent, arrived, want)
		}
	}
	counted(2)
	sender.ResetStatistics()
	a.receiver.ResetStatistics()
	counted(0)
}

// TestDictionaryAgain: a session that begins again is sent the dictionary again.
func TestDictionaryAgain(t *testing.T) {
	t.Parallel()
	a := newAcross(t, channel.Acceptance{Any: true}, nil)
	s := trained(t, 1)
	sender := a.send(s, codec.Zstd)
	for round := range uint64(3) {
		a.put(s, 20+round, 30)
		a.has()
		a.network.cut(false)
		eventually(t, "the channel runs again", func() bool { return sender.Status().GetStarts() > round+1 })
	}
	if numbers, referring, messages := a.arrived.numbers(); len(numbers) != 3 || referring != messages {
		t.Errorf("%d of %d messages came with dictionaries %v", referring, messages, numbers)
	}
}

// TestNoDictionaries: where the receiving end takes none, or none of the negotiated codec, messages arrive as those of
// senders of an earlier release do.
func TestNoDictionaries(t *testing.T) {
	for name, test := range map[string]struct {
		accepts channel.Acceptance
		change  func(*channel.ReceiverOptions)
		travels codec.ID
	}{
		"earlier release": {
			channel.Acceptance{Any: true}, func(o *channel.ReceiverOptions) { o.Encoding = nil }, codec.Zstd,
		},
		"deflate":    {channel.Acceptance{Codecs: []codec.ID{codec.Deflate}}, nil, codec.Deflate},
		"no codec":   {channel.Acceptance{}, nil, codec.None},
		"no engines": {channel.Acceptance{Any: true}, withoutDictionaries, codec.Zstd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAcross(t, test.accepts, test.change)
			s := trained(t, 1)
			sender := a.send(s, codec.Zstd, codec.Deflate)
			a.put(s, 30, 40)
			for i, form := range a.has() {
				if form.Dictionary != 0 || form.Plain() != (test.travels == codec.None) ||
					!form.Plain() && form.Codec != test.travels {
					t.Fatalf("message %d is stored in form %+v", i, form)
				}
			}
			if numbers, referring, _ := a.arrived.numbers(); len(numbers)+referring != 0 {
				t.Errorf("%d messages came with dictionaries %v", referring, numbers)
			}
			if now := sender.Status(); now.GetRecoded() != 40 || now.GetDictionaries() != 0 {
				t.Errorf("%d messages were recoded, and %d dictionaries sent", now.GetRecoded(), now.GetDictionaries())
			}
		})
	}
}

// plainEngine is one of zstd without dictionaries.
type plainEngine struct{ codec.Engine }

func withoutDictionaries(o *channel.ReceiverOptions) {
	var all []codec.Engine
	for _, id := range registry.Codecs() {
		for _, e := range registry.ForCodec(id) {
			all = append(all, plainEngine{e})
		}
	}
	var err error
	if o.Decoding, err = message.NewDecoding(codec.NewRegistry(all...)); err != nil {
		panic(err)
	}
}

// TestStoredAsItCame: a receiving end that takes dictionaries stores what refers to none as it came, as it did before.
func TestStoredAsItCame(t *testing.T) {
	t.Parallel()
	a := newAcross(t, channel.Acceptance{Any: true}, nil)
	put := stored(t, "orders", codec.Zstd, text(5000))
	a.east.put(t, put)
	a.send(trained(t, 1), codec.Zstd)
	if got := a.west.waitFor(t, 1)[0]; !bytes.Equal(got.Data, put.Data) {
		t.Error("other bytes are stored")
	}
	if n := operations(&a.workWest.Encoded); n != 0 {
		t.Errorf("%d messages were compressed", n)
	}
}

// TestManyDictionaries: more than the other end keeps, needed at once and by turns, have all messages arrive.
func TestManyDictionaries(t *testing.T) {
	t.Parallel()
	const many = 20
	a := newAcross(t, channel.Acceptance{Any: true}, nil)
	var all shelf
	for i := range uint64(many) {
		all = append(all, trained(t, 40+i)...)
	}
	a.network.cut(true)
	for round := range uint64(3) {
		for i := range all {
			a.put(all[i:i+1], 100+round*many+uint64(i), 2)
		}
	}
	a.send(all, codec.Zstd)
	a.network.cut(false)
	a.has()
	numbers, referring, messages := a.arrived.numbers()
	if len(numbers) < 16 || referring < 32 || messages < len(a.sent) {
		t.Errorf("%d of %d messages came with dictionaries %v", referring, messages, numbers)
	}
}

// TestDamagedWithDictionary: a message whose payload does not fit its dictionary, or whose dictionary is not there, is a
// dead letter of the sending queue in the end, and those around it arrive.
func TestDamagedWithDictionary(t *testing.T) {
	t.Parallel()
	a := newAcross(t, channel.Acceptance{Any: true}, nil)
	a.network.cut(true)
	s, gone := trained(t, 1), trained(t, 2)
	a.put(s, 50, 10)
	damaged, err := s.refer(codectest.Orders(51, 1, orderLength)...)
	if err != nil {
		t.Fatal(err)
	}
	damaged[0].Data[len(damaged[0].Data)-5] ^= 0x55
	lost, err := gone.refer(codectest.Orders(52, 1, orderLength)...)
	if err != nil {
		t.Fatal(err)
	}
	a.east.put(t, damaged[0], lost[0])
	a.put(s, 53, 10)
	sender := a.send(s, codec.Zstd)
	a.network.cut(false)
	a.west.waitFor(t, len(a.sent))
	eventually(t, "both are dead letters", func() bool { return sender.Status().GetDeadLetters() == 2 })
	stream, err := a.east.js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.GetLastMsgForSubject(t.Context(), store.DeadSubject("orders")); err != nil {
		t.Error(err)
	}
	if got := a.west.waitFor(t, len(a.sent)); len(got) != len(a.sent) {
		t.Errorf("%d messages of %d", len(got), len(a.sent))
	}
}

// TestFanoutOfDictionaries: of two receivers each gets what it takes.
func TestFanoutOfDictionaries(t *testing.T) {
	t.Parallel()
	f := newFan(t)
	seen, ours := map[string]*arrived{}, trained(t, 99)
	puts, err := ours.encoding()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(puts.Close)
	for _, name := range []string{"new", "old"} {
		seen[name], f.west[name] = &arrived{}, newQueue(t, "incoming", nil)
		var stop func()
		_, f.net[name], stop, err = serveAs(f.west[name], "127.0.0.1:0", channel.Acceptance{Any: true}, seen[name].see,
			func(o *channel.ReceiverOptions) {
				o.Encoding = func() *message.Encoding { return puts }
				if name == "old" {
					o.Encoding = nil
				}
			})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	s := trained(t, 1)
	f.decoding = s.decoding()
	orders := codectest.Orders(60, 50, orderLength)
	messages, err := s.refer(orders...)
	if err != nil {
		t.Fatal(err)
	}
	f.east.put(t, messages...)
	f.send([]string{"new", "old"}, "new", "old")
	decoder, err := ours.decoding().Decoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Release()
	for name, want := range map[string]uint32{"new": ours[0].Number, "old": 0} {
		for i, m := range f.west[name].waitFor(t, len(orders)) {
			form, err := formOf(m.Header)
			if err != nil {
				t.Fatal(err)
			}
			plain, _, err := decoder.Decode(nil, form, m.Data, maxMessage)
			if err != nil || !bytes.Equal(plain, orders[i]) || form.Dictionary != want {
				t.Fatalf("%s, message %d: %+v, %v", name, i, form, err)
			}
		}
	}
	f.east.waitEmpty(t)
	if numbers, referring, _ := seen["new"].numbers(); len(numbers) != 1 || referring != len(orders) {
		t.Errorf("%d messages came with dictionaries %v", referring, numbers)
	}
	if numbers, referring, _ := seen["old"].numbers(); len(numbers)+referring != 0 {
		t.Errorf("%d messages came to the old one with dictionaries %v", referring, numbers)
	}
}
