// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/cargo"
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

// writeRange returns a range of lines and the index beside it.
func writeRange(
	t testing.TB, e *Encoders, records []Record, h Head, last uint64, count func(meter.Outcome),
) (data, index []byte) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, e, h, count)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := w.Add(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	_, beside, err := w.Close(last)
	if err != nil {
		t.Fatal(err)
	}
	if w.Written() != int64(b.Len()) {
		t.Errorf("%d bytes are counted of %d", w.Written(), b.Len())
	}
	return b.Bytes(), beside.Append(nil)
}

func writeOldRange(t testing.TB, records []Record, h Head, last uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := newOldWriter(&b, testEncoders(t), h)
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
	return b.Bytes()
}

// memory has the files of an archive. It is only read.
type memory struct {
	files
	content map[string][]byte
	// parts is how many parts were read.
	parts int
}

type memoryFile struct {
	*bytes.Reader
	of *memory
}

func (f memoryFile) Close() error { return nil }

func (f memoryFile) size() int64 { return f.Size() }

func (f memoryFile) OpenRange(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	f.of.parts++
	return io.NopCloser(io.NewSectionReader(f.Reader, offset, length)), nil
}

func (m *memory) open(name string) (io.ReadCloser, error) { return m.get(name) }

func (m *memory) part(name string) (part, error) { return m.get(name) }

func (m *memory) stat(name string) (file, error) {
	_, err := m.get(name)
	return file{name: name}, err
}

func (m *memory) get(name string) (memoryFile, error) {
	content, ok := m.content[name]
	if !ok {
		return memoryFile{}, fs.ErrNotExist
	}
	return memoryFile{bytes.NewReader(content), m}, nil
}

// testRange is where a range of lines is that goes up to a message.
func testRange(form cargo.Form, last uint64) Range {
	return Range{First: testHead.First, Last: last, form: form, tag: 0xabc}
}

// readLines returns what a range of lines holds after a message, and what it ends with.
func readLines(r Range, after uint64, data, index []byte) (all []Record, foot Foot, m *memory, err error) {
	m = &memory{content: map[string][]byte{r.name(): data}}
	if index != nil {
		m.content[r.indexName()] = index
	}
	in := opener{
		directory: &Directory{files: m, name: Name(testHead.Queue, testHead.Life)}, queue: testHead.Queue,
		life: testHead.Life, engines: engines.Default(),
	}
	foot, err = in.each(context.Background(), r, after, func(r *Record) error {
		all = append(all, *r)
		return nil
	})
	return all, foot, m, err
}

// formEncoders are those of both forms.
func formEncoders(t testing.TB) map[cargo.Form]*Encoders {
	t.Helper()
	all := make(map[cargo.Form]*Encoders)
	for form, id := range map[cargo.Form]codec.ID{cargo.Gzip: codec.Deflate, cargo.Zstd: codec.Zstd} {
		c := testCompression
		c.Codecs = []codec.ID{id}
		e, err := NewEncoders(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		if e.form != form {
			t.Fatalf("%v becomes %v", id, e.form)
		}
		all[form] = e
	}
	return all
}

// readRange returns what a range of blocks holds, and what it ends with.
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

// textRecords are those that no byte string spares, among others.
func textRecords(t testing.TB) []Record {
	t.Helper()
	at := time.Unix(7, 0).UTC()
	return append(testRecords(t),
		Record{
			Sequence: 20, Time: at, Suffix: ".\xff", Headers: nats.Header{"A": {"\xe9t\xe9", " b: c "}, "B": {""}},
			Payload: []byte("caf\xe9"),
		},
		Record{
			Sequence: 21, Time: at, Suffix: ".\u00e9", Headers: nats.Header{"A/B": {"<\u2028>"}},
			Payload: []byte("\x00\n\"\u2028<&>"),
		},
		Record{Sequence: 22, Time: at, Payload: []byte("{\"a\":\"b\",\"c\":\"\"}\n{}\n")},
		Record{Sequence: 23, Time: at, Payload: noise(9000)},
	)
}

func TestRange(t *testing.T) {
	records := textRecords(t)
	for form, e := range formEncoders(t) {
		data, index := writeRange(t, e, records, testHead, 30, nil)
		got, foot, _, err := readLines(testRange(form, 30), 0, data, index)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(records, got); diff != "" {
			t.Error(diff)
		}
		if want := (Foot{Last: 30, Messages: 8, PlainBytes: 12105 + 4 + 9 + 20 + 9000}); foot != want {
			t.Errorf("it ends with %+v", foot)
		}
	}
}

// A range is read by whoever reads JSON and gzip.
func TestRangeForOthers(t *testing.T) {
	data, _ := writeRange(t, formEncoders(t)[cargo.Gzip], textRecords(t), testHead, 30, nil)
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(plain), "\n"), "\n")
	if len(lines) != 10 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range map[int]string{
		0: `{"version":2,"queue":"orders","life":"` + testHead.Life + `","first":2}`,
		1: `{"sequence":3,"time":"2026-03-04T05:06:07.000000008Z","subject":"orders"}`,
		4: `{"sequence":10,"time":"2026-03-04T06:06:07.000000008Z","subject":"$LIGHTERAGE.DEAD.orders",` +
			`"headers":{"Lighterage-Dead-Reason":[""]},"text":"<orde"}`,
		5: `{"sequence":20,"time":"1970-01-01T00:00:07Z","subjectBytes":"b3JkZXJzLv8=",` +
			`"headerBytes":"QTog6XTpDQpBOiAgYjogYyANCkI6IA0K","bytes":"Y2Fm6Q=="}`,
		7: `{"sequence":22,"time":"1970-01-01T00:00:07Z","subject":"orders",` +
			`"text":"{\"a\":\"b\",\"c\":\"\"}\n{}\n"}`,
		9: `{"last":30,"messages":8,"plainBytes":21138}`,
	} {
		if lines[i] != want {
			t.Errorf("line %d is %s", i, lines[i])
		}
	}
}

// Messages that are small or long go through many blocks, and those that were compressed stay so.
func TestLargeRange(t *testing.T) {
	var records []Record
	plain := 0
	for i := range 20_000 {
		r := Record{
			Sequence: uint64(i + 2), Time: time.Unix(int64(i), 0).UTC(),
			Payload: fmt.Appendf(nil, "<order><number>%d</number><item>lighter</item></order>", i),
		}
		records, plain = append(records, r), plain+len(r.Payload)
	}
	records = append(records, Record{Sequence: 30_000, Time: time.Unix(0, 0).UTC(), Payload: text(5 << 20)})
	payload, form, h := encoded(t, text(8<<20))
	records = append(
		records, Record{Sequence: 30_001, Time: time.Unix(0, 0).UTC(), Payload: payload, Form: form, Headers: h},
		Record{Sequence: 30_003, Time: time.Unix(0, 0).UTC(), Payload: []byte("the last")},
	)
	var sum meter.Meter
	data, index := writeRange(t, formEncoders(t)[cargo.Zstd], records, testHead, 30_003, sum.Add)
	if most := plain/3 + 5<<20/3 + 2*len(payload); len(data) > most {
		t.Errorf("the file has %d bytes, want at most %d", len(data), most)
	}
	if s := sum.Snapshot(); s.Software.Operations < 8 || s.UncompressedBytes < int64(plain+5<<20) {
		t.Errorf("compression is counted as %+v", s)
	}
	r := testRange(cargo.Zstd, 30_003)
	got, foot, m, err := readLines(r, 0, data, index)
	if err != nil || foot.PlainBytes != uint64(plain+13<<20+8) || m.parts != 1 {
		t.Fatalf("%v, %+v, %d parts", err, foot, m.parts)
	}
	if !reflect.DeepEqual(records, got) { // A difference of so many bytes would take long to tell.
		t.Error("it is read as something else")
	}
	// What comes after a message is read alone: the index leads there, by a few looks at single blocks.
	for _, after := range []uint64{2, 7777, 20_001, 20_002, 29_999, 30_000, 30_002, 30_003} {
		got, foot, m, err := readLines(r, after, data, index)
		want := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Sequence <= after })
		if err != nil || foot.Last != 30_003 || len(want) != len(got) || len(want) > 0 && !reflect.DeepEqual(want, got) ||
			m.parts > 8 {
			t.Errorf("after %d: %v, %d messages in %d parts", after, err, len(got), m.parts)
		}
	}
}

// In a range with a message of every sequence, any is found by its number.
func TestRangeWithoutHoles(t *testing.T) {
	var records []Record
	for i := range 30_000 {
		records = append(records, Record{Sequence: uint64(i + 2), Time: time.Unix(0, 0).UTC(), Payload: text(100)})
	}
	data, index := writeRange(t, formEncoders(t)[cargo.Gzip], records, testHead, 30_001, nil)
	got, _, m, err := readLines(testRange(cargo.Gzip, 30_001), 20_000, data, index)
	if err != nil || len(got) != 10_001 || got[0].Sequence != 20_001 || m.parts != 2 { // the head is one
		t.Errorf("%v, %d messages in %d parts", err, len(got), m.parts)
	}
}

// A policy that compresses nothing is followed, and said to be. The file is one of form Gzip all the same.
func TestNotCompressed(t *testing.T) {
	for name, test := range map[string]struct {
		mode    policy.Mode
		codecs  []codec.ID
		payload []byte
		reason  policy.Reason
	}{
		"not attempted": {policy.Never, []codec.ID{codec.Deflate}, text(100_000), policy.PolicyNever},
		"no codec":      {policy.Always, nil, text(100_000), policy.PeerRefused},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCompression
			c.Policy.Mode, c.Codecs = test.mode, test.codecs
			e, err := NewEncoders(c)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			var sum meter.Meter
			records := []Record{{Sequence: 2, Time: time.Unix(0, 0).UTC(), Payload: test.payload}}
			data, index := writeRange(t, e, records, testHead, 2, sum.Add)
			if got := sum.Snapshot(); got.Skipped[test.reason] != 1 {
				t.Errorf("skipped %v", got.Skipped)
			}
			got, _, _, err := readLines(testRange(cargo.Gzip, 2), 0, data, index)
			if err != nil || !reflect.DeepEqual(records, got) {
				t.Error(err)
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

// A file that is cut short anywhere, or changed anywhere, or goes on, is found out, and so is an index.
func TestDamage(t *testing.T) {
	records := textRecords(t)
	for form, e := range formEncoders(t) {
		data, index := writeRange(t, e, records, testHead, 30, nil)
		r := testRange(form, 30)
		check := func(what string, data, index []byte) {
			t.Helper()
			got, _, _, err := readLines(r, 0, data, index)
			// A stream may have a bit that means nothing, and gzip has a header and an end that are not needed.
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) && (err != nil || !reflect.DeepEqual(got, records)) {
				t.Fatalf("%v, %s: %v", form, what, err)
			}
		}
		for _, of := range [][]byte{data, index} {
			for n := 0; n < len(of); n += 1 + n/400 {
				changed := bytes.Clone(of)
				changed[n] ^= 0x10
				if &of[0] == &data[0] {
					check(fmt.Sprint("changed at ", n), changed, index)
					changed = of[:n]
					if _, _, _, err := readLines(r, 0, changed, index); !errors.Is(err, ErrDamaged) {
						t.Fatalf("cut after %d bytes: %v", n, err)
					}
					continue
				}
				check(fmt.Sprint("index changed at ", n), data, changed)
				if _, _, _, err := readLines(r, 0, data, of[:n]); !errors.Is(err, ErrDamaged) {
					t.Fatalf("index cut after %d bytes: %v", n, err)
				}
			}
		}
		// Who finds neither has come while both were deleted.
		if _, err := (opener{directory: &Directory{files: &memory{}, name: "gone"}}).each(
			t.Context(), r, 0, func(*Record) error { return nil },
		); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
			t.Errorf("deleted: %v", err)
		}
		for what, test := range map[string]struct {
			r           Range
			data, index []byte
			is          error
		}{
			"with a byte more":          {r, append(bytes.Clone(data), 0), index, ErrDamaged},
			"without its index":         {r, data, nil, ErrDamaged},
			"under another name":        {Range{First: 1, Last: 30, form: form}, data, index, ErrOther},
			"ends elsewhere":            {testRange(form, 31), data, index, ErrOther},
			"has more than it may have": {testRange(form, 22), data, index, ErrDamaged},
		} {
			if _, _, _, err := readLines(test.r, 0, test.data, test.index); !errors.Is(err, test.is) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// A range of blocks that is cut short anywhere, or changed anywhere, or goes on, is found out.
func TestDamagedBlocks(t *testing.T) {
	d := testDecoder(t)
	records := testRecords(t)
	b := writeOldRange(t, records, testHead, 12)
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

// TestFormerArchive reads what a release before the form of lines has written.
func TestFormerArchive(t *testing.T) {
	name := Name("orders", testHead.Life)
	d, err := Open("testdata/form1", name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	decoder := testDecoder(t)
	x, err := d.ReadIndex(decoder)
	if err != nil || x.Version != blocksVersion || x.To != 12 || x.Remains(4) || !x.Remains(9) {
		t.Fatalf("%+v, %v", x, err)
	}
	ranges, err := d.Ranges()
	if err != nil || len(ranges) != 2 {
		t.Fatalf("%v, %v", ranges, err)
	}
	in := opener{directory: d, queue: "orders", life: testHead.Life, engines: engines.Default(), decoder: decoder}
	var got []Record
	for _, r := range ranges {
		if _, err := in.each(t.Context(), r, 0, func(r *Record) error { got = append(got, *r); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	want := testRecords(t)
	for i := range want { // What another engine compressed has other bytes.
		if want[i].Form.Codec == codec.Zstd && i < len(got) && got[i].Form == want[i].Form {
			if !bytes.Equal(inflated(t, got[i].Payload), inflated(t, want[i].Payload)) {
				t.Errorf("record %d has another content", i)
			}
			got[i].Payload = want[i].Payload
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func inflated(t *testing.T, frame []byte) []byte {
	t.Helper()
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	plain, err := d.DecodeAll(frame, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plain
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
