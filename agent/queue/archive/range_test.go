// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
)

var testCompression = Compression{
	Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast}, Codecs: []codec.ID{codec.Zstd, codec.Deflate},
	Engines: engines.Default(),
}

func testEncoders(t testing.TB) *Encoders {
	t.Helper()
	e, err := NewEncoders(testCompression)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func testDecoder(t testing.TB) *frame.Decoder {
	t.Helper()
	d, err := NewDecoder(engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func text(length int) []byte {
	return bytes.Repeat([]byte("<order><item>lighter</item></order>\n"), length/36+1)[:length]
}

// encoded is a payload as a queue stores it that compresses, and its headers.
func encoded(t testing.TB, plain []byte) ([]byte, message.Form, nats.Header) {
	t.Helper()
	e, err := message.NewEncoding(
		message.EncodingOptions{
			Policy: testCompression.Policy, Codecs: testCompression.Codecs, MinSize: 1, Engines: engines.Default(),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	encoder, err := e.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Release()
	payload, form, _, err := encoder.Encode(nil, plain)
	if err != nil || form.Plain() {
		t.Fatalf("%v, %+v", err, form)
	}
	h := nats.Header{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(form.AppendHeaders(nil))), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		h[name] = []string{value}
	}
	return payload, form, h
}

// testRecords are of all sorts, with holes between.
func testRecords(t testing.TB) []Record {
	t.Helper()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	payload, form, h := encoded(t, text(12000))
	h["Customer"] = []string{"7", "8"}
	return []Record{
		{Sequence: 3, Time: at, Payload: []byte{}},
		{
			Sequence: 4, Time: at.Add(-time.Hour), Suffix: ".new.eu", Headers: nats.Header{"Nats-Msg-Id": {"a"}},
			Payload: text(100),
		},
		{Sequence: 9, Time: at, Headers: h, Payload: payload, Form: form},
		{
			Sequence: 10, Time: at.Add(time.Hour), Kind: DeadLetter, Headers: nats.Header{"Lighterage-Dead-Reason": {""}},
			Payload: text(5),
		},
	}
}

func writeRange(t testing.TB, records []Record, h Head, last uint64, count func(meter.Outcome)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, testEncoders(t), h, count)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := w.Add(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(last); err != nil {
		t.Fatal(err)
	}
	if w.Written() != int64(b.Len()) {
		t.Errorf("%d bytes are counted of %d", w.Written(), b.Len())
	}
	return b.Bytes()
}

// readRange returns what a range holds, and what it ends with.
func readRange(b []byte, d *frame.Decoder) ([]Record, Foot, error) {
	r, err := NewReader(bytes.NewReader(b), d)
	if err != nil {
		return nil, Foot{}, err
	}
	var all []Record
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r.Foot(), nil
		}
		if err != nil {
			return all, Foot{}, err
		}
		all = append(all, record)
	}
}

var testHead = Head{Queue: "orders", Life: Life(time.Unix(5, 6)), First: 2}

func TestRange(t *testing.T) {
	records := testRecords(t)
	b := writeRange(t, records, testHead, 12, nil)
	got, foot, err := readRange(b, testDecoder(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(records, got); diff != "" {
		t.Error(diff)
	}
	if want := (Foot{Last: 12, Messages: 4, PlainBytes: 12105}); foot != want {
		t.Errorf("it ends with %+v", foot)
	}
}

// Messages that are small or long go through many blocks, and those that were compressed are left alone.
func TestLargeRange(t *testing.T) {
	var records []Record
	plain := 0
	for i := range 5000 {
		r := Record{
			Sequence: uint64(i + 1), Time: time.Unix(int64(i), 0).UTC(),
			Payload: fmt.Appendf(nil, "<order><number>%d</number><item>lighter</item></order>", i),
		}
		records, plain = append(records, r), plain+len(r.Payload)
	}
	records = append(records, Record{Sequence: 6000, Time: time.Unix(0, 0).UTC(), Payload: text(5 << 20)})
	payload, form, h := encoded(t, text(8<<20))
	records = append(
		records, Record{Sequence: 6001, Time: time.Unix(0, 0).UTC(), Payload: payload, Form: form, Headers: h},
	)
	var sum meter.Meter
	b := writeRange(t, records, Head{Queue: "orders", Life: testHead.Life, First: 1}, 6001, sum.Add)
	if most := plain/3 + 5<<20/3 + len(payload); len(b) > most {
		t.Errorf("the file has %d bytes, want at most %d", len(b), most)
	}
	if s := sum.Snapshot(); s.Software.Operations == 0 || s.UncompressedBytes < int64(plain+5<<20) ||
		s.UncompressedBytes > int64(plain+6<<20) {
		t.Errorf("compression is counted as %+v", s)
	}
	got, foot, err := readRange(b, testDecoder(t))
	if err != nil || foot.PlainBytes != uint64(plain+13<<20) {
		t.Fatalf("%v, %+v", err, foot)
	}
	if !reflect.DeepEqual(records, got) { // A difference of so many bytes would take long to tell.
		t.Error("it is read as something else")
	}
}

// A policy that compresses nothing is followed, and said to be.
func TestNotCompressed(t *testing.T) {
	for name, test := range map[string]struct {
		mode    policy.Mode
		payload []byte
		reason  policy.Reason
	}{
		"not attempted":       {policy.Never, text(100_000), policy.PolicyNever},
		"it does not shrink":  {policy.Auto, noise(100_000), policy.Incompressible},
		"it is tried, anyway": {policy.Always, noise(100_000), policy.DidNotShrink},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCompression
			c.Policy.Mode = test.mode
			e, err := NewEncoders(c)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			var sum meter.Meter
			w, err := NewWriter(io.Discard, e, testHead, sum.Add)
			if err == nil {
				err = w.Add(&Record{Sequence: 2, Time: time.Unix(0, 0), Payload: test.payload})
			}
			if err == nil {
				_, err = w.Close(2)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := sum.Snapshot(); got.Skipped[test.reason] != 1 {
				t.Errorf("skipped %v", got.Skipped)
			}
		})
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}

// A file that is cut short anywhere, or changed anywhere, or goes on, is found out.
func TestDamage(t *testing.T) {
	d := testDecoder(t)
	records := testRecords(t)
	b := writeRange(t, records, testHead, 12, nil)
	for n := range b {
		if _, _, err := readRange(b[:n], d); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
		changed := bytes.Clone(b)
		changed[n] ^= 0x10
		got, _, err := readRange(changed, d)
		// A compressed stream may have a bit that means nothing.
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) && (err != nil || !reflect.DeepEqual(got, records)) {
			t.Fatalf("changed at %d: %v", n, err)
		}
	}
	if _, _, err := readRange(append(bytes.Clone(b), 0), d); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a byte more: %v", err)
	}
}

func TestOrder(t *testing.T) {
	w, err := NewWriter(io.Discard, testEncoders(t), testHead, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(&Record{Sequence: 7}); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(&Record{Sequence: 7}); err == nil {
		t.Error("a message can be added twice")
	}
}
