// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
)

// Settings of the stream. They may be changed while it runs.
type Settings struct {
	// Replicas is how many members keep each message: 1 or 3. 0: 1.
	Replicas int
	// MaxMessages and MaxBytes are the most that the queue holds; 0: not limited. Bytes
	// are as they are stored.
	MaxMessages int64
	MaxBytes    int64
	// MaxAge after which messages are dropped; 0: never.
	MaxAge time.Duration
	// DropOldest says that a full queue drops its oldest messages; else it refuses new ones.
	DropOldest bool
	// DuplicateWindow within which a message with the Nats-Msg-Id of another is not stored
	// again. 0: 2 minutes. It is never longer than MaxAge.
	DuplicateWindow time.Duration
}

const defaultDuplicateWindow = 2 * time.Minute

// Streams are those of one queue, whichever server has them.
type Streams struct {
	queue, owner string
	memory       bool
	capacity     int64  // of members; 0: the server knows
	space        *space // of the volume; nil: not looked at
}

// NewStreams returns those of a queue in a server that others may use as well. The owner is written into them, and
// streams of another one are left as they are.
func NewStreams(queue, owner string, memory bool) (*Streams, error) {
	if err := checkName(queue); err != nil {
		return nil, err
	}
	return &Streams{queue: queue, owner: owner, memory: memory}, nil
}

// Owns reports whether a stream is one of these.
func (s *Streams) Owns(c jetstream.StreamConfig) bool {
	return s.owner == "" || c.Metadata[ownerKey] == s.owner
}

// MaxConsumers is how many consumers the stream of a queue has at most, the agents' own included. Each takes memory of
// every member.
const MaxConsumers = 1024

// ownerKey is that of the owner among a stream's metadata.
const ownerKey = "lighterage.dev/owner"

var (
	// ErrForeign says that a stream is there and belongs to somebody else.
	ErrForeign = errors.New("it was made by somebody else")
	// ErrOld says that the server does not know what a queue needs of a stream.
	ErrOld = errors.New(
		"the server does not know atomic batches, time-to-live of messages or roll-up, which nats-server has from 2.12 on",
	)
)

// Window is DuplicateWindow as the stream has it.
func (s Settings) Window() time.Duration {
	d := s.DuplicateWindow
	if d == 0 {
		d = defaultDuplicateWindow
	}
	if s.MaxAge > 0 {
		d = min(d, s.MaxAge)
	}
	return d
}

// Subjects are those of the queue's messages.
func Subjects(queue string) []string { return []string{queue, queue + ".>"} }

// MarkerSubjects are those of the agent's own messages in the stream of a queue, which
// say how far a channel has come. Clients can neither put nor get them.
func MarkerSubjects(queue string) string { return "$LIGHTERAGE.CHANNEL." + queue + ".*" }

// DeadSubject is that of the dead letters, which are in the stream of their queue.
func DeadSubject(queue string) string { return "$LIGHTERAGE.DEAD." + queue }

// RestoreSubject is that of the agent's own message which says how far a queue has been filled from an archive.
func RestoreSubject(queue string) string { return "$LIGHTERAGE.RESTORE." + queue }

func (s *Streams) streamConfig(settings Settings) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:     s.queue,
		Subjects: append(Subjects(s.queue), MarkerSubjects(s.queue), DeadSubject(s.queue), RestoreSubject(s.queue)),
		MaxMsgs:  -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: MaxConsumers,
		MaxAge: settings.MaxAge, Replicas: max(settings.Replicas, 1),
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
		Duplicates: settings.Window(), Compression: jetstream.NoCompression,
		AllowDirect: true,
		// For exactly-once delivery by channels: a batch and the position it leads to are
		// stored together, and each position replaces the one before.
		AllowAtomicPublish: true, AllowRollup: true, AllowMsgTTL: true,
	}
	if settings.MaxMessages > 0 {
		c.MaxMsgs = settings.MaxMessages
	}
	if settings.MaxBytes > 0 {
		c.MaxBytes = settings.MaxBytes
	}
	if settings.DropOldest {
		c.Discard = jetstream.DiscardOld
	}
	if s.memory {
		c.Storage = jetstream.MemoryStorage
	}
	return c
}

// StreamError says that the stream cannot be as the settings want it.
type StreamError struct {
	Queue string
	// Permanent says that trying again without a change of the settings, or of another
	// member's capacity, does not help.
	Permanent bool
	// Exists says that the stream is there, with other settings.
	Exists bool
	Err    error
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("set up the stream of queue %s: %v", e.Queue, e.Err)
}

// Unwrap returns what the server says.
func (e *StreamError) Unwrap() error { return e.Err }

// Ensure makes the stream, or changes it to the settings if it differs, and does nothing
// else. MaxBytes is kept within what the volume has space for, see Store.KeepSpace. In a cluster it waits until
// the members have elected who decides, which is why it may take as long as the context
// allows. It may be repeated. Errors are *StreamError.
func (s *Streams) Ensure(ctx context.Context, conn *nats.Conn, settings Settings) error {
	// Members that have just started may elect who decides before that one has heard of all.
	patient, cancel := context.WithTimeout(ctx, formingPatience)
	defer cancel()
	for {
		err := s.await(ctx, conn, s.streamConfig(settings), s.capacity)
		var refused *StreamError
		if !errors.As(err, &refused) || refused.Exists || !noPeers(err) {
			return err
		}
		select {
		case <-patient.Done():
			return err
		case <-time.After(retryInterval):
		}
	}
}

// noPeers reports whether the server says that there are too few members with enough space.
func noPeers(err error) bool {
	return jetstreamerror.Is(err, jetstreamerror.NoPeers)
}

// errCapacity refuses limits that the server would take, because it has space beside for
// what is kept of messages.
var errCapacity = errors.New("maxBytes exceeds the free space of members")

// await makes or changes a stream, unless it would be larger than capacity; 0: the server
// decides alone.
func (s *Streams) await(ctx context.Context, conn *nats.Conn, want jetstream.StreamConfig, capacity int64) error {
	for {
		exists, err := s.ensure(ctx, conn, want, capacity)
		if err == nil {
			return nil
		}
		failure := &StreamError{Queue: want.Name, Permanent: permanent(err), Exists: exists, Err: err}
		if failure.Permanent {
			return failure
		}
		select {
		case <-ctx.Done():
			return failure
		case <-time.After(retryInterval):
		}
	}
}

const (
	retryInterval  = 500 * time.Millisecond
	requestTimeout = 5 * time.Second
	// formingPatience is how long a new stream waits for members that have to hold it.
	formingPatience = time.Minute
)

// permanent reports whether the server understood a request and refuses it. Without a
// leader it does not answer, or says that it is not available.
func permanent(err error) bool {
	var refused *jetstream.APIError
	return errors.Is(err, errCapacity) || errors.Is(err, ErrForeign) || errors.Is(err, ErrOld) ||
		errors.As(err, &refused) && refused.Code != 503
}

func (s *Streams) ensure(
	ctx context.Context, conn *nats.Conn, want jetstream.StreamConfig, capacity int64,
) (exists bool, err error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return false, err
	}
	// Space has a say in the queue's own stream alone.
	own := want.Name == s.queue && s.space != nil
	if own {
		s.space.changing.Lock()
		defer s.space.changing.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	settings := boundsOf(want)
	want.Metadata = s.metadata(nil, own, settings)
	stream, err := js.Stream(ctx, want.Name)
	if capacity > 0 && want.MaxBytes > capacity && (err == nil || errors.Is(err, jetstream.ErrStreamNotFound)) {
		return err == nil, fmt.Errorf("%w: %d bytes of %d", errCapacity, want.MaxBytes, capacity)
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		first := want
		if own && s.space.alone() {
			// The server makes its blocks as large as suits the limit that a stream has at first.
			s.space.bound(&first, jetstream.StreamConfig{}, 0)
		} // Several members make the same stream at once, so what differs between them comes after.
		if stream, err = js.CreateStream(ctx, first); err != nil {
			return false, err
		}
		if err := capable(stream.CachedInfo().Config, want); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	default:
		exists = true
	}
	have := stream.CachedInfo().Config
	if exists && !s.Owns(have) {
		return true, fmt.Errorf("stream %s: %w", want.Name, ErrForeign)
	}
	want.Metadata = s.metadata(have.Metadata, own, settings)
	if exists {
		want.MaxConsumers = have.MaxConsumers // No server changes it.
	}
	if own {
		s.space.bound(&want, have, signed(stream.CachedInfo().State.Bytes))
	}
	if same(have, want) {
		return exists, nil
	}
	changed, err := js.UpdateStream(ctx, want)
	if err != nil {
		return exists, err
	}
	return exists, capable(changed.CachedInfo().Config, want)
}

// capable returns ErrOld when the server left out what it does not know, which it does without an error.
func capable(have, want jetstream.StreamConfig) error {
	if have.AllowAtomicPublish != want.AllowAtomicPublish || have.AllowMsgTTL != want.AllowMsgTTL ||
		have.AllowRollup != want.AllowRollup {
		return ErrOld
	}
	return nil
}

// serverPrefix is that of the keys of metadata that the server sets.
const serverPrefix = "_nats."

// ownMetadata are those that the server did not set.
func ownMetadata(all map[string]string) map[string]string {
	own := make(map[string]string)
	maps.Copy(own, all)
	maps.DeleteFunc(own, func(key, _ string) bool { return strings.HasPrefix(key, serverPrefix) })
	return own
}

// metadata are those of a stream that has some, with the owner, and with the bounds of the settings if it is the own
// one.
func (s *Streams) metadata(have map[string]string, own bool, settings bounds) map[string]string {
	out := ownMetadata(have)
	if s.owner != "" {
		out[ownerKey] = s.owner
	}
	if own {
		noteBounds(out, settings)
	}
	return out
}

// Look returns the stream of a queue as it is now.
func Look(ctx context.Context, conn *nats.Conn, queue string) (jetstream.JetStream, jetstream.Stream, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, queue)
	if err != nil {
		return nil, nil, fmt.Errorf("look at the stream of queue %s: %w", queue, err)
	}
	return js, stream, nil
}

// SetMetadata keeps a value with the stream itself, where it stays whatever becomes of messages. It may be repeated.
func SetMetadata(ctx context.Context, conn *nats.Conn, queue, key, value string) error {
	js, stream, err := Look(ctx, conn, queue)
	if err != nil {
		return err
	}
	c := stream.CachedInfo().Config
	c.Metadata = ownMetadata(c.Metadata)
	c.Metadata[key] = value
	if _, err := js.UpdateStream(ctx, c); err != nil {
		return fmt.Errorf("note %s in the stream of queue %s: %w", key, queue, err)
	}
	return nil
}

// same reports whether a stream is as it is wanted. What the server adds of its own does
// not count.
func same(have, want jetstream.StreamConfig) bool {
	if !maps.Equal(ownMetadata(have.Metadata), ownMetadata(want.Metadata)) {
		return false
	}
	have.Metadata, want.Metadata = nil, nil
	have.ConsumerLimits, want.ConsumerLimits = jetstream.StreamConsumerLimits{}, jetstream.StreamConsumerLimits{}
	return reflect.DeepEqual(have, want)
}
