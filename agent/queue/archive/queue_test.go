// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// patience bounds waiting for what has to come.
const patience = 2 * time.Minute

// queue is a store with one member.
type queue struct {
	*testing.T
	name   string
	member string // of several
	store  *store.Store
	conn   *nats.Conn
	js     jetstream.JetStream
}

func newQueue(t *testing.T, name string, settings store.Settings) *queue {
	t.Helper()
	q := &queue{T: t, name: name}
	var err error
	if q.store, err = store.Start(
		t.Context(), store.Options{Queue: name, Directory: storetest.Directory(t), Capacity: 1 << 30, MaxPayload: 8 << 20},
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.store.Shutdown)
	if q.conn, err = q.store.Connect("test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.conn.Close)
	if err := q.store.Ensure(t.Context(), q.conn, settings); err != nil {
		t.Fatal(err)
	}
	if q.js, err = jetstream.New(q.conn, jetstream.WithDefaultTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *queue) put(subject, text string, header ...string) {
	q.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(text)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	if _, err := q.js.PublishMsg(q.Context(), m); err != nil {
		q.Fatal(err)
	}
}

// remove takes a message out of the queue, as an acknowledgement does.
func (q *queue) remove(sequence uint64) {
	q.Helper()
	stream, err := q.js.Stream(q.Context(), q.name)
	if err == nil {
		err = stream.DeleteMsg(q.Context(), sequence)
	}
	if err != nil {
		q.Fatal(err)
	}
}

// content are the messages of the queue, dead letters included, in order.
func (q *queue) content() []*jetstream.RawStreamMsg {
	q.Helper()
	stream, err := q.js.Stream(q.Context(), q.name)
	if err != nil {
		q.Fatal(err)
	}
	var all []*jetstream.RawStreamMsg
	for sequence := stream.CachedInfo().State.FirstSeq; sequence <= stream.CachedInfo().State.LastSeq; sequence++ {
		m, err := stream.GetMsg(q.Context(), sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && strings.HasPrefix(m.Subject, "$LIGHTERAGE.RESTORE") {
			continue
		}
		if err != nil {
			q.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// texts are what is in the queue, with subjects.
func (q *queue) texts() []string {
	q.Helper()
	var all []string
	for _, m := range q.content() {
		all = append(all, m.Subject+"="+string(m.Data))
	}
	return all
}

// archiver writes the queue's archive.
func (q *queue) archiver(directory string, change func(*archive.Options, *archive.Settings)) *archive.Archiver {
	o := archive.Options{
		Conn: q.conn, Stream: q.name, Leads: func() bool { return true }, Member: q.name + "-0",
		Place:    archive.Place{Directory: directory},
		Decoders: engines.Default(),
		Log:      slog.New(slog.DiscardHandler), Poll: time.Millisecond,
	}
	s := archive.Settings{Interval: time.Millisecond, Compression: archive.Compression{
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast}, Codecs: []codec.ID{codec.Zstd},
		Engines: engines.Default(),
	}}
	if change != nil {
		change(&o, &s)
	}
	return archive.NewArchiver(o, s)
}

// archived runs an archiver until its status is as it should be, and returns that.
func (q *queue) archived(a *archive.Archiver, ok func(archive.Status) bool) archive.Status {
	q.Helper()
	ctx, cancel := context.WithTimeout(q.Context(), patience)
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); a.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for !ok(a.Status()) {
		if ctx.Err() != nil {
			q.Fatalf("the archive is not as it should be: %+v", a.Status())
		}
		time.Sleep(time.Millisecond)
	}
	return a.Status()
}

// upTo is true when the archive has what the queue has had up to a sequence, after it was looked at again.
func upTo(sequence uint64) func(archive.Status) bool {
	begun := time.Now()
	return func(s archive.Status) bool { return s.Sequence == sequence && s.LastTime.After(begun) }
}

func (q *queue) restorer(directory string, change func(*archive.RestoreOptions)) *archive.Restorer {
	o := archive.RestoreOptions{
		Conn: q.conn, Stream: q.name, Leads: func() bool { return true }, Queue: "orders",
		Place:      archive.Place{Directory: directory},
		MaxMessage: 1 << 20,
		Decoders:   engines.Default(), Log: slog.New(slog.DiscardHandler), RetryPause: time.Millisecond,
	}
	if change != nil {
		change(&o)
	}
	return archive.NewRestorer(o)
}

func (q *queue) restore(r *archive.Restorer) archive.RestoreStatus {
	q.Helper()
	ctx, cancel := context.WithTimeout(q.Context(), patience)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		q.Fatalf("%v: %+v", err, r.Status())
	}
	return r.Status()
}

// refused runs a restorer until it says why it does not go on.
func (q *queue) refused(r *archive.Restorer) error {
	q.Helper()
	ctx, cancel := context.WithTimeout(q.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for {
		if err := r.Status().LastError; err != nil {
			cancel()
			if r.Status().Done {
				q.Error("it is done, and failed")
			}
			<-ended
			return err
		}
		select {
		case err := <-ended:
			q.Fatalf("it ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// expect compares what is in a queue.
func (q *queue) expect(want ...string) {
	q.Helper()
	if got := q.texts(); !reflect.DeepEqual(got, want) {
		q.Errorf("the queue has %q, want %q", got, want)
	}
}

// ranges are the files of the only archive.
func ranges(t *testing.T, directory string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(directory, "*", "0*.jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// sidecar is the name of the index beside a range.
func sidecar(name string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".lgci")
}

func TestArchiveAndRestore(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "gone before it is archived")
	from.put("orders.new.eu", "two", "Nats-Msg-Id", "id-2", "Customer", "7", "Nats-TTL", "1h")
	from.put("orders", "three")
	from.put(store.DeadSubject("orders"), "four", "Lighterage-Dead-Reason", "rejected")
	from.put("orders", strings.Repeat("five ", 1000))
	from.remove(1)
	a := from.archiver(directory, nil)
	s := from.archived(a, upTo(5))
	if s.Index.Messages != 4 || s.Index.Passed != 1 || s.Index.Ranges != 1 || s.Index.PlainBytes != 5012 ||
		s.Index.WrittenBytes == 0 || s.Index.WrittenBytes > 2000 ||
		s.Compression.Software.Operations != 1 || s.LastError != nil || !strings.HasPrefix(s.Path, "orders.") {
		t.Errorf("status %+v", s)
	}
	// Two leave later, and one comes. Another archiver takes it up.
	from.remove(3)
	from.remove(5)
	from.put("orders", "six")
	s = from.archived(from.archiver(directory, nil), upTo(6))
	if s.Index.Messages != 5 || s.Index.Passed != 1 || s.Index.Ranges != 2 || len(ranges(t, directory)) != 2 {
		t.Errorf("status %+v", s)
	}

	to := newQueue(t, "invoices", store.Settings{MaxAge: time.Hour})
	r := to.restorer(directory, nil)
	done := to.restore(r)
	to.expect("invoices.new.eu=two", "$LIGHTERAGE.DEAD.invoices=four", "invoices=six")
	first := to.content()[0].Header
	if first.Get("Lighterage-Message-Id") != "id-2" || first.Get("Nats-Msg-Id") != "" || first.Get("Customer") != "7" ||
		first.Get(archive.TimeHeader) == "" ||
		first.Get("Nats-TTL") == "" || first.Get("Nats-TTL") == "1h" {
		t.Errorf("headers %v", first)
	}
	if dead := to.content()[1].Header; dead.Get("Lighterage-Dead-Reason") != "rejected" {
		t.Errorf("headers of the dead letter %v", dead)
	}
	if !done.Done || done.Messages != 3 || done.Bytes != 10 || done.ArchiveBytes == 0 || done.Elapsed <= 0 ||
		done.Path != s.Path || done.LastError != nil {
		t.Errorf("status %+v", done)
	}
	// Nothing is restored twice, whatever became of the messages and of the archive; and the limits may change.
	for _, m := range to.content() {
		to.remove(m.Sequence)
	}
	if err := to.store.Ensure(t.Context(), to.conn, store.Settings{MaxAge: 2 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	stream, err := to.js.Stream(t.Context(), "invoices")
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if again := to.restore(to.restorer(t.TempDir(), nil)); again.Messages != 3 || !again.Done ||
		again.Elapsed != done.Elapsed {
		t.Errorf("status %+v", again)
	}
	to.expect()

	// Everything is what there was when the archive came to it.
	all := newQueue(t, "all", store.Settings{})
	all.restore(all.restorer(directory, func(o *archive.RestoreOptions) { o.Everything = true }))
	all.expect("all.new.eu=two", "all=three", "$LIGHTERAGE.DEAD.all=four", "all="+strings.Repeat("five ", 1000), "all=six")
}

// A restore that ends anywhere goes on where it was.
func TestRestoreOnce(t *testing.T) {
	const messages = 600
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	var want []string
	for i := range messages {
		if _, err := from.js.PublishAsync("orders", fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("orders-2=%d", i))
	}
	select {
	case <-from.js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatal("the messages are not put")
	}
	// Each range ends a batch.
	s := from.archived(from.archiver(directory, func(_ *archive.Options, s *archive.Settings) {
		s.RangeBytes = 5000
	}), upTo(messages))
	if s.Index.Ranges < 10 || s.Index.Messages != messages {
		t.Fatalf("status %+v", s)
	}
	to := newQueue(t, "orders-2", store.Settings{})
	tries := 0
	for done := false; !done; tries++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r := to.restorer(directory, nil)
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		// It is ended when it has stored something more.
		for begun := progress(to); progress(to) == begun && !r.Status().Done && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-ended
		done = r.Status().Done
		if tries > messages {
			t.Fatal("it does not end")
		}
	}
	to.restore(to.restorer(directory, nil))
	if got := to.texts(); !reflect.DeepEqual(got, want) {
		t.Errorf("after %d tries the queue has %d messages, or others, or in another order", tries, len(got))
	}
}

// progress is how many messages a stream has seen.
func progress(q *queue) uint64 {
	stream, err := q.js.Stream(q.Context(), q.name)
	if err != nil {
		return 0
	}
	return stream.CachedInfo().State.LastSeq
}

// Two that both think that they lead restore each message once.
func TestRestoreByTwo(t *testing.T) {
	const messages = 400
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	for i := range messages {
		if _, err := from.js.PublishAsync("orders", fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-from.js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatal("the messages are not put")
	}
	from.archived(from.archiver(directory, func(_ *archive.Options, s *archive.Settings) {
		s.RangeBytes = 5000
	}), upTo(messages))
	to := newQueue(t, "orders-2", store.Settings{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- to.restorer(directory, nil).Run(ctx) }()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if got := to.texts(); len(got) != messages || got[0] != "orders-2=0" ||
		got[messages-1] != fmt.Sprintf("orders-2=%d", messages-1) {
		t.Errorf("the queue has %d messages", len(got))
	}
}

// What is wrong with an archive is said, with the name of the file, and a queue that has been filled up to there goes
// on when it is fixed.
func TestRefused(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	a := from.archiver(directory, nil)
	for i := uint64(1); i <= 3; i++ {
		from.put("orders", fmt.Sprint(i))
		from.archived(a, upTo(i))
	}
	files := ranges(t, directory)
	if len(files) != 3 {
		t.Fatalf("files %v", files)
	}
	second, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	beside, err := os.ReadFile(sidecar(files[1]))
	if err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(filepath.Dir(files[0]), "index")
	whole, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		harm   func()
		change func(*archive.RestoreOptions)
		is     error
		reason wirev1.FailureReason
		says   string
	}{
		"cut short": {
			func() { write(files[1], second[:len(second)-1]) }, nil, archive.ErrDamaged,
			wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, filepath.Base(files[1]),
		},
		"missing": {
			func() { remove(files[1]) }, nil, archive.ErrGap, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"nothing after message 1",
		},
		"the last one missing": {
			func() { remove(files[2]) }, nil, archive.ErrGap, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"nothing after message 2",
		},
		"that of another": {
			func() {
				for _, beside := range []func(string) string{func(name string) string { return name }, sidecar} {
					first, _ := os.ReadFile(beside(files[0]))
					write(beside(files[1]), first)
				}
			}, nil, archive.ErrOther, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, filepath.Base(files[1]),
		},
		"that of another's index": {
			func() { first, _ := os.ReadFile(files[0]); write(files[1], first) }, nil, archive.ErrDamaged,
			wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, filepath.Base(files[1]),
		},
		"without its index": {
			func() { remove(sidecar(files[1])) }, nil, archive.ErrDamaged,
			wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, "lighterage-cargo rebuild",
		},
		"a damaged index": {
			func() { write(index, whole[:9]) }, nil, archive.ErrDamaged, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"index",
		},
		"no index": {
			func() { remove(index) }, nil, os.ErrNotExist, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND, "messages: All",
		},
		"another queue's": {
			func() {}, func(o *archive.RestoreOptions) { o.Queue = "invoices" }, archive.ErrNotFound,
			wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND, "invoices",
		},
		"another path": {
			func() {}, func(o *archive.RestoreOptions) { o.Queue, o.Path = "", "nowhere" }, archive.ErrNotFound,
			wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND, "nowhere",
		},
		"too long": {
			func() {}, func(o *archive.RestoreOptions) { o.MaxMessage = 0 }, nil,
			wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE, "maxMessageSize",
		},
	} {
		t.Run(name, func(t *testing.T) {
			copied, err := os.ReadFile(files[2])
			if err != nil {
				t.Fatal(err)
			}
			fix := func() {
				write(files[1], second)
				write(sidecar(files[1]), beside)
				write(files[2], copied)
				write(index, whole)
			}
			defer fix()
			test.harm()
			to := newQueue(t, "orders-2", store.Settings{})
			err = to.refused(to.restorer(directory, test.change))
			if test.is != nil && !errors.Is(err, test.is) || !failure.Is(err, test.reason) ||
				!strings.Contains(err.Error(), test.says) {
				t.Errorf("refused with %v", err)
			}
			fix()
			to.restore(to.restorer(directory, nil))
			to.expect("orders-2=1", "orders-2=2", "orders-2=3")
		})
	}

	// A queue without space says so, and goes on when it has been given some.
	small := newQueue(t, "small", store.Settings{MaxMessages: 2})
	if err := small.refused(small.restorer(directory, nil)); !failure.Is(
		err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
	) {
		t.Errorf("refused with %v", err)
	}
	if err := small.store.Ensure(t.Context(), small.conn, store.Settings{MaxMessages: 10}); err != nil {
		t.Fatal(err)
	}
	small.restore(small.restorer(directory, nil))
	small.expect("small=1", "small=2", "small=3")
}
