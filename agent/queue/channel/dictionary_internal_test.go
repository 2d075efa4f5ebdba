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
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// testDictionary is one as a peer sends it.
func testDictionary(t testing.TB) *wirev1.ChannelDictionary {
	t.Helper()
	content, _, err := zstddict.Train(codectest.Orders(1, 100, 1000), 8<<10)
	if err != nil {
		t.Fatal(err)
	}
	number, err := zstddict.Number(content)
	if err != nil {
		t.Fatal(err)
	}
	return &wirev1.ChannelDictionary{Codec: uint32(codec.Zstd), Number: number, Content: content}
}

// variant is another dictionary with the tables of one.
func variant(t testing.TB, d *wirev1.ChannelDictionary, i int) *wirev1.ChannelDictionary {
	t.Helper()
	known, err := zstd.InspectDictionary(d.GetContent())
	if err != nil {
		t.Fatal(err)
	}
	out := proto.CloneOf(d)
	content := out.Content[len(out.Content)-known.ContentSize():]
	binary.LittleEndian.PutUint32(content[len(content)-4:], uint32(i))
	out.Number = 1<<16 + uint32(xxh3.Hash(content)%(1<<31-1<<16))
	binary.LittleEndian.PutUint32(out.Content[4:], out.Number)
	return out
}

// with has a message refer to a dictionary.
func with(t testing.TB, d *wirev1.ChannelDictionary, sequence uint64) *wirev1.ChannelMessage {
	t.Helper()
	plain := codectest.Orders(2, 1, 1000)[0]
	encoder, err := gozstd.New().(codec.DictionaryEngine).NewDictionaryEncoder(codec.Fast, d.GetContent())
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
		Codec: uint32(codec.Zstd), EngineClass: uint32(codec.Software), Length: uint64(len(plain)),
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
func carrying(t testing.TB, all ...*wirev1.ChannelDictionary) limits {
	t.Helper()
	l := testLimits
	var release func()
	l.dictionaries, release = testReceiver(t).arrivals(codec.Zstd)
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
func TestHostileDictionaries(t *testing.T) {
	sound := testDictionary(t)
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
		"another codec": func(d *wirev1.ChannelDictionary) { d.Codec = uint32(codec.Deflate) },
		"unknown codec": func(d *wirev1.ChannelDictionary) { d.Codec += 256 },
	} {
		d := proto.CloneOf(sound)
		change(d)
		if err := carrying(t).dictionaries.add(d); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	l := carrying(t, sound)
	if err := l.dictionaries.add(sound); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
		t.Errorf("twice: got %v", err)
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
	if err := take(carrying(t), with(t, sound, 1)); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
		t.Errorf("a message before any dictionary: %v", err)
	}
	for name, change := range map[string]func(*wirev1.ChannelMessage){
		"unknown":        func(m *wirev1.ChannelMessage) { m.Form.Dictionary++ },
		"wrong checksum": func(m *wirev1.ChannelMessage) { m.Form.Checksum++ },
		"wrong length":   func(m *wirev1.ChannelMessage) { m.Form.Length++ },
		"too long":       func(m *wirev1.ChannelMessage) { m.Form.Length = message.MaxReferring + 1 },
		"absurd length":  func(m *wirev1.ChannelMessage) { m.Form.Length = math.MaxUint64 },
		"another codec":  func(m *wirev1.ChannelMessage) { m.Form.Codec = uint32(codec.Deflate) },
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

// TestKeptDictionaries: a session keeps as many as it said, the last ones, and a receiver has as many sessions with
// dictionaries as it may.
func TestKeptDictionaries(t *testing.T) {
	r, sound := testReceiver(t), testDictionary(t)
	a, release := r.arrivals(codec.Zstd)
	for i := range maxDictionaries + 3 {
		if err := a.add(variant(t, sound, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxDictionaries + 3 {
		_, err := a.Dictionary(variant(t, sound, i).GetNumber())
		if kept := err == nil; kept != (i >= 3) || !kept && !errors.Is(err, message.ErrDictionary) {
			t.Errorf("dictionary %d of %d: %v", i, maxDictionaries+3, err)
		}
	}
	var others []func()
	for range maxCarrying - 1 {
		one, end := r.arrivals(codec.Zstd)
		if one.most() != maxDictionaries {
			t.Fatal("a session takes no dictionaries")
		}
		others = append(others, end)
	}
	if one, end := r.arrivals(codec.Zstd); one.most() != 0 {
		t.Error("one session too many takes dictionaries")
	} else {
		end()
	}
	release()
	one, end := r.arrivals(codec.Zstd)
	if one.most() != maxDictionaries {
		t.Error("a session takes no dictionaries after another has ended")
	}
	end()
	for _, end := range others {
		end()
	}
	for name, id := range map[string]codec.ID{"deflate": codec.Deflate, "none": codec.None} {
		if one, _ := r.arrivals(id); one.most() != 0 {
			t.Errorf("dictionaries of %s", name)
		}
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
func TestCarrier(t *testing.T) {
	first := testDictionary(t)
	all := library{first, variant(t, first, 1), variant(t, first, 2), variant(t, first, 3)}
	foreign := variant(t, first, 4)
	foreign.Number = 1 << 20
	decoding := testDecoding(t)
	decoding.Use(append(all, foreign))
	form := func(d *wirev1.ChannelDictionary) message.Form {
		return message.Form{Codec: codec.Zstd, Class: codec.Software, Length: 1000, Dictionary: d.GetNumber()}
	}
	c := newCarrier(&wirev1.ChannelAccepted{MaxDictionaries: 2}, codec.Zstd, decoding, 5)
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
	long.Length, plain.Dictionary, other.Codec = message.MaxReferring+1, 0, codec.Deflate
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
	none := newCarrier(&wirev1.ChannelAccepted{}, codec.Zstd, decoding, 0)
	if none.carries(1, form(first)) {
		t.Error("one is carried to a receiver of an earlier release")
	}
	hostile := newCarrier(&wirev1.ChannelAccepted{MaxDictionaries: math.MaxUint32}, codec.Zstd, decoding, 0)
	if hostile.most != maxDictionaries {
		t.Errorf("%d are kept", hostile.most)
	}
}
