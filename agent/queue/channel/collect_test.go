// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// TestCollectBombs: messages that are short as they are stored and long when they are plain are not all made plain at
// once.
func TestCollectBombs(t *testing.T) {
	t.Parallel()
	const bytes, length = 4 << 20, 256 << 10
	for _, c := range []struct {
		name     string
		stored   string
		travels  codec.ID
		messages int
	}{
		{"inflated", "zstd", codec.None, bytes / length},
		{"recompressed", "zstd", codec.Deflate, bytes / length},
		{"as it is", "zstd", codec.Zstd, MaxBatchMessages},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// Nothing but the limits ends a batch.
			x := &session{
				Sender: &Sender{options: SenderOptions{BatchDelay: time.Hour}}, letters: make(chan *letter, MaxBatchMessages),
			}
			for i := range MaxBatchMessages {
				x.letters <- &letter{sequence: uint64(i + 1), payload: make([]byte, 52), headers: nats.Header{
					message.CodecHeader: {c.stored}, message.EngineHeader: {"software"}, message.LengthHeader: {strconv.Itoa(length)},
					message.ChecksumHeader: {"0123456789abcdef"},
				}}
			}
			letters, err := x.collect(t.Context(), &recoder{codec: c.travels}, MaxBatchMessages, bytes)
			if err != nil {
				t.Fatal(err)
			}
			if len(letters) != c.messages {
				t.Errorf("%d messages of %d bytes are made ready at once; %d were expected", len(letters), length, c.messages)
			}
		})
	}
}
