// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestFits: a batch that the sending end takes for one that fits is one to the receiving end, however near it is to the
// limit.
func TestFits(t *testing.T) {
	const length = 1000
	b := &wirev1.ChannelBatch{PutTime: timestamppb.New(time.Date(2200, 1, 1, 0, 0, 0, 999_999_999, time.UTC))}
	var letters []*letter
	for i := range uint64(2) {
		l := &letter{carried: true, plain: length, wire: &wirev1.ChannelMessage{
			Sequence: i + 1, Payload: make([]byte, 20<<10), Form: &wirev1.ChannelForm{Length: length, Dictionary: 7},
		}}
		letters, b.Messages = append(letters, l), append(b.GetMessages(), l.wire)
	}
	at, fitting := testLimits, 0
	size := proto.Size(b) + len(letters)*length
	for at.bytes = size - 64; at.bytes < size+64; at.bytes++ {
		if fits(letters, at.bytes) < len(letters) {
			continue
		}
		fitting++
		if err := checkBatch(b, marker{}, at); err != nil {
			t.Errorf("with a limit of %d bytes: %v", at.bytes, err)
		}
	}
	if fitting == 0 || fitting == 128 {
		t.Errorf("of 128 limits the batch fits %d", fitting)
	}
}

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
