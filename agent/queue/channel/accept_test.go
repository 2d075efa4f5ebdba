// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

var testLimits = limits{messages: 3, bytes: 64 << 10, maxMessage: 32 << 10, codec: codec.Zstd}

func testDecoding(t testing.TB) *message.Decoding {
	t.Helper()
	d, err := message.NewDecoding(engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// compressed returns a sound message with a compressed payload.
func compressed(t testing.TB, sequence uint64) *wirev1.ChannelMessage {
	t.Helper()
	e, err := message.NewEncoding(message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast}, Codecs: []codec.ID{codec.Zstd}, MinSize: 1,
		Engines: engines.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	encoder, err := e.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Release()
	payload, form, _, err := encoder.Encode(nil, bytes.Repeat([]byte("lighter "), 2000))
	if err != nil {
		t.Fatal(err)
	}
	return &wirev1.ChannelMessage{Sequence: sequence, Payload: payload, Form: &wirev1.ChannelForm{
		Codec: uint32(form.Codec), EngineClass: uint32(form.Class), Length: uint64(form.Length), Checksum: form.Checksum,
	}}
}

func header(name, value string) func(*wirev1.ChannelMessage) {
	return func(m *wirev1.ChannelMessage) {
		m.Headers = append(m.Headers, &wirev1.ChannelHeader{Name: name, Value: []byte(value)})
	}
}

func suffix(s string) func(*wirev1.ChannelMessage) {
	return func(m *wirev1.ChannelMessage) { m.Suffix = s }
}

func TestHostileMessages(t *testing.T) {
	sound := compressed(t, 7)
	for name, change := range map[string]func(*wirev1.ChannelMessage){
		"rollup":              header("Nats-Rollup", "all"),
		"rollup in lower":     header("nats-rollup", "all"),
		"message id":          header("Nats-Msg-Id", "7"),
		"second form":         header("Lighterage-Codec", "zstd"),
		"second form, lower":  header("lighterage-length", "7"),
		"dead letter":         header("Lighterage-Dead-Reason", "Rejected"),
		"dead, lower":         header("lighterage-dead-sequence", "7"),
		"line break":          header("A", "b\r\nNats-Rollup: all"),
		"name with a colon":   header("A: b\r\nNats-Rollup", "all"),
		"name with a blank":   header("A b", "c"),
		"no name":             header("", "c"),
		"long headers":        header("A", strings.Repeat("b", maxHeaderBytes)),
		"subject of another":  suffix("x"),
		"empty token":         suffix(".a..b"),
		"wildcard":            suffix(".a.*"),
		"all":                 suffix(".>"),
		"blank":               suffix(".a b"),
		"protocol":            suffix(".a\r\nPUB b 0"),
		"long subject":        suffix("." + strings.Repeat("a", maxSuffix)),
		"wrong checksum":      func(m *wirev1.ChannelMessage) { m.Form.Checksum++ },
		"longer than it says": func(m *wirev1.ChannelMessage) { m.Form.Length-- },
		"bomb":                func(m *wirev1.ChannelMessage) { m.Form.Length = message.MaxLength },
		"absurd length":       func(m *wirev1.ChannelMessage) { m.Form.Length = 1 << 63 },
		"another codec":       func(m *wirev1.ChannelMessage) { m.Form.Codec = uint32(codec.Deflate) },
		"unknown codec":       func(m *wirev1.ChannelMessage) { m.Form.Codec = 258 },
		"codec none":          func(m *wirev1.ChannelMessage) { m.Form.Codec = uint32(codec.None) },
		"unknown class":       func(m *wirev1.ChannelMessage) { m.Form.EngineClass = 9 },
		"cut short":           func(m *wirev1.ChannelMessage) { m.Payload = m.GetPayload()[:len(m.GetPayload())-1] },
		"trailing bytes":      func(m *wirev1.ChannelMessage) { m.Payload = append(bytes.Clone(m.GetPayload()), 0) },
		"too long when plain": func(m *wirev1.ChannelMessage) {
			m.Form, m.Payload = nil, make([]byte, testLimits.maxMessage+1)
		},
		"dead on arrival": func(m *wirev1.ChannelMessage) { m.TimeToLive = durationpb.New(time.Millisecond) },
		"endless":         func(m *wirev1.ChannelMessage) { m.TimeToLive = &durationpb.Duration{Seconds: 1 << 60} },
	} {
		t.Run(name, func(t *testing.T) {
			m := proto.CloneOf(sound)
			change(m)
			_, err := toMessages(
				t.Context(), &wirev1.ChannelBatch{Messages: []*wirev1.ChannelMessage{m}}, "orders", testLimits, testDecoding(t),
				&Work{},
			)
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
				t.Errorf("got %v", err)
			}
		})
	}
	out, err := toMessages(
		t.Context(), &wirev1.ChannelBatch{Messages: []*wirev1.ChannelMessage{sound}}, "orders", testLimits, testDecoding(t),
		&Work{},
	)
	if err != nil || out[0].Subject != "orders" || out[0].Header.Get(message.CodecHeader) != "zstd" {
		t.Errorf("a sound one is %v: %v", out, err)
	}
}

func TestHostileBatches(t *testing.T) {
	batch := func(sequences ...uint64) *wirev1.ChannelBatch {
		b := &wirev1.ChannelBatch{}
		for _, s := range sequences {
			b.Messages = append(b.Messages, &wirev1.ChannelMessage{Sequence: s, Payload: make([]byte, 20<<10)})
		}
		return b
	}
	for name, b := range map[string]*wirev1.ChannelBatch{
		"nothing": batch(), "too many": batch(6, 7, 8, 9), "old": batch(5), "twice": batch(6, 6), "backwards": batch(8, 7),
		"too long": {
			Messages: []*wirev1.ChannelMessage{
				{Sequence: 6, Payload: make([]byte, 40<<10)},
				{Sequence: 7, Payload: make([]byte, 40<<10)},
			},
		},
	} {
		if err := checkBatch(b, marker{position: 5, put: 70}, testLimits); !failure.Is(
			err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := checkBatch(batch(6, 9), marker{position: 5, put: 70}, testLimits); err != nil {
		t.Errorf("a sound one: %v", err)
	}
	again := batch(2, 3)
	for put, sound := range map[int64]bool{69: false, 70: false, 71: true} {
		again.PutTime = timestamppb.New(time.Unix(0, put))
		if err := checkBatch(again, marker{position: 5, put: 70}, testLimits); (err == nil) != sound {
			t.Errorf("sequences that are given again, put at %d: %v", put, err)
		}
		if err := checkBatch(again, marker{position: 5}, testLimits); err == nil {
			t.Error("sequences are given again after a position whose time is not known")
		}
	}
	for _, never := range []*timestamppb.Timestamp{{Nanos: -1}, {Seconds: maxPutTime + 1}} {
		b := batch(6)
		b.PutTime = never
		if err := checkBatch(b, marker{position: 5, put: 70}, testLimits); err == nil {
			t.Errorf("%v is a time", never)
		}
	}
}

func TestHostileBegin(t *testing.T) {
	sound := &wirev1.ChannelBegin{
		ProtocolVersion: wirev1.ProtocolVersion, Epoch: "1795273313948319330", Codecs: []string{"zstd", "of a newer release"},
	}
	if err := checkBegin(sound); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*wirev1.ChannelBegin){
		"no epoch":        func(b *wirev1.ChannelBegin) { b.Epoch = "" },
		"long epoch":      func(b *wirev1.ChannelBegin) { b.Epoch = strings.Repeat("1", maxEpoch+1) },
		"lines":           func(b *wirev1.ChannelBegin) { b.Epoch = "1\r\nNats-Rollup: all" },
		"codecs":          func(b *wirev1.ChannelBegin) { b.Codecs = make([]string, maxCodecs+1) },
		"another version": func(b *wirev1.ChannelBegin) { b.ProtocolVersion++ },
	} {
		b := proto.CloneOf(sound)
		change(b)
		var known *failure.Error
		if err := checkBegin(b); !errors.As(err, &known) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := checkBegin(nil); err == nil {
		t.Error("nothing is a beginning")
	}
}

func TestNegotiate(t *testing.T) {
	all := []codec.ID{codec.Deflate, codec.Zstd, codec.None}
	for _, c := range []struct {
		offered  []string
		accepts  Acceptance
		readable []codec.ID
		want     codec.ID
	}{
		{[]string{"zstd", "deflate"}, Acceptance{Any: true}, all, codec.Zstd},
		{[]string{"zstd", "deflate"}, Acceptance{Codecs: []codec.ID{codec.Deflate}}, all, codec.Deflate},
		{[]string{"zstd", "deflate"}, Acceptance{Any: true}, []codec.ID{codec.Deflate, codec.None}, codec.Deflate},
		{[]string{"zstd", "none", "deflate"}, Acceptance{Codecs: []codec.ID{codec.Deflate}}, all, codec.None},
		{[]string{"lz9", "deflate"}, Acceptance{Any: true}, all, codec.Deflate},
		{[]string{"zstd"}, Acceptance{}, all, codec.None},
		{nil, Acceptance{Any: true}, all, codec.None},
	} {
		if got := negotiate(c.offered, c.accepts, c.readable); got != c.want {
			t.Errorf("%v of %+v: got %v, want %v", c.offered, c.accepts, got, c.want)
		}
	}
}

// FuzzRequest gives a receiver whatever a peer may send. What passes has to be sound.
func FuzzRequest(f *testing.F) {
	seeds := []*wirev1.ChannelRunRequest{
		{
			Message: &wirev1.ChannelRunRequest_Begin{
				Begin: &wirev1.ChannelBegin{ProtocolVersion: wirev1.ProtocolVersion, Epoch: "17", Codecs: []string{"zstd"}},
			},
		},
		{Message: &wirev1.ChannelRunRequest_Batch{Batch: &wirev1.ChannelBatch{Messages: []*wirev1.ChannelMessage{
			compressed(f, 6),
			{
				Sequence: 9, Suffix: ".a.b", Payload: []byte("plain"),
				Headers: []*wirev1.ChannelHeader{{Name: "A", Value: []byte("b")}}, TimeToLive: durationpb.New(time.Minute),
			},
		}}}},
	}
	sound := map[codec.ID]*wirev1.ChannelDictionary{}
	for _, id := range carried {
		sound[id] = testDictionary(f, id)
		seeds = append(
			seeds, &wirev1.ChannelRunRequest{
				Message: &wirev1.ChannelRunRequest_Dictionary{Dictionary: variant(f, sound[id], 1)},
			},
			&wirev1.ChannelRunRequest{Message: &wirev1.ChannelRunRequest_Batch{
				Batch: &wirev1.ChannelBatch{Messages: []*wirev1.ChannelMessage{with(f, sound[id], 6)}},
			}},
		)
	}
	for _, m := range seeds {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	decoding, receiver := testDecoding(f), testReceiver(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m wirev1.ChannelRunRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		for _, id := range carried {
			takes(t, &m, sound[id], receiver, decoding)
		}
	})
}

// takes gives a request to a session that was sent a dictionary.
func takes(
	t *testing.T, m *wirev1.ChannelRunRequest, had *wirev1.ChannelDictionary, receiver *Receiver,
	decoding *message.Decoding,
) {
	t.Helper()
	l := testLimits
	l.codec = codec.ID(had.GetCodec())
	var release func()
	l.dictionaries, release = receiver.arrivals(l.codec)
	defer release()
	if err := l.dictionaries.add(had); err != nil {
		t.Fatal(err)
	}
	if d := m.GetDictionary(); d != nil {
		if l.dictionaries.add(d) != nil {
			return
		}
		// What was taken can be used, or it is known why not.
		decoder, err := referring(l.codec).NewDictionaryDecoder(d.GetContent())
		if err != nil {
			if !errors.Is(err, codec.ErrDictionary) {
				t.Error(err)
			}
			return
		}
		_ = decoder.Close()
		return
	}
	if m.GetBatch() == nil {
		_ = checkBegin(m.GetBegin())
		return
	}
	if checkBatch(m.GetBatch(), marker{position: 5, put: 70}, l) != nil {
		return
	}
	out, err := toMessages(t.Context(), m.GetBatch(), "orders", l, decoding, &Work{})
	if err != nil {
		return
	}
	for _, sound := range out {
		if sound.Subject != "orders" && !strings.HasPrefix(sound.Subject, "orders.") {
			t.Errorf("subject %q", sound.Subject)
		}
		for name := range sound.Header {
			if batch.IsControl(name) && name != "Nats-TTL" {
				t.Errorf("header %q", name)
			}
		}
		if form, err := message.FormOf(sound.Header); err != nil || form.Dictionary != 0 {
			t.Errorf("form %+v: %v", form, err)
		}
	}
}

func TestNextVersion(t *testing.T) {
	const newest, oldest = wirev1.ProtocolVersion, wirev1.OldestProtocolVersion
	incompatible := failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE, "no")
	for name, c := range map[string]struct {
		version uint32
		err     error
		want    uint32
	}{
		"accepted":        {oldest, nil, newest},
		"lost":            {oldest + 1, errors.New("lost"), newest},
		"rejected":        {oldest + 1, incompatible, oldest},
		"nothing is left": {oldest, incompatible, newest},
	} {
		if got := nextVersion(c.version, c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
