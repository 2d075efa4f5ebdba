// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	sourceHeader   = "Lighterage-Channel-Source"
	epochHeader    = "Lighterage-Channel-Epoch"
	positionHeader = "Lighterage-Channel-Position"
	putTimeHeader  = "Lighterage-Channel-Put-Time"
)

// Source names a sending queue.
type Source struct {
	// Peer is the name of the other cluster here.
	Peer, Namespace, Queue string
}

// String returns the source as markers have it.
func (s Source) String() string { return s.Peer + "/" + s.Namespace + "/" + s.Queue }

// subject of the source's markers. Nobody but this package publishes to such a subject, and consumers do not have it
// among their filters.
func (s Source) subject(stream string) string {
	return strings.TrimSuffix(store.MarkerSubjects(stream), "*") + fmt.Sprintf("%016x", xxh3.HashString(s.String()))
}

// marker is what a stream says of a source.
type marker struct {
	epoch string
	// position in the epoch.
	position uint64
	// put is when the sending stream stored the latest message up to the position, in nanoseconds of Unix time; 0: not
	// known. Another message has a sequence up to the position when that stream lost its end, as by a power failure.
	put int64
	// sequence of the marker; 0: there is none.
	sequence uint64
}

// errMarker says that the stream has a marker that this release did not write.
var errMarker = errors.New("the stream's marker of the channel cannot be read")

// readMarker returns the marker of a source, the zero one if there is none.
func readMarker(ctx context.Context, stream jetstream.Stream, name string, source Source) (marker, error) {
	m, err := stream.GetLastMsgForSubject(ctx, source.subject(name))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return marker{}, nil
	}
	if err != nil {
		return marker{}, fmt.Errorf("read the position of the channel from %s: %w", source, err)
	}
	if m.Header.Get(sourceHeader) != source.String() {
		return marker{}, fmt.Errorf("%w: it is of another source than %s", errMarker, source)
	}
	position, err := strconv.ParseUint(m.Header.Get(positionHeader), 10, 64)
	if err != nil {
		return marker{}, fmt.Errorf("%w: %w", errMarker, err)
	}
	out := marker{epoch: m.Header.Get(epochHeader), position: position, sequence: m.Sequence}
	if text := m.Header.Get(putTimeHeader); text != "" { // Earlier releases did not write it.
		if out.put, err = strconv.ParseInt(text, 10, 64); err != nil {
			return marker{}, fmt.Errorf("%w: %w", errMarker, err)
		}
	}
	return out, nil
}

// message returns the marker as it is published after the one with a sequence.
func (m marker) message(stream string, source Source, after uint64) *nats.Msg {
	out := nats.NewMsg(source.subject(stream))
	out.Header.Set(sourceHeader, source.String())
	out.Header.Set(epochHeader, m.epoch)
	out.Header.Set(positionHeader, strconv.FormatUint(m.position, 10))
	if m.put != 0 {
		out.Header.Set(putTimeHeader, strconv.FormatInt(m.put, 10))
	}
	out.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	out.Header.Set(jetstream.MsgTTLHeader, "never") // whatever the queue's greatest age
	out.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(after, 10))
	return out
}

// in returns the marker for an epoch. remembered is what this process stored last: the stream may have dropped the
// marker with its oldest messages.
func (m marker) in(epoch string, remembered marker) marker {
	if m.sequence == 0 && remembered.epoch == epoch {
		m.epoch, m.position, m.put = epoch, remembered.position, remembered.put
	}
	if m.epoch != epoch {
		m.epoch, m.position, m.put = epoch, 0, 0
	}
	return m
}

// after returns the marker that a batch ends with which is stored after this one. The time does not go back where the
// clock of the sender does: messages that are stored are never taken for new ones.
func (m marker) after(b *wirev1.ChannelBatch) marker {
	return marker{
		epoch: m.epoch, position: b.GetMessages()[len(b.GetMessages())-1].GetSequence(),
		put: max(m.put, putTime(b.GetPutTime())),
	}
}

// putTime returns a time in nanoseconds of Unix time; 0 if it is absent.
func putTime(t *timestamppb.Timestamp) int64 {
	if t == nil {
		return 0
	}
	return t.AsTime().UnixNano()
}
