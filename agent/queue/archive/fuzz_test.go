// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
)

// FuzzRange reads anything as a range of blocks. What is accepted has to be read again from what it is written as.
func FuzzRange(f *testing.F) {
	d := testDecoder(f)
	b := writeOldRange(f, testRecords(f), testHead, 12)
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
			writeOldRange(t, records, Head{Queue: "orders", Life: testHead.Life, First: 1}, foot.Last), d,
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
			if b, _, err = e.blocks.AppendAt(b, number, plain, i == 3); err != nil {
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
		Version: linesVersion, Queue: "orders", Life: testHead.Life, From: 1, To: 9, Below: 2, Left: []Run{{3, 2}, {8, 1}},
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

// FuzzLine reads anything as the line of a message. What is accepted has to be read again from what it is written as.
func FuzzLine(f *testing.F) {
	for _, r := range textRecords(f) {
		line, err := appendLine(nil, &r, "orders")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{"sequence":1,"time":"9999-12-31T23:59:59-23:00","subject":"orders"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseLine(line, "orders")
		// Who reads JSON reads the same payload.
		var plain messageLine
		if _, payload, cut := cutPayload(line); cut && err == nil {
			if json.Unmarshal(line, &plain) == nil && string(payload) != plain.Text+string(plain.Bytes) {
				t.Fatalf("%q, and in JSON %q, %q", payload, plain.Text, plain.Bytes)
			}
		}
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrOther) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		own, err := appendLine(nil, &r, "orders")
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseLine(bytes.TrimSuffix(own, []byte("\n")), "orders")
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%v, %+v, %+v", err, r, again)
		}
	})
}

// FuzzLines reads ranges whose blocks and index are sound and hold anything, as whoever writes to the claim could make
// them.
func FuzzLines(f *testing.F) {
	plain := func(data []byte) []byte {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			f.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	data, _ := writeRange(f, formEncoders(f)[cargo.Gzip], textRecords(f), testHead, 30, nil)
	f.Add(plain(data), uint64(0))
	f.Add(plain(data), uint64(9))
	data, _ = writeRange(f, formEncoders(f)[cargo.Gzip], textRecords(f)[:1], testHead, 3, nil)
	f.Add(plain(data), uint64(2))
	f.Fuzz(func(t *testing.T, plain []byte, after uint64) {
		var file bytes.Buffer
		index, err := cargo.Pack(t.Context(), &file, bytes.NewReader(plain), cargo.PackOptions{
			Form: cargo.Gzip, Records: cargo.Records{Layout: cargo.Lines}, BlockSize: 300, Engines: engines.Default(),
		})
		if err != nil {
			t.Fatal(err)
		}
		records, _, _, err := readLines(testRange(cargo.Gzip, 30), after, file.Bytes(), index.Append(nil))
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrOther) {
			t.Fatalf("an error of another kind: %v", err)
		}
		for i, r := range records {
			if i > 0 && r.Sequence <= records[i-1].Sequence || r.Sequence < testHead.First || r.Sequence > 30 {
				t.Fatalf("message %d after others", r.Sequence)
			}
		}
	})
}

// FuzzRangeName reads anything as the name of a range, or of the index beside one.
func FuzzRangeName(f *testing.F) {
	for _, r := range []Range{{First: 1, Last: 9}, testRange(cargo.Gzip, 7), testRange(cargo.Zstd, 1<<63)} {
		f.Add(r.name())
		f.Add(r.indexName())
	}
	f.Fuzz(func(t *testing.T, name string) {
		r, ok := parseRange(name)
		if ok && r.name() != name && r.indexName() != name {
			t.Fatalf("%q is %q", name, r.name())
		}
	})
}
