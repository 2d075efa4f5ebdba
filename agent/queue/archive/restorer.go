// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TimeHeader is that of a restored message which says when it was put first, as RFC 3339 has it.
const TimeHeader = "Lighterage-Put-Time"

const (
	// A batch is stored at once, with a marker that says how far the restore has come.
	batchMessages = 900
	batchBytes    = 4 << 20
	// leadPause is how often it is looked whether another member is done.
	leadPause = 200 * time.Millisecond
)

// RestoreOptions of a Restorer.
type RestoreOptions struct {
	// Conn may do everything in the stream, which has the name of the queue.
	Conn   *nats.Conn
	Stream string
	// Leads reports whether this member leads the stream. Others wait for it.
	Leads func() bool
	// Place in which archives are.
	Place Place
	// Queue whose latest archive it is; empty: Path says it.
	Queue string
	// Path of the archive in Place.
	Path string
	// Everything that the archive has is restored, and not only what was in the queue when it was written last.
	Everything bool
	// MaxMessage is the length in bytes of the longest message that the queue takes, as it was put.
	MaxMessage int
	Decoders   *codec.Registry
	Log        *slog.Logger
	// RetryPause after a failure. Default 15 s.
	RetryPause time.Duration
	// ConfirmPause is how long Confirm waits before it looks. Default 10 s.
	ConfirmPause time.Duration
}

// confirmPause is longer than a member takes at most from reading the settings of the stream to writing them.
const confirmPause = 2 * requestTimeout

// Restorer puts the messages of an archive into a queue, each once, whatever ends it in between. It is safe for
// concurrent use.
type Restorer struct {
	options RestoreOptions

	mu     sync.Mutex
	status RestoreStatus
}

// RestoreStatus is how far a restore has come.
type RestoreStatus struct {
	Progress
	// Last sequence of the archive.
	Last uint64
	// LastError is why it does not go on, since LastErrorTime; nil when it does.
	LastError     error
	LastErrorTime time.Time
}

// NewRestorer returns one that does not run yet.
func NewRestorer(o RestoreOptions) *Restorer {
	if o.RetryPause == 0 {
		o.RetryPause = retryPause
	}
	if o.ConfirmPause == 0 {
		o.ConfirmPause = confirmPause
	}
	return &Restorer{options: o}
}

// Status returns how far it has come.
func (r *Restorer) Status() RestoreStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *Restorer) update(f func(*RestoreStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.status)
}

// Run returns nil when everything is in the queue, or was before. What fails is tried again until the context ends.
func (r *Restorer) Run(ctx context.Context) error {
	for {
		done, err := r.try(ctx)
		if done && err == nil {
			return nil
		}
		pause := leadPause
		// What another member has stored meanwhile is no failure.
		if err != nil && ctx.Err() == nil && !jetstreamerror.Overtaken(err) {
			pause = r.options.RetryPause
			r.failed(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Confirm comes after Run. The note that the restore is done is among the stream's settings, and who was changing these
// at the same moment may have written them without it. So it is looked for a while later, and made again until it is
// seen. It returns then, or when the context ends.
func (r *Restorer) Confirm(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.options.ConfirmPause):
		}
		confirmed, err := r.confirmed(ctx)
		if confirmed {
			return
		}
		if err != nil && ctx.Err() == nil {
			r.options.Log.Warn("It is not noted yet that the archive is restored; it is tried again", "error", err.Error())
		}
	}
}

// confirmed reports whether the stream has the note. If not, the member that leads makes it again.
func (r *Restorer) confirmed(ctx context.Context) (bool, error) {
	_, stream, err := store.Look(ctx, r.options.Conn, r.options.Stream)
	if err != nil {
		return false, err
	}
	if stream.CachedInfo().Config.Metadata[restoredKey] != "" {
		return true, nil
	}
	if !r.options.Leads() {
		return false, nil
	}
	// The marker may have left the stream by now, so what Run saw counts.
	w := &work{Restorer: r, at: position{Progress: r.Status().Progress}}
	return false, w.keep(ctx)
}

func (r *Restorer) failed(err error) {
	r.update(func(s *RestoreStatus) {
		if s.LastError == nil || s.LastError.Error() != err.Error() {
			r.options.Log.Error("Archive cannot be restored; it is tried again", "error", err.Error())
		}
		s.LastError, s.LastErrorTime = whyNot(err), time.Now()
	})
}

// try goes on with the restore if this member leads.
func (r *Restorer) try(ctx context.Context) (done bool, err error) {
	_, stream, err := store.Look(ctx, r.options.Conn, r.options.Stream)
	if err != nil {
		return false, err
	}
	at, err := readProgress(ctx, stream, r.options.Stream)
	if err != nil {
		return false, err
	}
	r.update(func(s *RestoreStatus) {
		s.Progress = at.Progress
		if at.Done {
			s.LastError, s.Last = nil, at.Sequence
		}
	})
	if at.Done && at.kept {
		return true, nil
	}
	if !r.options.Leads() {
		r.update(func(s *RestoreStatus) { s.LastError = nil }) // Whoever leads says how it goes on.
		return false, nil
	}
	w := &work{Restorer: r, at: at, base: at.Progress, began: time.Now(), cpu: processCPU()}
	if at.Done {
		return true, w.keep(ctx)
	}
	if err := w.run(ctx, stream.CachedInfo().Created); err != nil {
		return false, err
	}
	r.update(func(s *RestoreStatus) { s.LastError = nil })
	r.options.Log.Info(
		"Archive is restored", "archive", w.at.Path, "messages", w.at.Messages, "bytes", w.at.Bytes, "elapsed",
		w.at.Elapsed.String(),
	)
	return true, nil
}

func processCPU() time.Duration {
	user, system, err := meter.ProcessCPU()
	if err != nil {
		return 0
	}
	return user + system
}

// work is one try.
type work struct {
	*Restorer
	at position
	// base is what was done before the try began.
	base  Progress
	began time.Time
	cpu   time.Duration

	messages []*nats.Msg
	size     int
	// upTo is the sequence, in the archive, up to which messages has everything.
	upTo uint64
	// read of the archive's files in this try.
	read int64
	// cut is how many messages lost headers that the library does not send.
	cut uint64
}

func (w *work) run(ctx context.Context, created time.Time) error {
	directory, err := w.open(ctx, Life(created))
	if err != nil {
		return err
	}
	defer directory.Close()
	queue, life, ok := parseName(directory.Name())
	if !ok {
		return fmt.Errorf(
			"%w: %s is no name of one; it must be as it was, like %s", ErrNotFound, directory.Name(),
			Name("orders", Life(created)),
		)
	}
	w.at.Path = directory.Name()
	decoder, err := NewDecoder(w.options.Decoders)
	if err != nil {
		return err
	}
	defer func() { _ = decoder.Close() }() // It was read with.
	index, err := directory.ReadIndex(decoder)
	if err != nil && (!w.options.Everything || !absent(err)) {
		return err
	}
	ranges, err := directory.Ranges()
	if err != nil {
		return err
	}
	if index == nil && len(ranges) == 0 {
		return fmt.Errorf("%w: there is nothing in %s", ErrNotFound, directory.Name())
	}
	from, to := uint64(1), uint64(0)
	if len(ranges) > 0 {
		from, to = ranges[0].First, ranges[len(ranges)-1].Last
	}
	if index != nil {
		from, to = index.From, max(to, index.To)
	}
	w.update(func(s *RestoreStatus) { s.Last = to })
	w.upTo = max(w.at.Sequence, from-1)
	defer func() {
		if w.cut > 0 {
			w.options.Log.Warn("Messages were restored without headers whose names cannot be sent", "messages", w.cut)
		}
	}()
	way, end := Chain(ranges, w.upTo)
	in := opener{
		directory: directory, queue: queue, life: life, engines: w.options.Decoders, decoder: decoder, read: &w.read,
	}
	for _, r := range way {
		if err := w.restore(ctx, in, r, index); err != nil {
			return err
		}
	}
	if end < to {
		return fmt.Errorf("%w: the archive %s has nothing after message %d, and goes on to %d; put the file back that "+
			"begins with message %d",
			ErrGap, directory.Name(), end, to, end+1)
	}
	w.at.Done = true
	if err := w.store(ctx); err != nil {
		return err
	}
	return w.keep(ctx)
}

// open opens the archive, which is the one that an earlier try began with.
func (w *work) open(ctx context.Context, life string) (*Directory, error) {
	path := w.options.Path
	if w.options.Queue != "" {
		var err error
		if path = w.at.Path; path == "" {
			if path, err = w.options.Place.latest(ctx, w.options.Queue, life); err != nil {
				return nil, err
			}
		}
	}
	return w.options.Place.open(ctx, path)
}

// restore puts the messages of a range into the queue.
func (w *work) restore(ctx context.Context, in opener, r Range, index *Index) error {
	var failed error
	_, err := in.each(ctx, r, w.upTo, func(record *Record) error {
		if record.Sequence <= w.upTo || !w.options.Everything && !index.Remains(record.Sequence) {
			return nil
		}
		failed = w.add(ctx, record)
		return failed
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		// What came before it is sound.
		return errors.Join(err, w.store(ctx))
	}
	w.upTo = r.Last
	return w.store(ctx)
}

// add puts a message into the next batch, and stores that if it is full.
func (w *work) add(ctx context.Context, r *Record) error {
	if n := r.PlainLength(); n > w.options.MaxMessage {
		return errors.Join(failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"message %d of the archive has %d bytes and the queue takes at most %d: raise limits.maxMessageSize", r.Sequence, n,
			w.options.MaxMessage), w.store(ctx))
	}
	if len(w.messages) == batchMessages || w.size > 0 && w.size+len(r.Payload) > batchBytes {
		if err := w.store(ctx); err != nil {
			return err
		}
	}
	m, whole := toMessage(r, w.options.Stream, time.Now())
	if !whole {
		w.cut++
	}
	w.messages = append(w.messages, m)
	w.size += len(r.Payload)
	w.upTo = r.Sequence
	w.at.Messages++
	w.at.Bytes += uint64(r.PlainLength())
	return nil
}

// toMessage returns a message as it is put into a queue, and whether it has all headers that it is to have.
func toMessage(r *Record, queue string, now time.Time) (m *nats.Msg, whole bool) {
	m, whole = nats.NewMsg(queue+r.Suffix), true
	if r.Kind == DeadLetter {
		m.Subject = store.DeadSubject(queue)
	}
	m.Data = r.Payload
	for name, values := range r.Headers {
		switch {
		case name == jetstream.MsgIDHeader:
			// The same id may have been used again when it was forgotten.
			name = batch.OriginHeader
		case batch.IsControl(name), r.Kind == Ordinary && strings.HasPrefix(name, envelope.DeadPrefix):
			continue
		case !sendable(name):
			whole = false
			continue
		}
		m.Header[name] = values
	}
	if life := batch.LifeLeft(r.Headers, r.Time, now); life > 0 {
		m.Header.Set(jetstream.MsgTTLHeader, strconv.FormatInt(int64(life/time.Second), 10)+"s")
	}
	if m.Header.Get(TimeHeader) == "" {
		m.Header.Set(TimeHeader, r.Time.UTC().Format(time.RFC3339Nano))
	}
	return m, whole
}

// store stores the batch and how far it leads.
func (w *work) store(ctx context.Context) error {
	if w.upTo == w.at.Sequence && len(w.messages) == 0 && !w.at.Done {
		return nil
	}
	w.at.Sequence = w.upTo
	w.at.ArchiveBytes = w.base.ArchiveBytes + uint64(w.read)
	w.at.Elapsed = w.base.Elapsed + time.Since(w.began)
	w.at.CPU = w.base.CPU + processCPU() - w.cpu
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	marker, err := w.at.marker(w.options.Stream)
	if err != nil {
		return err
	}
	if w.at.after, err = batch.Publish(ctx, w.options.Conn, append(w.messages, marker)); err != nil {
		return err
	}
	w.messages, w.size = nil, 0
	w.update(func(s *RestoreStatus) { s.Progress, s.LastError = w.at.Progress, nil })
	return nil
}

// keep notes in the stream itself that the restore is done: its marker is a message, and may be dropped with the
// oldest.
func (w *work) keep(ctx context.Context) error {
	text, err := w.at.text()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return store.SetMetadata(ctx, w.options.Conn, w.options.Stream, restoredKey, text)
}

// whyNot gives an error of restoring a reason that says what to do.
func whyNot(err error) error {
	const fix = "put back what was archived, or take spec.restore away, which leaves what is restored by now"
	var known *failure.Error
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &known):
		return err
	case jetstreamerror.Full(err):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
			"the queue cannot hold all messages of the archive (%w): raise its limits or storage.size", err)
	case jetstreamerror.Overtaken(err):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED, "another member restores the archive (%w)", err)
	case jetstreamerror.Is(err, jetstreamerror.TooManyBatches):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"the queue has as many batches open as it can (%w); it is tried again", err)
	case jetstreamerror.Is(err, jetstreamerror.MessageTooLarge):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"a message of the archive is longer than the queue takes (%w): raise limits.maxMessageSize", err)
	case errors.As(err, &refused):
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE, "the queue does not take what is restored: %w", err,
		)
	case errors.Is(err, ErrNotFound):
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"%w; name a queue that was archived to the claim, or the path of an archive", err,
		)
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrGap), errors.Is(err, ErrOther):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, "the archive cannot be restored: %w; "+fix, err)
	case errors.Is(err, ErrVersion):
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"the archive cannot be restored: %w; restore it with the release that wrote it, or a newer one", err,
		)
	case errors.Is(err, fs.ErrNotExist):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"a file of the archive is missing (%w); %s, or restore everything that it has (spec.restore.messages: All) if it "+
				"is the index", err, fix)
	case errors.Is(err, fs.ErrPermission):
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE,
			"the archive cannot be read (%w): let user 65532 or group 65532 read it", err,
		)
	default:
		return err
	}
}
