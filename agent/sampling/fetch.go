// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package sampling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ErrBadSample says that a server gave what no server of this version gives.
var ErrBadSample = errors.New("the sample is not what was asked for")

// Fetch asks a server for a sample and holds it to the request.
func Fetch(ctx context.Context, conn grpc.ClientConnInterface, r Request) ([]Item, Seen, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := &wirev1.SampleRequest{MaxBytes: uint64(r.MaxBytes), MaxItems: uint32(r.MaxItems), Seed: r.Seed}
	if r.Duration != 0 {
		q.Duration = durationpb.New(r.Duration)
	}
	stream, err := wirev1.NewSamplerClient(conn).Sample(ctx, q)
	if err != nil {
		return nil, Seen{}, fmt.Errorf("ask for a sample: %w", err)
	}
	var items []Item
	var bytes int64
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, Seen{}, fmt.Errorf("%w: it has no end", ErrBadSample)
		}
		if err != nil {
			return nil, Seen{}, fmt.Errorf("take a sample: %w", err)
		}
		if end := answer.GetEnd(); end != nil {
			return items, Seen{
				Items: positive(end.GetItems()), Bytes: positive(end.GetBytes()), Unreadable: positive(end.GetUnreadable()),
			}, nil
		}
		item := Item{Content: answer.GetItem().GetContent(), Length: positive(answer.GetItem().GetLength())}
		bytes += int64(len(item.Content))
		if n := len(item.Content); n == 0 || n > MaxItem || bytes > r.MaxBytes || len(items) == r.MaxItems ||
			item.Length < int64(n) {
			return nil, Seen{}, fmt.Errorf("%w: item %d of %d bytes, %d in all", ErrBadSample, len(items), n, bytes)
		}
		items = append(items, item)
	}
}

func positive(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
