// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

var layouts = []cargo.Records{
	{Layout: cargo.Lines}, {Layout: cargo.Fixed, Length: 137}, {Layout: cargo.RDW},
}

func withRecords(f cargo.Form, r cargo.Records) sendOption {
	return func(o *send.Options) { o.Form, o.Records = f, r }
}

// recordsOf makes at least n bytes of records, and returns them one by one as well.
func recordsOf(r cargo.Records, seed, n int) (plain []byte, all [][]byte) {
	for i := 0; len(plain) < n; i++ {
		one := fmt.Appendf(nil, "%d: record %d ", seed, i)
		switch r.Layout {
		case cargo.Lines:
			one = append(append(one, bytes.Repeat([]byte("text "), i%97)...), '\n')
		case cargo.Fixed:
			one = append(one, make([]byte, r.Length-len(one))...)
		default:
			one = append(one, bytes.Repeat([]byte("text "), i*i%6000)...)
			if i%5 == 0 { // spanned
				half := len(one) / 2
				one = append(append(word(half, 1), one[:half]...), append(word(len(one)-half, 2), one[half:]...)...)
			} else {
				one = append(word(len(one), 0), one...)
			}
		}
		plain, all = append(plain, one...), append(all, one)
	}
	return plain, all
}

func word(length int, segment byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(length+4)), segment, 0)
}

// recordTree makes a tree of files of records, of several chunks and of less than one, and returns their records.
func recordTree(t testing.TB, r cargo.Records) (source string, records map[string][][]byte) {
	t.Helper()
	source, records = t.TempDir(), map[string][][]byte{"empty": nil}
	file(t, source, "empty", nil, 0o600)
	for name, size := range map[string]int{"large": 6 << 20, "d/larger": 9<<20 + 1, "small": 2000, "d/one": 1} {
		var plain []byte
		plain, records[name] = recordsOf(r, size, size)
		file(t, source, name, plain, 0o640)
	}
	age(t, filepath.Join(source, "d"), 5)
	return source, records
}

func indexAt(t testing.TB, root string, form cargo.Form, name string) *cargo.Index {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, form.IndexPath(name)))
	if err != nil {
		t.Fatal(err)
	}
	index, err := cargo.ParseIndex(b)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// numbered fails the test unless the index of each file knows its records, some of which are read.
func numbered(t testing.TB, root string, form cargo.Form, r cargo.Records, records map[string][][]byte) {
	t.Helper()
	for name, all := range records {
		index := indexAt(t, root, form, name)
		if index.Records() != r || index.RecordCount() != int64(len(all)) {
			t.Errorf("%q has %d records %v instead of %d %v", name, index.RecordCount(), index.Records(), len(all), r)
			continue
		}
		rests, err := os.ReadFile(filepath.Join(root, form.Name(name)))
		if err != nil {
			t.Fatal(err)
		}
		reader, err := cargo.NewReader(bytes.NewReader(rests), int64(len(rests)), index, engines.Default())
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(all); n += 1 + len(all)/9 {
			for record, err := range reader.Records(t.Context(), int64(n), 1) {
				if err != nil || !bytes.Equal(record, all[n]) {
					t.Errorf("record %d of %q has %d bytes instead of %d: %v", n, name, len(record), len(all[n]), err)
				}
			}
		}
		reader.Close()
	}
}

// unnumbered is how many files a report counts as ones that are none of records.
func unnumbered(r *wirev1.Report) uint64 {
	for _, o := range r.GetOmissions() {
		if o.GetWhat() == tree.OmittedRecords {
			return o.GetCount()
		}
	}
	return 0
}

// Files of records rest with the numbers of these, and the receiver inflates nothing. From there they travel on with
// their numbers, as they rest. Where they rest without, a receiver gets both.
func TestRecords(t *testing.T) {
	t.Parallel()
	for i, records := range layouts {
		form := forms[i%2]
		t.Run(records.String(), func(t *testing.T) {
			t.Parallel()
			source, all := recordTree(t, records)
			destination := t.TempDir()
			sent, received := move(t, source, destination, withRecords(form, records))
			rests(t, source, destination, form)
			numbered(t, destination, form, records, all)
			noneInflated(t, received)
			if n := unnumbered(sent); n > 0 {
				t.Errorf("%d files have no record numbers", n)
			}
			sent, _ = move(t, source, destination, withRecords(form, records))
			if p := sent.GetProgress(); p.UnchangedFiles != p.FilesTotal {
				t.Errorf("progress of the second run is %v", p)
			}

			again, without := t.TempDir(), t.TempDir()
			move(t, source, without, inForm(form))
			for what, from := range map[string]string{"with numbers": destination, "without": without} {
				to := filepath.Join(again, what)
				if err := os.Mkdir(to, 0o700); err != nil {
					t.Fatal(err)
				}
				sent, received := move(t, from, to, fromForm(form), withRecords(form, records))
				for name := range all {
					a, b := indexAt(t, destination, form, name), indexAt(t, to, form, name)
					if diff := cmp.Diff(a.Append(nil), b.Append(nil)); diff != "" {
						t.Errorf("%s: the index of %q is another one", what, name)
					}
				}
				carriedAll(t, sent)
				noneInflated(t, received)
			}
			plain := t.TempDir()
			move(t, destination, plain, fromForm(form))
			same(t, source, plain)
		})
	}
}

// Files that were packed in blocks which end at records are compressed again, with their numbers.
func TestRecordsOfPackedFiles(t *testing.T) {
	form, records := cargo.Gzip, layouts[0]
	plain, all := recordsOf(records, 1, 5<<20)
	var rest bytes.Buffer
	index, err := cargo.Pack(t.Context(), &rest, bytes.NewReader(plain), cargo.PackOptions{
		Form: form, Records: records, Engines: engines.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, form.Name("a"), rest.Bytes(), 0o600)
	file(t, source, form.IndexName("a"), index.Append(nil), 0o600)
	move(t, source, destination, fromForm(form), withRecords(form, records))
	numbered(t, destination, form, records, map[string][][]byte{"a": all})
}

// reindexed is a source whose index is replaced by one without records after it was looked at, and again.
type reindexed struct {
	*tree.Source
	calls   atomic.Int64
	without *cargo.Index
}

func (r *reindexed) Index(e *tree.Entry) (*cargo.Index, error) {
	if r.calls.Add(1) == 2 {
		return r.without, nil
	}
	return r.Source.Index(e)
}

// A file whose index is replaced while it is sent is none without records: it is sent again.
func TestRecordsOfAReplacedIndex(t *testing.T) {
	form, records := cargo.Gzip, layouts[0]
	plain, all := recordsOf(records, 1, 3<<20)
	source, with, without, destination := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	file(t, source, "a", plain, 0o600)
	move(t, source, with, withRecords(form, records))
	move(t, source, without, inForm(form))
	sent, _ := move(t, with, destination, fromForm(form), withRecords(form, records), atOnce, func(o *send.Options) {
		o.Source = &reindexed{Source: o.Source.(*tree.Source), without: indexAt(t, without, form, "a")}
	})
	if unnumbered(sent) > 0 {
		t.Errorf("omissions are %v", sent.GetOmissions())
	}
	numbered(t, destination, form, records, map[string][][]byte{"a": all})
}

// A file that does not consist of the records arrives without their numbers, and is counted. The others have them.
func TestRecordsOfOtherFiles(t *testing.T) {
	for i, records := range layouts[1:] {
		form := forms[i]
		source, destination := t.TempDir(), t.TempDir()
		good, all := recordsOf(records, 1, 4<<20)
		wrong := bytes.Clone(good)
		wrong = append(wrong, 0, 99)
		for name, plain := range map[string][]byte{"good": good, "wrong": wrong, "short": {1, 2, 3}} {
			file(t, source, name, plain, 0o600)
		}
		sent, received := move(t, source, destination, withRecords(form, records))
		rests(t, source, destination, form)
		numbered(t, destination, form, records, map[string][][]byte{"good": all})
		for _, name := range []string{"wrong", "short"} {
			if index := indexAt(t, destination, form, name); index.Records() != (cargo.Records{}) {
				t.Errorf("%q has %d records %v", name, index.RecordCount(), index.Records())
			}
		}
		if unnumbered(sent) != 2 || unnumbered(received) != 2 {
			t.Errorf("omissions are %v and %v", sent.GetOmissions(), received.GetOmissions())
		}
		sent, received = move(t, source, destination, withRecords(form, records))
		if p := sent.GetProgress(); p.UnchangedFiles != p.FilesTotal || unnumbered(sent) != 2 || unnumbered(received) != 2 {
			t.Errorf("of the second run: %v, omissions are %v and %v", p, sent.GetOmissions(), received.GetOmissions())
		}
	}
}

// The receiver is killed after any number of operations. The next attempt goes on within files, whose records it knows
// from their beginning on, or does not if they are none. With other records nothing is resumed.
func TestRecordsSurviveAnyEnd(t *testing.T) {
	t.Parallel()
	for i, records := range layouts {
		form := forms[i%2]
		t.Run(records.String(), func(t *testing.T) {
			t.Parallel()
			source, all := recordTree(t, records)
			wrong, _ := recordsOf(records, 3, 7<<20)
			lines := records.Layout == cargo.Lines
			if !lines {
				wrong = append(wrong[:len(wrong)-1:len(wrong)-1], wrong...)
				file(t, source, "wrong", wrong, 0o600)
			}
			other := cargo.Records{Layout: cargo.Fixed, Length: 7}
			resumed := uint64(0)
			for operations := 20; ; operations += 23 * sparsely {
				destination := t.TempDir()
				_, _, err := try(t, 1, source, destination, func(o *receive.Options, _ *pair) {
					m := newMachine(o.Destination, destination, operations)
					m.killed = true
					o.Destination = m
				}, withRecords(form, records))
				if err == nil {
					break
				}
				with := records
				if operations%2 == 1 {
					with = other
				}
				sent, received, err := try(t, 2, source, destination, nil, withRecords(form, with))
				if err != nil {
					t.Fatalf("after %d operations: %v", operations, err)
				}
				rests(t, source, destination, form)
				noneInflated(t, received)
				if with == other {
					if n := sent.GetProgress().GetResumedBytes(); n > 0 {
						t.Errorf("after %d operations %d bytes of other records were resumed", operations, n)
					}
					continue
				}
				resumed += sent.GetProgress().GetResumedBytes()
				numbered(t, destination, form, records, all)
				if !lines && indexAt(t, destination, form, "wrong").Records() != (cargo.Records{}) {
					t.Errorf("after %d operations a file that is none has records", operations)
				}
			}
			if resumed == 0 && sparsely == 1 {
				t.Error("nothing was ever resumed")
			}
		})
	}
}

// Files that change while they are read have the records that they have then.
func TestRecordsOfFilesThatChangeWhileTheyAreRead(t *testing.T) {
	form, records := cargo.Zstd, layouts[2]
	source, destination := t.TempDir(), t.TempDir()
	all := make(map[string][][]byte)
	for i, name := range []string{"a", "changes", "goes", "z"} {
		var plain []byte
		plain, all[name] = recordsOf(records, i, 6<<20)
		file(t, source, name, plain, 0o600)
	}
	after, others := recordsOf(records, 9, 8<<20)
	all["changes"] = others
	delete(all, "goes")
	changes := map[string]func() error{
		"changes": func() error { return os.WriteFile(filepath.Join(source, "changes"), after, 0o600) },
		"goes":    func() error { return os.Remove(filepath.Join(source, "goes")) },
	}
	p := startReceiver(t, destination, touch(func(e *tree.Entry, times int) {
		if change := changes[e.Path]; change != nil && times == 0 {
			if err := change(); err != nil {
				t.Error(err)
			}
		}
	}))
	if _, err := p.send(t.Context(), t, source, atOnce, withRecords(form, records)); err != nil {
		t.Fatal("send:", err)
	}
	if err := p.wait(t); err != nil {
		t.Fatal("receive:", err)
	}
	age(t, source, 1)
	age(t, destination, 1)
	rests(t, source, destination, form)
	numbered(t, destination, form, records, all)
}

// Several receivers get the numbers, each of the records that it asks for.
func TestRecordsFanOut(t *testing.T) {
	t.Parallel()
	source, all := recordTree(t, layouts[0])
	f := newFanOut(t, source, send.FanOptions{}, 2)
	for i := range f.pairs {
		records := layouts[0]
		if i == 1 {
			records = cargo.Records{}
		}
		f.start(t.Context(), i, source, startReceiver(t, f.destinations[i]), withRecords(cargo.Gzip, records))
	}
	f.running.Wait()
	for i, p := range f.pairs {
		f.ended(i, p)
		rests(t, source, f.destinations[i], cargo.Gzip)
	}
	numbered(t, f.destinations[0], cargo.Gzip, layouts[0], all)
}

// recordless is a receiver of an earlier release: it knows forms, and no records.
type recordless struct{ *receive.Receiver }

func (f recordless) Session(stream wirev1.Receiver_SessionServer) error {
	return f.Receiver.Session(withoutRecords{stream})
}

type withoutRecords struct{ wirev1.Receiver_SessionServer }

func (s withoutRecords) Recv() (*wirev1.SessionRequest, error) {
	m, err := s.Receiver_SessionServer.Recv()
	if b := m.GetBegin(); b != nil {
		b.Records = nil
	}
	return m, err
}

// A receiver of an earlier release is sent nothing, and the reason says so. Without records it is sent what it was.
func TestRecordsOfEarlierReceivers(t *testing.T) {
	source, _ := recordTree(t, layouts[0])
	for _, records := range []cargo.Records{layouts[0], {}} {
		destination := t.TempDir()
		p := startReceiver(t, destination)
		p.dialer = serve(t, recordless{p.receiver}, &p.report.Wire)
		_, err := p.send(t.Context(), t, source, withRecords(cargo.Gzip, records))
		received := p.wait(t)
		if records.Layout == cargo.NoRecords {
			if err := errors.Join(err, received); err != nil {
				t.Error(err)
			}
			rests(t, source, destination, cargo.Gzip)
			continue
		}
		if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED) || received == nil {
			t.Errorf("the sender ended with %v, the receiver with %v", err, received)
		}
		if names := names(t, destination); len(names) != 1 {
			t.Errorf("at the destination are %q", names)
		}
	}
}

// Records that cannot be in a block end the attempt, and the file gets no name.
func TestHostileRecords(t *testing.T) {
	chunk := text(1, chunkOfPeer)
	for name, test := range map[string]struct {
		records *wirev1.Records
		mark    cargo.Mark
	}{
		"ContinuesNothing": {linesOnWire, cargo.Mark{Before: 1, Count: 1}},
		"NoneBegins":       {linesOnWire, cargo.Mark{Before: chunkOfPeer}},
		"MoreThanBytes":    {linesOnWire, cargo.Mark{Count: chunkOfPeer + 1}},
		"BehindTheBlock":   {linesOnWire, cargo.Mark{Before: chunkOfPeer + 1, Count: 1}},
		"Words": {
			&wirev1.Records{Layout: wirev1.RecordLayout_RECORD_LAYOUT_RDW}, cargo.Mark{Count: chunkOfPeer/4 + 1},
		},
		"Lengths": {
			&wirev1.Records{Layout: wirev1.RecordLayout_RECORD_LAYOUT_FIXED, Length: 64}, cargo.Mark{Count: chunkOfPeer/64 - 1},
		},
		"OfAnyLength": {linesOnWire, cargo.Mark{Count: 1 << 31}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			destination := t.TempDir()
			p := startReceiver(t, destination, func(o *receive.Options) { o.Idle = 2 * time.Second })
			s := newPeer(t, p)
			begin := goodBegin()
			begin.Form, begin.Records = wirev1.Form_FORM_GZIP, test.records
			s.begin(begin)
			m, err := s.session.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(m.GetAccepted().GetRecords(), test.records) {
				t.Errorf("the answer is %v", m)
			}
			s.token = m.GetAccepted().GetSession()
			s.announce(root(), fileEntry("a", 3*chunkOfPeer))
			s.needs()
			s.connect(codec.Deflate, true).segments(chunk, protocol.Segment{
				Index: 1, Length: chunkOfPeer, Digest: protocol.DigestOf(chunk), Mark: test.mark,
			})
			if f := s.verdict(); f.GetReason() != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
				t.Errorf("the verdict is %v", f)
			}
			if p.wait(t) == nil {
				t.Error("the receiver succeeded")
			}
			if _, err := os.Lstat(filepath.Join(destination, "a.gz")); err == nil {
				t.Error("the file has its name")
			}
		})
	}
}

var linesOnWire = &wirev1.Records{Layout: wirev1.RecordLayout_RECORD_LAYOUT_LINES}

// A session that asks for records which cannot be does not begin.
func TestHostileBeginsOfRecords(t *testing.T) {
	for name, test := range map[string]struct {
		form    wirev1.Form
		records *wirev1.Records
		want    wirev1.FailureReason
	}{
		"NoForm": {0, linesOnWire, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"None":   {wirev1.Form_FORM_GZIP, &wirev1.Records{}, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"Unknown": {
			wirev1.Form_FORM_GZIP, &wirev1.Records{Layout: 259}, wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
		},
		"LengthOfLines": {
			wirev1.Form_FORM_ZSTD, &wirev1.Records{Layout: wirev1.RecordLayout_RECORD_LAYOUT_LINES, Length: 1},
			wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		},
		"NoLength": {
			wirev1.Form_FORM_ZSTD, &wirev1.Records{Layout: wirev1.RecordLayout_RECORD_LAYOUT_FIXED},
			wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		},
		"LongRecords": {
			wirev1.Form_FORM_ZSTD, &wirev1.Records{Layout: wirev1.RecordLayout_RECORD_LAYOUT_FIXED, Length: 1<<30 + 1},
			wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startReceiver(t, t.TempDir())
			s := newPeer(t, p)
			begin := goodBegin()
			begin.Form, begin.Records = test.form, test.records
			s.begin(begin)
			if f := s.verdict(); f.GetReason() != test.want {
				t.Errorf("the verdict is %v", f)
			}
		})
	}
}

// A receiver that says that a record begins where nothing is safe, or that has gaps in what is, is not believed.
func TestHostileRecordOffsets(t *testing.T) {
	source := t.TempDir()
	file(t, source, "a", noise(1, 5<<20), 0o600)
	ranges := func(numbers ...uint64) (all []*wirev1.ChunkRange) {
		for i := 0; i < len(numbers); i += 2 {
			all = append(all, &wirev1.ChunkRange{First: numbers[i], Count: numbers[i+1]})
		}
		return all
	}
	for name, safe := range map[string]*wirev1.Safe{
		"Behind":   {Position: 1, Ranges: ranges(0, 2), RecordOffset: proto.Uint64(2 << 20)},
		"FarAway":  {Position: 1, Ranges: ranges(0, 2), RecordOffset: proto.Uint64(1 << 63)},
		"Gap":      {Position: 1, Ranges: ranges(0, 1, 2, 1), RecordOffset: proto.Uint64(0)},
		"NotFirst": {Position: 1, Ranges: ranges(1, 1), RecordOffset: proto.Uint64(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says := []*wirev1.SessionResponse{
				{Message: &wirev1.SessionResponse_Accepted{Accepted: &wirev1.Accepted{
					Codec: uint32(codec.Deflate), Session: []byte("session"), Joinable: true, Form: wirev1.Form_FORM_GZIP,
					Records: linesOnWire,
				}}},
				{Message: &wirev1.SessionResponse_Need{Need: &wirev1.Need{
					Bitmap: []byte{0b10}, Safe: []*wirev1.Safe{safe},
				}}},
			}
			p := &pair{dialer: serve(t, mute{says: says, hears: true}, &transport.Counter{})}
			_, err := p.send(t.Context(), t, source, withRecords(cargo.Gzip, layouts[0]), func(o *send.Options) {
				o.Silence = patience
			})
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
				t.Errorf("the sender ended with %v", err)
			}
		})
	}
}
