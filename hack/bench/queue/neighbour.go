// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/hack/bench/disk"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// neighbourWrite is what a neighbour of an archive writes at once and waits for, in bytes; neighbourPause is how long
	// it pauses then; neighbourFile is the length of its file.
	neighbourWrite = 4096
	neighbourPause = 5 * time.Millisecond
	neighbourFile  = 16 << 20
	// neighbourAlone is how long it works alone.
	neighbourAlone = 5 * time.Second
	// neighbourMessage is the length of messages in bytes.
	neighbourMessage = 32_000
)

// alone is what stands for no archive.
const alone = "no archive"

// disturbed is how long a neighbour's writes took while an archive was written beside it.
type disturbed struct {
	way    string
	writes []time.Duration
	// took is how long the archive was written, bytes are those of its files.
	took  time.Duration
	bytes uint64
}

// besideNeighbour measures what archives on a limited disk do to somebody else who writes there. Queues are in memory.
func (b *bench) besideNeighbour(ctx context.Context) (err error) {
	d, err := disk.Open(ctx, b.image, diskSize, diskSpeed)
	if err != nil {
		if ctx.Err() == nil {
			b.missing = append(b.missing, "archives on a disk with a limited speed: "+err.Error())
			err = nil
		}
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	b.diskSpeed = d.Measured
	ways := slices.DeleteFunc(slices.Clone(archiveWays), func(w archiveWay) bool { return w.atPut })
	return b.Rounds(b.diskRounds, func(round int) error {
		for _, i := range harness.Order(round, len(ways)+1) {
			name, measure := alone, func() (disturbed, error) { return nothingBeside(ctx, d) }
			if i < len(ways) {
				name, measure = ways[i].name, func() (disturbed, error) { return b.archiveBeside(ctx, d, ways[i]) }
			}
			one, err := harness.Undisturbed("a neighbour of "+name, measure)
			if err != nil {
				return fmt.Errorf("a neighbour of %s: %w", name, err)
			}
			harness.Log("neighbour, round %d: %s: %d writes in %.1f s", round+1, one.way, len(one.writes), one.took.Seconds())
			b.neighbours = append(b.neighbours, one)
		}
		return nil
	})
}

// nothingBeside leaves the neighbour alone.
func nothingBeside(ctx context.Context, d *disk.Disk) (disturbed, error) {
	return neighbourTurn(ctx, d, alone, func(ctx context.Context) (uint64, error) {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(neighbourAlone):
			return 0, nil
		}
	})
}

// archiveBeside archives a queue to the disk, beside the neighbour.
func (b *bench) archiveBeside(ctx context.Context, d *disk.Disk, way archiveWay) (one disturbed, err error) {
	one.way = way.name
	directory, err := os.MkdirTemp(b.directory, "neighbour-")
	if err != nil {
		return one, err
	}
	claim := filepath.Join(d.Directory, "claim")
	defer func() { err = errors.Join(err, os.RemoveAll(directory), os.RemoveAll(claim)) }()
	if err := os.Mkdir(claim, 0o700); err != nil {
		return one, err
	}
	from, err := openStore(ctx, filepath.Join(directory, "from"), queue)
	if err != nil {
		return one, err
	}
	defer from.close()
	n := b.neighbourBytes / neighbourMessage
	if err := from.fill(ctx, way, neighbourMessage, n); err != nil {
		return one, fmt.Errorf("put: %w", err)
	}
	writer := archive.NewArchiver(archive.Options{
		Conn: from.conn, Stream: queue, Leads: from.store.Leader, Member: "orders-0",
		Place: archive.Place{Directory: claim}, Decoders: engines.Default(), Log: slog.New(slog.DiscardHandler),
	}, archive.Settings{Interval: time.Hour, Compression: archive.Compression{
		Policy: policy.Settings{Mode: way.mode, Level: codec.Fast}, Codecs: []codec.ID{way.id}, Engines: engines.Default(),
	}})
	return neighbourTurn(ctx, d, way.name, func(ctx context.Context) (uint64, error) {
		running, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); writer.Run(running) }()
		defer func() { stop(); <-ended }()
		for {
			switch s := writer.Status(); {
			case s.LastError != nil:
				return 0, s.LastError
			case s.Index.Messages == uint64(n) && !s.LastTime.IsZero():
				return s.Index.WrittenBytes, d.Sync()
			}
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
	})
}

// neighbourTurn has a neighbour write to the disk while something is done. It has its file, whole, before.
func neighbourTurn(
	ctx context.Context, d *disk.Disk, way string, do func(context.Context) (uint64, error),
) (one disturbed, err error) {
	one.way = way
	path := filepath.Join(d.Directory, "neighbour")
	if err := os.WriteFile(path, make([]byte, neighbourFile), 0o600); err != nil {
		return one, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	if err := d.Sync(); err != nil {
		return one, err
	}
	working, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- write(working, f, &one.writes) }()
	begin := time.Now()
	one.bytes, err = do(ctx)
	one.took = time.Since(begin)
	stop()
	return one, errors.Join(err, <-failed)
}

// write is the neighbour: small writes at random places, each of which waits until it is on the disk.
func write(ctx context.Context, f *os.File, took *[]time.Duration) error {
	random, block := rand.New(rand.NewPCG(1, 2)), make([]byte, neighbourWrite)
	for ctx.Err() == nil {
		begin := time.Now()
		if _, err := f.WriteAt(block, random.Int64N(neighbourFile/neighbourWrite)*neighbourWrite); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return fmt.Errorf("wait for the disk: %w", err)
		}
		*took = append(*took, time.Since(begin))
		select {
		case <-ctx.Done():
		case <-time.After(neighbourPause):
		}
	}
	return nil
}

// neighbourTable has medians of rounds; quantiles of the writes of each.
func neighbourTable(all []disturbed) string {
	if len(all) == 0 {
		return ""
	}
	quantile := func(q float64) func(disturbed) float64 {
		return func(d disturbed) float64 {
			if len(d.writes) == 0 {
				return 0
			}
			sorted := slices.Sorted(slices.Values(d.writes))
			return sorted[int(q*float64(len(sorted)-1))].Seconds() * 1000
		}
	}
	var rows [][]string
	for _, way := range []string{alone, "none", "deflate", "zstd"} {
		turns := slices.DeleteFunc(slices.Clone(all), func(d disturbed) bool { return d.way != way })
		row := []string{way}
		for _, what := range []struct {
			format string
			of     func(disturbed) float64
		}{
			{"%.1f", quantile(0.5)}, {"%.1f", quantile(0.99)}, {"%.0f", quantile(1)},
			{"%.1f", func(d disturbed) float64 { return d.took.Seconds() }},
			{"%.0f", func(d disturbed) float64 { return float64(d.bytes) / 1e6 }},
		} {
			row = append(row, fmt.Sprintf(what.format, harness.MedianOf(turns, what.of)))
		}
		rows = append(rows, row)
	}
	return harness.Table([]string{
		"archive", "a neighbour's write: median ms", "99 % ms", "longest ms", "archive is written for s", "MB of its files",
	}, rows)
}
