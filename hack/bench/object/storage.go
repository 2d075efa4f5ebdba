// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/transfer"
	"github.com/lighterage/lighterage/hack/bench/trees"
)

// storageCell is the name of the cell that compares a hand-off through the bucket with TCP.
const storageCell = "storage"

// storage is that cell with what its contenders took.
type storage struct {
	tree    trees.Size
	results []route
}

// route is one way between two agents, and its turns.
type route struct {
	name        string
	bucket      bool
	compression wirev1.CompressionMode
	samples     []moved
}

// moved is one turn. The CPU times are those of three agents, of the server and of the whole system.
type moved struct {
	wall, send, receive, relay, server, system time.Duration
	// wire is how many bytes the sender's network carried.
	wire uint64
}

func routes() []route {
	const auto, never = wirev1.CompressionMode_COMPRESSION_MODE_AUTO, wirev1.CompressionMode_COMPRESSION_MODE_NEVER
	return []route{
		{name: "TCP", compression: auto}, {name: "bucket", bucket: true, compression: auto},
		{name: "TCP, not compressed", compression: never},
		{name: "bucket, not compressed", bucket: true, compression: never},
	}
}

// storage has every route take turns.
func (o *options) storage(ctx context.Context, r *harness.Run) (*storage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := startServer(ctx, o.versitygw, filepath.Join(o.work, storageCell), nil)
	if err != nil {
		return nil, err
	}
	defer s.process.Stop(time.Second)
	source := filepath.Join(s.dir, "source")
	if err := trees.Demo(ctx, source, o.size); err != nil {
		return nil, fmt.Errorf("make the tree: %w", err)
	}
	m := &storage{results: routes()}
	if m.tree, err = trees.Measure(source); err != nil {
		return nil, err
	}
	err = r.Rounds(o.runs, func(round int) error {
		for _, i := range harness.Order(round, len(m.results)) {
			one := &m.results[i]
			got, err := o.move(ctx, s, *one, source, m.tree)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			harness.Log("%s, run %d: %s: %.2f s", storageCell, round+1, one.name, got.wall.Seconds())
			one.samples = append(one.samples, got)
		}
		return nil
	})
	return m, err
}

// move moves the tree once and holds what arrived against it.
func (o *options) move(
	ctx context.Context, s *server, way route, source string, want trees.Size,
) (got moved, err error) {
	t, remove, err := s.begin(source)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	pair, err := o.pair(ctx, t, way)
	if err != nil {
		return got, err
	}
	others := []*harness.Process{s.process}
	if pair.Relay() != nil {
		defer pair.Relay().Stop(10 * time.Second)
		others = append(others, pair.Relay())
	}
	before, err := busy(others)
	if err != nil {
		return got, err
	}
	begin := time.Now()
	send, receive, err := pair.Move(ctx, func(harness.PID) {})
	if err != nil {
		return got, err
	}
	got.wall = time.Since(begin)
	after, err := busy(others)
	if err != nil {
		return got, err
	}
	for i, into := range []*time.Duration{&got.system, &got.server, &got.relay}[:len(after)] {
		*into = after[i] - before[i]
	}
	got.send, got.receive, got.wire = send.CPU, receive.CPU, send.Report.GetWireBytes()
	arrived, err := trees.Measure(t.destination)
	if err == nil && arrived != want {
		err = fmt.Errorf("the destination has %+v, the source %+v", arrived, want)
	}
	return got, err
}

func (o *options) pair(ctx context.Context, t turn, way route) (*transfer.Pair, error) {
	settings := &wirev1.CompressionSettings{
		Mode: way.compression, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, Codecs: []string{"deflate"},
	}
	if !way.bucket {
		return transfer.NewPair(ctx, t.dir, o.agent, t.source, t.destination, settings)
	}
	if err := t.writeCredentials(); err != nil {
		return nil, err
	}
	return transfer.NewHandOff(ctx, t.dir, o.agent, t.source, t.destination, settings, t.end())
}

// busy is the CPU time of the system, and of each of the processes.
func busy(of []*harness.Process) (spent []time.Duration, err error) {
	system, _, err := harness.SystemCPU()
	spent = append(spent, system)
	for _, p := range of {
		if err != nil {
			return nil, err
		}
		var u harness.Usage
		u, err = p.PID().Usage()
		spent = append(spent, u.CPU)
	}
	return spent, err
}

// agents is what sender, receiver and relay spent.
func (m moved) agents() time.Duration { return m.send + m.receive + m.relay }

// String is the table of the cell.
func (s *storage) String() string {
	head := []string{
		"route", "wall s", "CPU ms per MB: agents", "with the server", "whole system", "sender", "receiver", "relay",
		"server", "MB on the sender's wire",
	}
	mb := float64(s.tree.Bytes) / 1e6
	var rows [][]string
	for _, r := range s.results {
		row := []string{
			r.name, fmt.Sprintf("%.2f", harness.MedianOf(r.samples, func(m moved) float64 { return m.wall.Seconds() })),
		}
		for _, of := range []func(moved) time.Duration{
			moved.agents, func(m moved) time.Duration { return m.agents() + m.server },
			func(m moved) time.Duration { return m.system }, func(m moved) time.Duration { return m.send },
			func(m moved) time.Duration { return m.receive }, func(m moved) time.Duration { return m.relay },
			func(m moved) time.Duration { return m.server },
		} {
			row = append(row, fmt.Sprintf("%.2f",
				harness.MedianOf(r.samples, func(m moved) float64 { return of(m).Seconds() })*1e3/mb))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.0f",
			harness.MedianOf(r.samples, func(m moved) float64 { return float64(m.wire) })/1e6)))
	}
	return fmt.Sprintf("%s: %.0f MB in %d files; medians of %d runs\n\n", storageCell, mb, s.tree.Files,
		len(s.results[0].samples)) + harness.Table(head, rows)
}
