// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/trees"
)

//go:embed checkpoint.md.tmpl
var checkpointTemplate string

// checkpointIntervals are in MiB. 64 is the default of spec.checkpointInterval.
var checkpointIntervals = []int{1, 4, 16, 64, 256, 1024}

const defaultInterval = 64

// Checkpoint measures what the interval between checkpoints costs beside what a restart repeats.
func Checkpoint() harness.Benchmark {
	o := &options{}
	return harness.Benchmark{
		Name:  "checkpoint",
		About: "what checkpoint intervals cost beside what a restart repeats; needs twice -size in -work, on a real disk",
		Flags: func(f *flag.FlagSet) {
			o.flags(f, "/var/tmp")
			f.IntVar(&o.runs, "runs", 5, "runs of each interval")
			f.IntVar(&o.size, "size", 2048, "MiB of the file")
		},
		Run: o.in(o.checkpoints),
	}
}

// interrupted is a run without a fault, and one whose receiver is killed half-way, with the attempt that goes on.
type interrupted struct {
	sample
	// resent bytes had been written by the first attempt and came again; second is the wall time of the second attempt.
	resent int64
	second time.Duration
}

func (o *options) checkpoints(ctx context.Context, r *harness.Run) error {
	intervals := checkpointIntervals
	if r.Quick {
		o.runs, o.size = 1, min(o.size, 1000)
		intervals = []int{1, defaultInterval}
	}
	source := filepath.Join(o.work, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		return fmt.Errorf("make the source: %w", err)
	}
	if err := makeNoise(filepath.Join(source, "file"), o.size); err != nil {
		return fmt.Errorf("fill the source: %w", err)
	}
	samples := map[int][]interrupted{}
	err := r.Rounds(o.runs, func(round int) error {
		for _, i := range harness.Order(round, len(intervals)) {
			one, err := o.interrupt(ctx, source, intervals[i])
			if err != nil {
				return fmt.Errorf("interval %d MiB: %w", intervals[i], err)
			}
			harness.Log("run %d: %d MiB: %.2f s wall, %.2f s CPU; killed: %.1f MiB again, %.2f s for the rest", round+1,
				intervals[i], one.wall.Seconds(), one.cpu.Seconds(), float64(one.resent)/(1<<20), one.second.Seconds())
			samples[intervals[i]] = append(samples[intervals[i]], one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.Publish(ctx, checkpointReport(o.size, intervals, samples))
}

// interrupt moves the source twice: undisturbed, and with agents that are killed when half of it is written.
func (o *options) interrupt(ctx context.Context, source string, mib int) (got interrupted, err error) {
	busy, err := o.cpu.read()
	if err != nil {
		return got, err
	}
	destination := filepath.Join(o.work, "destination")
	if _, got.wall, err = o.attempt(ctx, source, destination, mib, 1, 0); err != nil {
		return got, err
	}
	after, err := o.cpu.read()
	if err != nil {
		return got, err
	}
	got.cpu = after - busy
	if err := os.RemoveAll(destination); err != nil {
		return got, err
	}
	if _, _, err := o.attempt(ctx, source, destination, mib, 1, int64(o.size)<<20/2); err != nil {
		return got, err
	}
	report, second, err := o.attempt(ctx, source, destination, mib, 2, 0)
	if err != nil {
		return got, err
	}
	got.second = second
	got.resent = int64(report.GetProgress().GetResentBytes())
	if report.GetProgress().GetResumedBytes() == 0 && mib <= defaultInterval {
		return got, errors.New("the second attempt resumed nothing")
	}
	want, err := trees.Measure(source)
	if err != nil {
		return got, err
	}
	if arrived, err := trees.Measure(destination); err != nil || arrived.Bytes != want.Bytes {
		return got, errors.Join(err, fmt.Errorf("the destination has %+v, the source %+v", arrived, want))
	}
	return got, os.RemoveAll(destination)
}

// attempt runs one pair of agents. If killAt is not 0 it kills both when so many bytes are written, and returns no
// report.
func (o *options) attempt(
	ctx context.Context, source, destination string, mib int, number uint32, killAt int64,
) (report *wirev1.Report, took time.Duration, err error) {
	if err := os.MkdirAll(destination, 0o755); err != nil {
		return nil, 0, err
	}
	dir, err := os.MkdirTemp("", "lighterage-bench-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bench{dir: dir, agent: o.agent, attempt: number, interval: uint64(mib) << 20}
	never := settings(wirev1.CompressionMode_COMPRESSION_MODE_NEVER, wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST)
	if err := b.prepare(ctx, source, destination, true, never); err != nil {
		return nil, 0, err
	}
	syscall.Sync() // what others have written would be in the way of the first
	start := time.Now()
	if killAt == 0 {
		if _, err := b.move(ctx); err != nil {
			return nil, 0, err
		}
		took = time.Since(start)
		report, err = b.report(b.sending())
		return report, took, err
	}
	sender, err := harness.Start(b.command(ctx, b.sending()))
	if err != nil {
		return nil, 0, err
	}
	if err := b.awaitBytes(destination, killAt, sender); err != nil {
		return nil, 0, err
	}
	for _, p := range []*harness.Process{b.receiver, sender} {
		if err := p.Command.Process.Kill(); err != nil {
			return nil, 0, fmt.Errorf("kill an agent: %w", err)
		}
		<-p.Ended()
	}
	return nil, 0, nil
}

// awaitBytes waits until files below the destination have so many bytes, holes not counted.
func (b *bench) awaitBytes(destination string, bytes int64, sender *harness.Process) error {
	for {
		var written int64
		err := filepath.WalkDir(destination, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st syscall.Stat_t
			if err := syscall.Lstat(path, &st); err != nil {
				return err
			}
			written += st.Blocks * 512
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // else something got its name just now
			return fmt.Errorf("look at the destination: %w", err)
		}
		if written >= bytes {
			return nil
		}
		select {
		case <-sender.Ended():
			return errors.Join(errors.New("the run ended before it was to be killed"), sender.Wait(), b.receiver.Wait())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func checkpointReport(mib int, intervals []int, samples map[int][]interrupted) harness.Report {
	seconds := func(of func(interrupted) time.Duration) func(interrupted) float64 {
		return func(s interrupted) float64 { return of(s).Seconds() }
	}
	walls := seconds(func(s interrupted) time.Duration { return s.wall })
	cpus := seconds(func(s interrupted) time.Duration { return s.cpu })
	again := func(s interrupted) float64 { return float64(s.resent) / (1 << 20) }
	var rows [][]string
	for _, i := range intervals {
		of, base := samples[i], samples[defaultInterval]
		ratio := harness.RatioOf(of, base, walls)
		rows = append(rows, []string{
			fmt.Sprintf("%d MiB", i), fmt.Sprintf("%.2f", harness.MedianOf(of, walls)),
			fmt.Sprintf("%.2f (%.2f to %.2f)", ratio.Value, ratio.Low, ratio.High),
			fmt.Sprintf("%.2f", harness.MedianOf(of, cpus)), fmt.Sprintf("%.1f", harness.MedianOf(of, again)),
			fmt.Sprintf("%.2f", harness.MedianOf(of, seconds(func(s interrupted) time.Duration { return s.second }))),
		})
	}
	return harness.Report{
		Name: "checkpoint", Template: checkpointTemplate,
		Data: map[string]any{"MiB": mib, "Table": harness.Table([]string{
			"interval", "wall s", "wall by that of 64 MiB", "system CPU s", "MiB again after a kill", "s for the rest",
		}, rows)},
	}
}
