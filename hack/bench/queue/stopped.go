// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// The scenario of row 3: messages of 32 KB of XML, put one by one every 10 ms, which nobody takes since the channel is
// stopped.
const (
	stoppedSize     = 32_000
	stoppedInterval = 10 * time.Millisecond
	// stoppedBound is 54 % fewer.
	stoppedBound = 0.46
	// stoppedMemory is what stays in memory of a queue that spills: a third of the messages.
	stoppedMemory = 32 << 20
)

// stoppedContenders are a queue without and with compression, one in memory that spills, and what they are made of.
var stoppedContenders = []string{plain, uncompressed, spilling, deflate, zstd}

// stoppedTurn is what a contender did meanwhile.
type stoppedTurn struct {
	turn
	// late puts began more than an interval after their time.
	late int
}

// whileStopped measures what of messages that stay is written to files on a disk. Its turns are not repeated when the
// hypervisor steals time: they last 30 s each, and their target is of bytes.
func (b *bench) whileStopped(ctx context.Context) error {
	return b.Rounds(b.stoppedRounds, func(round int) error {
		for _, i := range harness.Order(round, len(stoppedContenders)) {
			one, err := stopped(ctx, stoppedContenders[i], b.stoppedMessages, b.image)
			if err != nil {
				return err
			}
			harness.Log(
				"stopped, round %d: %s: %.0f bytes written a message, %d of %d late", round+1, one.contender, one.put.written,
				one.late, one.messages,
			)
			b.stopped = append(b.stopped, one)
		}
		return nil
	})
}

// stopped is the turn of a contender.
func stopped(ctx context.Context, name string, n int, directory string) (one stoppedTurn, err error) {
	data, err := payloads(stoppedSize)
	if err != nil {
		return one, err
	}
	r, err := start(ctx, name, directory, "")
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	one.turn = turn{contender: name, size: stoppedSize, messages: n}
	if one.put, err = measure(r, n, nil, func() error {
		begin := time.Now()
		for i := range n {
			due := begin.Add(time.Duration(i) * stoppedInterval)
			if time.Since(due) > stoppedInterval {
				one.late++
			}
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				return ctx.Err()
			}
			if _, err := r.js.Publish(ctx, queue, data[i%len(data)]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return one, fmt.Errorf("put messages of %d bytes into %s: %w", stoppedSize, name, err)
	}
	one.turn.stored, err = r.stored()
	return one, err
}

// stoppedTargets are of queues that compress, by the one that does not.
func (r results) stoppedTargets() []harness.Target {
	var all []harness.Target
	other := r.stoppedOf(uncompressed)
	for _, name := range []string{deflate, zstd} {
		written := func(t stoppedTurn) float64 { return t.put.written }
		own := r.stoppedOf(name)
		if len(own) == 0 || harness.MedianOf(other, written) == 0 {
			continue
		}
		all = append(all, harness.Target{
			Name:     fmt.Sprintf("stopped-io-%s-%d", strings.TrimPrefix(name, "queue, "), stoppedSize),
			What:     "bytes of files written for messages put every 10 ms that stay, by those of a queue without compression",
			Measured: harness.RatioOf(own, other, written), Bound: stoppedBound, Digits: 2,
		})
	}
	return all
}

func (r results) stoppedOf(name string) []stoppedTurn {
	return slices.DeleteFunc(slices.Clone(r.stopped), func(t stoppedTurn) bool { return t.contender != name })
}

// stoppedTable has medians of rounds.
func (r results) stoppedTable() string {
	var rows [][]string
	for _, name := range stoppedContenders {
		turns := r.stoppedOf(name)
		if len(turns) == 0 {
			continue
		}
		row := []string{name}
		for _, what := range []struct {
			format string
			of     func(stoppedTurn) float64
		}{
			{"%.0f", func(t stoppedTurn) float64 { return t.put.written }},
			{"%.0f", func(t stoppedTurn) float64 { return t.put.read }},
			{"%.0f", func(t stoppedTurn) float64 { return stored(t.turn) }},
			{"%.1f", func(t stoppedTurn) float64 { return putServer(t.turn) }},
			{"%.0f", func(t stoppedTurn) float64 { return float64(t.late) }},
		} {
			row = append(row, fmt.Sprintf(what.format, harness.MedianOf(turns, what.of)))
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return ""
	}
	return harness.Table([]string{
		"contender", "bytes written a message", "bytes read a message", "stored bytes a message",
		"CPU us of the server a put", "late puts",
	}, rows)
}
