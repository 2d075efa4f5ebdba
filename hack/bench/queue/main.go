// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command queue measures a queue beside plain JetStream, JetStream with S2 store
// compression and RabbitMQ with a client that compresses: each in a process of its own,
// with one client over loopback that puts XML messages and gets them again.
//
// It does so with files in memory, where the processors are the limit, and without
// RabbitMQ on a disk of its own that a control group holds to 50 MB/s. Then it measures
// channels between two queues in network namespaces of their own, joined by a link that a
// token bucket holds to 100 Mbit/s, and how fast and at what cost queues are archived and
// restored.
//
// Contenders take turns, so that noise hits all of them alike; medians of the rounds
// count. It writes queue.md and queue.svg and ends with a line for each target.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// extent is how much is measured.
type extent struct {
	name   string
	rounds int
	bytes  int // put in one turn
	// The same for the disk, and for channels that do not compress.
	diskRounds, diskBytes       int
	channelRounds, channelBytes int
	archiveRounds, archiveBytes int
}

var extents = map[string]extent{
	"full": {
		name: "full", rounds: 5, bytes: 240 << 20, diskRounds: 3, diskBytes: 96 << 20, channelRounds: 3,
		channelBytes: 24 << 20, archiveRounds: 3, archiveBytes: 96 << 20,
	},
	"quick": {
		name: "quick", rounds: 1, bytes: 60 << 20, diskRounds: 1, diskBytes: 32 << 20, channelRounds: 1,
		channelBytes: 12 << 20, archiveRounds: 1, archiveBytes: 24 << 20,
	},
}

// brokerShare is which part of the bytes RabbitMQ is given, which is slower.
const brokerShare = 4

// sizes of messages in bytes.
var sizes = []int{3000, 5000, 12000, 70000, 200000}

// options of the program.
type options struct {
	extent, out, memory, disk, only string
}

func main() {
	var o options
	flag.StringVar(&o.extent, "extent", "full", "how much is measured: full, or quick for a look that is no result")
	flag.StringVar(
		&o.out, "out", "",
		"the directory for queue.md and queue.svg (default: docs/results; dist/bench when quick or with -only)",
	)
	flag.StringVar(
		&o.memory, "dir", "/dev/shm", "where contenders keep messages when the disk is not to be the limit: on tmpfs",
	)
	flag.StringVar(&o.disk, "disk", "/var/tmp", "where the file of the limited disk is made, of 1 GiB: not on tmpfs")
	flag.StringVar(&o.only, "only", "", "measure one part alone: memory, broker, disk, channel or archive")
	contender := flag.String("serve", "", "internal: be a contender that keeps its files in -dir")
	way := flag.String(
		"archive", "", "internal: archive -messages (their size, x, their number) in -dir, and restore them",
	)
	load := flag.String("messages", "", "internal: see -archive")
	role := flag.String("end", "", "internal: be an end of a channel with the files in -dir, or the gateway")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case *contender != "":
		err = serve(ctx, *contender, o.memory)
	case *way != "":
		err = serveArchive(ctx, *way, o.memory, *load)
	case *role != "":
		err = serveEnd(ctx, *role, o.memory)
	default:
		if err = bench(ctx, o); ctx.Err() != nil {
			err = errors.New("interrupted; nothing was written")
		}
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The parts.
const (
	memoryPart  = "memory"
	brokerPart  = "broker"
	diskPart    = "disk"
	channelPart = "channel"
	archivePart = "archive"
)

// results of all parts.
type results struct {
	// load of the machine when it began.
	load   float64
	memory []turn // with RabbitMQ's
	disk   []turn
	// diskSpeed in bytes a second, as it was measured.
	diskSpeed float64
	journeys  []journey
	archives  []archived
	// missing says of what was not run why it was not.
	missing []string
}

func bench(ctx context.Context, o options) error {
	e, ok := extents[o.extent]
	if !ok {
		return fmt.Errorf("unknown extent %q: use full or quick", o.extent)
	}
	if o.out == "" {
		o.out = "dist/bench"
		if e.name == "full" && o.only == "" {
			o.out = "docs/results"
		}
	}
	var got results
	got.load = loadNow()
	begin := time.Now()
	for _, part := range []struct {
		name string
		run  func(context.Context, extent, options, *results) error
	}{{memoryPart, inMemory}, {diskPart, onDisk}, {channelPart, overChannels}, {archivePart, inArchives}} {
		if o.only != "" && o.only != part.name && (o.only != brokerPart || part.name != memoryPart) {
			continue
		}
		if err := part.run(ctx, e, o, &got); err != nil {
			return err
		}
	}
	r, err := newReport(e, got, time.Since(begin))
	if err != nil {
		return err
	}
	if err := r.write(o.out); err != nil {
		return err
	}
	for _, t := range r.Targets {
		fmt.Println(t.Line())
	}
	for _, missing := range r.Missing {
		fmt.Println("not run:", missing)
	}
	return nil
}

// inMemory measures with files on tmpfs.
func inMemory(ctx context.Context, e extent, o options, got *results) error {
	brokers := o.only != memoryPart
	for round := range e.rounds {
		for _, size := range sizes {
			for i := range contenders {
				// Nobody is always first.
				name := contenders[(i+round)%len(contenders)]
				if o.only == brokerPart && name != s2 {
					continue
				}
				t, err := one(ctx, name, size, e.bytes, o.memory, nil)
				if err != nil {
					return err
				}
				got.memory = append(got.memory, t)
			}
		}
		if !brokers {
			continue
		}
		turns, err := brokered(ctx, e.bytes/brokerShare, o.memory)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			// It is not ours to make it run.
			brokers = false
			got.missing = append(got.missing, err.Error())
		}
		got.memory = append(got.memory, turns...)
	}
	return nil
}

// brokered measures RabbitMQ, which takes long to start, with messages of all sizes.
func brokered(ctx context.Context, total int, directory string) ([]turn, error) {
	r, err := startRabbit(ctx, directory)
	if err != nil {
		return nil, err
	}
	var turns []turn
	for _, size := range sizes {
		if err = findPages(directory, 2*total); err != nil {
			break
		}
		var t turn
		if t, err = run(ctx, r, broker, size, total, between{}); err != nil {
			break
		}
		turns = append(turns, t)
	}
	return turns, errors.Join(err, r.stop())
}

// onDisk measures with files on a disk with a limited speed.
func onDisk(ctx context.Context, e extent, o options, got *results) (err error) {
	d, err := openDisk(ctx, o.disk)
	if err != nil {
		if ctx.Err() == nil {
			got.missing = append(got.missing, "a disk with a limited speed: "+err.Error())
			err = nil
		}
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	got.diskSpeed = d.measured
	for round := range e.diskRounds {
		for _, size := range sizes {
			for i := range contenders {
				t, err := one(ctx, contenders[(i+round)%len(contenders)], size, e.diskBytes, d.directory, d)
				if err != nil {
					return err
				}
				got.disk = append(got.disk, t)
			}
		}
	}
	return nil
}

// one is the turn of a contender, which begins without messages. On a disk it counts
// when everything is there, and messages are got by another process, for which what it
// read when it started was taken out of memory again.
func one(ctx context.Context, name string, size, total int, directory string, d *disk) (turn, error) {
	r, err := start(ctx, name, directory)
	if err != nil {
		return turn{}, err
	}
	var b between
	if d == nil {
		// For the messages, and for about as much beside them.
		err = findPages(directory, 2*total)
	} else {
		b = between{settle: d.sync, chill: func() error { return errors.Join(r.end(), r.start(ctx), d.forget()) }}
	}
	var t turn
	if err == nil {
		t, err = run(ctx, r, name, size, total, b)
	}
	return t, errors.Join(err, r.stop())
}

// loadNow is what else the machine was doing, as its load.
func loadNow() float64 {
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}
