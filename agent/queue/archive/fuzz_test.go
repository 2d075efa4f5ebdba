// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"reflect"
	"testing"

	"github.com/lighterage/lighterage/agent/frame"
)

// FuzzRange reads anything as a range. What is accepted has to be read again from what it is written as.
func FuzzRange(f *testing.F) {
	d := testDecoder(f)
	b := writeRange(f, testRecords(f), testHead, 12, nil)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		records, foot, err := readRange(b, d)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, same, err := readRange(
			writeRange(t, records, Head{Queue: "orders", Life: testHead.Life, First: 1}, foot.Last, nil), d,
		)
		if err != nil || same != foot || !reflect.DeepEqual(records, again) {
			t.Fatalf("%v, %+v, %+v", err, foot, same)
		}
	})
}

// FuzzBlocks reads ranges whose blocks are sound and hold anything, as whoever writes to the claim could make them.
func FuzzBlocks(f *testing.F) {
	d, e := testDecoder(f), testEncoders(f)
	var fields, payloads []byte
	var before place
	for _, r := range testRecords(f) {
		fields, payloads = appendRecord(fields, payloads, &before, &r)
	}
	group := []byte{0, 0, 0, byte(len(fields)), 0, 0, 0, byte(len(payloads)), 0, 0, 0, 4}
	f.Add(
		[]byte(`{"version":1,"queue":"orders","life":"x","first":2}`), append(group, fields...), payloads,
		[]byte(`{"last":12,"messages":4,"plainBytes":12105}`),
	)
	f.Fuzz(func(t *testing.T, head, group, beside, foot []byte) {
		var b []byte
		var number uint64
		for i, plain := range [][]byte{head, group, beside, foot} {
			if len(plain) > frame.MaxPlain {
				return
			}
			if i == 2 && len(plain) == 0 {
				continue
			}
			var err error
			if b, _, err = e.fields.AppendAt(b, number, plain, i == 3); err != nil {
				t.Fatal(err)
			}
			number++
		}
		records, _, err := readRange(b, d)
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
			t.Fatalf("an error of another kind: %v", err)
		}
		for i, r := range records {
			if i > 0 && r.Sequence <= records[i-1].Sequence {
				t.Fatalf("message %d after %d", r.Sequence, records[i-1].Sequence)
			}
		}
	})
}

// FuzzRecord reads anything as the fields of messages, which no checksum protects from who writes the file.
func FuzzRecord(f *testing.F) {
	var fields, payloads []byte
	var before place
	for _, r := range testRecords(f) {
		fields, payloads = appendRecord(fields, payloads, &before, &r)
	}
	f.Add(fields, payloads)
	f.Fuzz(func(t *testing.T, fields, payloads []byte) {
		from, beside := &fieldReader{rest: fields}, &fieldReader{rest: payloads}
		var before place
		for len(from.rest) > 0 {
			last := before.sequence
			r, err := from.record(beside, &before)
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("an error of another kind: %v", err)
				}
				return
			}
			if r.Sequence <= last {
				t.Fatalf("message %d after %d", r.Sequence, last)
			}
			if r.PlainLength() > maxSection {
				t.Fatalf("message of %d bytes", r.PlainLength())
			}
			var at place
			own, alone := appendRecord(nil, nil, &at, &r)
			at = place{}
			back, err := (&fieldReader{rest: own}).record(&fieldReader{rest: alone}, &at)
			if err != nil || !reflect.DeepEqual(r, back) {
				t.Fatalf("%v, %+v, %+v", err, r, back)
			}
		}
	})
}

// FuzzIndex reads anything as an index.
func FuzzIndex(f *testing.F) {
	d, e := testDecoder(f), testEncoders(f)
	b, err := (&Index{
		Queue: "orders", Life: testHead.Life, From: 1, To: 9, Below: 2, Left: []Run{{3, 2}, {8, 1}},
	}).Encode(e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := DecodeIndex(b, d)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		for _, run := range x.Left {
			if x.Remains(run[0]) || x.Remains(run[0]+run[1]-1) {
				t.Fatalf("of run %v something remains", run)
			}
		}
	})
}
