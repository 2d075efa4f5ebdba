// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/cover"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// carried are the codecs that have dictionaries.
var carried = [2]codec.ID{codec.Zstd, codec.Deflate}

// overCarried runs a test with each of them, and with the other one.
func overCarried(t *testing.T, test func(t *testing.T, id, other codec.ID)) {
	t.Helper()
	for i, id := range carried {
		t.Run(id.String(), func(t *testing.T) { test(t, id, carried[1-i]) })
	}
}

// referring is an engine of a codec.
func referring(id codec.ID) codec.DictionaryEngine {
	if id == codec.Deflate {
		return goflate.New().(codec.DictionaryEngine)
	}
	return gozstd.New().(codec.DictionaryEngine)
}

// testDictionary is one as a peer sends it.
func testDictionary(t testing.TB, id codec.ID) *wirev1.ChannelDictionary {
	t.Helper()
	format, err := dictionaries.Of(id)
	if err != nil {
		t.Fatal(err)
	}
	content, _, err := format.Train(codectest.Orders(1, 100, 1000), 8<<10)
	if err != nil {
		t.Fatal(err)
	}
	number, err := format.Number(content)
	if err != nil {
		t.Fatal(err)
	}
	return &wirev1.ChannelDictionary{Codec: uint32(id), Number: number, Content: content}
}

// variant is another dictionary with the tables of one, if it has tables.
func variant(t testing.TB, d *wirev1.ChannelDictionary, i int) *wirev1.ChannelDictionary {
	t.Helper()
	out := proto.CloneOf(d)
	content, tables := out.Content, d.GetCodec() == uint32(codec.Zstd)
	if tables {
		content = content[len(content)-contentSize(t, d):]
	}
	// All is at another place, since streams of deflate do not name their dictionary.
	copy(content, content[1:])
	binary.LittleEndian.PutUint32(content[len(content)-4:], uint32(i))
	if out.Number = cover.Number(content); tables {
		binary.LittleEndian.PutUint32(out.Content[4:], out.Number)
	}
	return out
}

// contentSize is how many bytes a dictionary of zstd has behind its tables.
func contentSize(t testing.TB, d *wirev1.ChannelDictionary) int {
	t.Helper()
	known, err := zstd.InspectDictionary(d.GetContent())
	if err != nil {
		t.Fatal(err)
	}
	return known.ContentSize()
}

// with has a message refer to a dictionary.
func with(t testing.TB, d *wirev1.ChannelDictionary, sequence uint64) *wirev1.ChannelMessage {
	t.Helper()
	plain := codectest.Orders(2, 1, 1000)[0]
	encoder, err := referring(codec.ID(d.GetCodec())).NewDictionaryEncoder(codec.Fast, d.GetContent())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = encoder.Close() }()
	payload := make([]byte, len(plain))
	n, err := encoder.Encode(payload, plain)
	if err != nil {
		t.Fatal(err)
	}
	return &wirev1.ChannelMessage{Sequence: sequence, Payload: payload[:n], Form: &wirev1.ChannelForm{
		Codec: d.GetCodec(), EngineClass: uint32(codec.Software), Length: uint64(len(plain)),
		Checksum: xxh3.Hash(plain), Dictionary: d.GetNumber(),
	}}
}

// testReceiver takes dictionaries.
func testReceiver(t testing.TB) *Receiver {
	t.Helper()
	encoding, err := message.NewEncoding(message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast}, Codecs: []codec.ID{codec.Deflate}, MinSize: 1,
		Engines: engines.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoding.Close)
	return NewReceiver(ReceiverOptions{
		Decoding: testDecoding(t), Encoding: func() *message.Encoding { return encoding }, MaxMessage: testLimits.maxMessage,
	}, Acceptance{Any: true})
}

// carrying are limits of a session that was sent dictionaries.
func carrying(t testing.TB, id codec.ID, all ...*wirev1.ChannelDictionary) limits {
	t.Helper()
	l := testLimits
	var release func()
	l.codec = id
	l.dictionaries, release = testReceiver(t).arrivals(id)
	t.Cleanup(release)
	for _, d := range all {
		if err := l.dictionaries.add(d); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestHostileDictionaries: none that is too long, not what it says, or not asked for is kept, and messages that refer to
// others are refused.
func TestHostileDictionaries(t *testing.T) { overCarried(t, testHostileDictionaries) }

func testHostileDictionaries(t *testing.T, id, other codec.ID) {
	sound := testDictionary(t, id)
	for name, change := range map[string]func(*wirev1.ChannelDictionary){
		"nothing":         func(d *wirev1.ChannelDictionary) { proto.Reset(d) },
		"no content":      func(d *wirev1.ChannelDictionary) { d.Content = nil },
		"raw content":     func(d *wirev1.ChannelDictionary) { d.Content = bytes.Repeat([]byte("lighter "), 1000) },
		"too long":        func(d *wirev1.ChannelDictionary) { d.Content = append(d.GetContent(), make([]byte, 64<<10)...) },
		"cut short":       func(d *wirev1.ChannelDictionary) { d.Content = d.GetContent()[:100] },
		"another number":  func(d *wirev1.ChannelDictionary) { d.Number++ },
		"number 0":        func(d *wirev1.ChannelDictionary) { d.Number = 0 },
		"another content": func(d *wirev1.ChannelDictionary) { d.Content[len(d.GetContent())-1] ^= 1 },
		"number of another": func(d *wirev1.ChannelDictionary) {
			d.Number++
			binary.LittleEndian.PutUint32(d.GetContent()[4:], d.GetNumber())
		},
		"another codec": func(d *wirev1.ChannelDictionary) { d.Codec = uint32(other) },
		"unknown codec": func(d *wirev1.ChannelDictionary) { d.Codec += 256 },
	} {
		d := proto.CloneOf(sound)
		change(d)
		if err := carrying(t, id).dictionaries.add(d); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	l := carrying(t, id, sound)
	if id == codec.Zstd {
		// The number does not cover tables. What is changed is the last of the distances that are repeated.
		same := proto.CloneOf(sound)
		same.Content[len(same.GetContent())-contentSize(t, same)-4]++
		if err := l.dictionaries.add(same); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
			t.Errorf("another one with the same number: got %v", err)
		}
		if err := carrying(t, id).dictionaries.add(same); err != nil {
			t.Errorf("that one alone: %v", err)
		}
	}
	if err := testLimits.dictionaries.add(sound); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
		t.Errorf("not negotiated: got %v", err)
	}
	take := func(l limits, messages ...*wirev1.ChannelMessage) error {
		b := &wirev1.ChannelBatch{Messages: messages}
		if err := checkBatch(b, marker{}, l); err != nil {
			return err
		}
		out, err := toMessages(t.Context(), b, "orders", l, testDecoding(t), &Work{})
		if err != nil {
			return err
		}
		for _, m := range out {
			if form, err := message.FormOf(m.Header); err != nil || form.Codec != codec.Deflate || form.Dictionary != 0 {
				t.Errorf("stored in form %+v: %v", form, err)
			}
		}
		return nil
	}
	if err := take(l, with(t, sound, 1)); err != nil {
		t.Errorf("a sound message: %v", err)
	}
	if err := take(testLimits, with(t, sound, 1)); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
		t.Errorf("a message where none were negotiated: %v", err)
	}
	err := take(carrying(t, id), with(t, sound, 1))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
		t.Errorf("a message before any dictionary: %v", err)
	}
	for name, change := range map[string]func(*wirev1.ChannelMessage){
		"unknown":        func(m *wirev1.ChannelMessage) { m.Form.Dictionary++ },
		"wrong checksum": func(m *wirev1.ChannelMessage) { m.Form.Checksum++ },
		"wrong length":   func(m *wirev1.ChannelMessage) { m.Form.Length++ },
		"too long":       func(m *wirev1.ChannelMessage) { m.Form.Length = message.MaxReferring + 1 },
		"absurd length":  func(m *wirev1.ChannelMessage) { m.Form.Length = math.MaxUint64 },
		"another codec":  func(m *wirev1.ChannelMessage) { m.Form.Codec = uint32(other) },
		"damaged":        func(m *wirev1.ChannelMessage) { m.Payload[len(m.GetPayload())-3] ^= 0x55 },
		"of another": func(m *wirev1.ChannelMessage) {
			m.Payload = with(t, variant(t, sound, 1), 1).GetPayload()
		},
		"none": func(m *wirev1.ChannelMessage) { m.Form.Dictionary = 0 },
	} {
		m := with(t, sound, 1)
		change(m)
		if err := take(l, m); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
			t.Errorf("a message, %s: %v", name, err)
		}
	}
	tight := l
	tight.bytes = 1500
	if err := take(tight, with(t, sound, 1), with(t, sound, 2)); !failure.Is(
		err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
	) {
		t.Errorf("a batch that is long when it is inflated: %v", err)
	}
}

// failing is an engine whose encoders fail.
type failing struct{ codec.Engine }

func (f failing) NewEncoder(codec.Level) (codec.Encoder, error) { return f, nil }

var errEngine = errors.New("the engine does not work")

func (failing) Encode([]byte, []byte) (int, error) { return 0, errEngine }

func (failing) Close() error { return nil }

// TestEngineFails: where the receiving end's engine fails, a message that came with a dictionary is stored plain, and
// the failure is reported.
func TestEngineFails(t *testing.T) {
	encoding, err := message.NewEncoding(message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast}, Codecs: []codec.ID{codec.Zstd}, MinSize: 1,
		Engines: codec.NewRegistry(failing{gozstd.New()}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoding.Close)
	sound := testDictionary(t, codec.Deflate)
	l := carrying(t, codec.Deflate, sound)
	l.dictionaries.encoding = func() *message.Encoding { return encoding }
	var failed []error
	out, err := toMessages(
		t.Context(), &wirev1.ChannelBatch{Messages: []*wirev1.ChannelMessage{with(t, sound, 1)}}, "orders", l,
		testDecoding(t), &Work{Failed: func(err error) { failed = append(failed, err) }},
	)
	if err != nil {
		t.Fatal(err)
	}
	if form, err := message.FormOf(out[0].Header); err != nil || !form.Plain() ||
		!bytes.Equal(out[0].Data, codectest.Orders(2, 1, 1000)[0]) {
		t.Errorf("stored in form %+v: %v", form, err)
	}
	if len(failed) != 1 || !errors.Is(failed[0], errEngine) {
		t.Errorf("reported: %v", failed)
	}
}

// TestKeptDictionaries: a session keeps as many as it said, the last ones, and a receiver has as many sessions with
// dictionaries as it may.
func TestKeptDictionaries(t *testing.T) { overCarried(t, testKeptDictionaries) }

func testKeptDictionaries(t *testing.T, id, _ codec.ID) {
	r, sound := testReceiver(t), testDictionary(t, id)
	a, release := r.arrivals(id)
	for i := range store.MaxDictionaries + 3 {
		if err := a.add(variant(t, sound, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range store.MaxDictionaries + 3 {
		_, err := a.Dictionary(variant(t, sound, i).GetNumber())
		if kept := err == nil; kept != (i >= 3) || !kept && !errors.Is(err, message.ErrDictionary) {
			t.Errorf("dictionary %d of %d: %v", i, store.MaxDictionaries+3, err)
		}
	}
	var others []func()
	for range maxCarrying - 1 {
		one, end := r.arrivals(id)
		if one.most() != store.MaxDictionaries {
			t.Fatal("a session takes no dictionaries")
		}
		others = append(others, end)
	}
	if one, end := r.arrivals(id); one.most() != 0 {
		t.Error("one session too many takes dictionaries")
	} else {
		end()
	}
	release()
	one, end := r.arrivals(id)
	if one.most() != store.MaxDictionaries {
		t.Error("a session takes no dictionaries after another has ended")
	}
	end()
	for _, end := range others {
		end()
	}
	if one, _ := r.arrivals(codec.None); one.most() != 0 {
		t.Error("dictionaries for a channel that compresses nothing")
	}
}

// TestSentAgain: a sender that keeps fewer dictionaries than the receiver sends one again that the receiver still has,
// and the receiver has all of those that the sender keeps.
func TestSentAgain(t *testing.T) {
	const most = 4
	sound := testDictionary(t, codec.Deflate)
	all := make(library, store.MaxDictionaries+most-1)
	for i := range all {
		all[i] = variant(t, sound, i)
	}
	decoding := testDecoding(t)
	decoding.Use(all)
	sender := newCarrier(&wirev1.ChannelAccepted{MaxDictionaries: most}, codec.Deflate, decoding, 0)
	receiver := carrying(t, codec.Deflate).dictionaries
	refer := func(i int) {
		t.Helper()
		if !sender.carries(1, message.Form{Codec: codec.Deflate, Length: 1000, Dictionary: all[i].GetNumber()}) {
			t.Fatalf("a message that refers to %d is not carried", i)
		}
		for _, d := range sender.take() {
			if err := receiver.add(d); err != nil {
				t.Fatalf("dictionary %d: %v", i, err)
			}
		}
		for _, number := range sender.there {
			if _, err := receiver.Dictionary(number); err != nil {
				t.Errorf("after dictionary %d: %v", i, err)
			}
		}
	}
	for i := range store.MaxDictionaries {
		refer(i)
	}
	refer(0)
	for i := range most - 1 {
		refer(store.MaxDictionaries + i)
	}
	refer(0) // It is not sent again.
	if len(receiver.all) != store.MaxDictionaries {
		t.Errorf("%d are kept", len(receiver.all))
	}
}

// library are dictionaries of a sending queue.
type library []*wirev1.ChannelDictionary

func (l library) Dictionary(number uint32) ([]byte, error) {
	for _, d := range l {
		if d.GetNumber() == number {
			return d.GetContent(), nil
		}
	}
	return nil, fmt.Errorf("%w: number %d", message.ErrDictionary, number)
}

// TestCarrier: a dictionary is sent once, before what refers to it. One more takes the place of the first, unless that is
// needed by the same letters.
func TestCarrier(t *testing.T) { overCarried(t, testCarrier) }

func testCarrier(t *testing.T, id, another codec.ID) {
	first := testDictionary(t, id)
	all := library{first, variant(t, first, 1), variant(t, first, 2), variant(t, first, 3)}
	foreign := variant(t, first, 4)
	foreign.Number = 1 << 20
	decoding := testDecoding(t)
	decoding.Use(append(all, foreign))
	form := func(d *wirev1.ChannelDictionary) message.Form {
		return message.Form{Codec: id, Class: codec.Software, Length: 1000, Dictionary: d.GetNumber()}
	}
	c := newCarrier(&wirev1.ChannelAccepted{MaxDictionaries: 2}, id, decoding, 5)
	carries := func(want bool, sequence uint64, f message.Form) {
		t.Helper()
		if got := c.carries(sequence, f); got != want {
			t.Errorf("message %d that refers to %d is carried: %v", sequence, f.Dictionary, got)
		}
	}
	sends := func(want ...*wirev1.ChannelDictionary) {
		t.Helper()
		got := c.take()
		if !slices.EqualFunc(got, want, func(a, b *wirev1.ChannelDictionary) bool { return proto.Equal(a, b) }) {
			t.Errorf("%d are sent, not %d", len(got), len(want))
		}
	}
	long, plain, other := form(first), form(first), form(first)
	long.Length, plain.Dictionary, other.Codec = message.MaxReferring+1, 0, another
	carries(false, 5, form(first)) // The other end could not read one up to it.
	carries(false, 6, long)
	carries(false, 6, plain)
	carries(false, 6, other)
	carries(false, 6, form(&wirev1.ChannelDictionary{Number: 7})) // It is missing.
	carries(false, 6, form(foreign))
	sends()
	carries(true, 6, form(all[0]))
	carries(true, 7, form(all[0]))
	sends(all[0])
	carries(true, 8, form(all[0]))
	carries(true, 9, form(all[1]))
	carries(false, 10, form(all[2])) // The first is needed.
	sends(all[1])
	carries(true, 11, form(all[1]))
	carries(true, 12, form(all[2]))
	carries(false, 13, form(all[3]))
	sends(all[2])
	carries(true, 14, form(all[0]))
	sends(all[0])
	none := newCarrier(&wirev1.ChannelAccepted{}, id, decoding, 0)
	if none.carries(1, form(first)) {
		t.Error("one is carried to a receiver of an earlier release")
	}
	hostile := newCarrier(&wirev1.ChannelAccepted{MaxDictionaries: math.MaxUint32}, id, decoding, 0)
	if hostile.most != store.MaxDictionaries {
		t.Errorf("%d are kept", hostile.most)
	}
}
