// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// Progress of a restore. It is kept in the stream, together with what it counts.
type Progress struct {
	Done bool `json:"done"`
	// Path of the archive, which has its name.
	Path string `json:"path"`
	// Sequence, in the archive, up to which all is in the queue.
	Sequence uint64 `json:"sequence"`
	// Messages restored, and the length of their payloads as they were put.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	// ArchiveBytes of files were read for that.
	ArchiveBytes uint64 `json:"archiveBytes"`
	// Elapsed time, and the CPU time that the process has spent in it, of the tries that stored anything.
	Elapsed time.Duration `json:"elapsed"`
	CPU     time.Duration `json:"cpu"`
}

// restoredKey is where the stream's metadata say what became of a restore that is done.
const restoredKey = "lighterage.restored"

// position is progress with the place of its marker.
type position struct {
	Progress
	// after is the sequence of the marker; 0: there is none.
	after uint64
	// kept says that the stream's metadata have it.
	kept bool
}

// readProgress returns how far a stream has been filled.
func readProgress(ctx context.Context, stream jetstream.Stream, queue string) (position, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if text := stream.CachedInfo().Config.Metadata[restoredKey]; text != "" {
		p, err := parsePosition([]byte(text), 0)
		p.kept = true
		return p, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, store.RestoreSubject(queue))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return position{}, nil
	}
	if err != nil {
		return position{}, fmt.Errorf("read how far the restore has come: %w", err)
	}
	return parsePosition(m.Data, m.Sequence)
}

func parsePosition(text []byte, after uint64) (position, error) {
	p := position{after: after}
	if err := json.Unmarshal(text, &p.Progress); err != nil {
		return position{}, fmt.Errorf("read how far the restore has come: %w", err)
	}
	return p, nil
}

func (p *Progress) text() (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("write how far the restore has come: %w", err)
	}
	return string(text), nil
}

// marker returns the message that takes the place of the one before it. The stream refuses it if another has.
func (p *position) marker(queue string) (*nats.Msg, error) {
	text, err := p.text()
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(store.RestoreSubject(queue))
	m.Data = []byte(text)
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	m.Header.Set(jetstream.MsgTTLHeader, "never") // whatever the queue's greatest age
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(p.after, 10))
	return m, nil
}
