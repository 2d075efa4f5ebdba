// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue measures a queue beside plain JetStream, JetStream with S2 store compression and RabbitMQ with a client
// that compresses: each in a process of its own, with one client over loopback that puts XML messages and gets them
// again.
//
// It does so with files in memory, where the processors are the limit, and without RabbitMQ on a disk of its own that a
// control group holds to 50 MB/s. Then it measures channels between two queues in network namespaces of their own,
// joined by a link that a token bucket holds to 100 Mbit/s, how fast and at what cost queues are archived and
// restored, and what is written to disk of messages that stay while a channel is stopped.
package queue

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/disk"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// extent is how much is measured.
type extent struct {
	rounds int
	bytes  int // put in one turn
	// The same for the disk, and for channels that do not compress.
	diskRounds, diskBytes       int
	channelRounds, channelBytes int
	archiveRounds, archiveBytes int
	// stoppedMessages are put in each of stoppedRounds.
	stoppedRounds, stoppedMessages int
	// neighbourBytes are archived beside a neighbour, in diskRounds.
	neighbourBytes int
}

var (
	full = extent{
		rounds: 11, bytes: 240 << 20, diskRounds: 3, diskBytes: 96 << 20, channelRounds: 3,
		channelBytes: 24 << 20, archiveRounds: 3, archiveBytes: 96 << 20, neighbourBytes: 288 << 20, stoppedRounds: 3,
		stoppedMessages: 3000,
	}
	quick = extent{
		rounds: 1, bytes: 60 << 20, diskRounds: 1, diskBytes: 32 << 20, channelRounds: 1,
		channelBytes: 12 << 20, archiveRounds: 1, archiveBytes: 24 << 20, neighbourBytes: 48 << 20, stoppedRounds: 1,
		stoppedMessages: 300,
	}
)

// brokerShare is which part of the bytes RabbitMQ is given, which is slower.
const brokerShare = 4

// sizes of messages in bytes.
var sizes = []int{3000, 5000, 12000, 70000, 200000}

// benchmark is the name of this one, and its roles.
const (
	benchmark   = "queue"
	serveRole   = "serve"
	archiveRole = "archive"
	endRole     = "end"
	clientRole  = "client"
)

// bench is what is measured, and what came of it.
type bench struct {
	*harness.Run
	extent
	results
	// directory is on tmpfs. The file of the limited disk is made in image, which is not.
	directory, image string
	only             string
	// turns replaces the rounds in memory; 0: it does not.
	turns int
	// profiles is the directory for CPU profiles; empty: there are none.
	profiles string
}

// Benchmark is this one.
func Benchmark() harness.Benchmark {
	b := &bench{}
	return harness.Benchmark{
		Name: benchmark, About: "a queue beside JetStream and RabbitMQ, channels, and archives; needs root",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&b.directory, "dir", "/dev/shm",
				"where contenders keep messages when the disk is not to be the limit: on tmpfs")
			f.StringVar(&b.image, "disk", "/var/tmp",
				"where the file of the limited disk is made, of 1 GiB, and messages are while a channel is stopped: not on tmpfs")
			f.StringVar(&b.only, "only", "",
				"measure one part alone: memory, puts (of memory, where there are targets), broker, disk, channel, archive, "+
					"neighbour, stopped or dictionary")
			f.IntVar(&b.turns, "rounds", 0, "rounds in memory, in place of those of the extent")
			f.StringVar(&b.profiles, "profiles", "",
				"write a CPU profile of each turn of a contender with its files in memory into this directory")
		},
		Run: func(ctx context.Context, r *harness.Run) error {
			b.Run, b.extent = r, full
			if r.Quick {
				b.extent = quick
			}
			if b.turns > 0 {
				b.rounds = b.turns
			}
			r.Partial = b.only != "" || b.profiles != "" || b.turns > 0
			return b.run(ctx)
		},
		Roles: map[string]func(context.Context, []string) error{
			serveRole:   func(ctx context.Context, args []string) error { return serve(ctx, args[0], args[1], args[2]) },
			archiveRole: func(ctx context.Context, args []string) error { return serveArchive(ctx, args[0], args[1], args[2]) },
			endRole:     func(ctx context.Context, args []string) error { return serveEnd(ctx, args[0], args[1]) },
			clientRole:  func(ctx context.Context, args []string) error { return serveClient(ctx, args[0], args[1]) },
		},
	}
}

// results of all parts.
type results struct {
	memory []turn // with RabbitMQ's
	disk   []turn
	// diskSpeed in bytes a second, as it was measured.
	diskSpeed float64
	journeys  []journey
	archives  []archived
	// stopped are turns while the channel is.
	stopped []stoppedTurn
	// neighbours of archives.
	neighbours []disturbed
	// referred are rounds of messages with dictionaries.
	referred []referred
	// missing says of what was not run why it was not.
	missing []string
}

func (b *bench) run(ctx context.Context) error {
	var failed []error
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{memoryPart, b.inMemory}, {diskPart, b.onDisk}, {channelPart, b.overChannels}, {archivePart, b.inArchives},
		{neighbourPart, b.besideNeighbour}, {stoppedPart, b.whileStopped},
		{dictionaryPart, b.withDictionaries},
	} {
		if b.only != "" && b.only != part.name &&
			(b.only != brokerPart && b.only != putsPart || part.name != memoryPart) {
			continue
		}
		err := part.run(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			// The other parts took half an hour. What they gave is written, but not as a result.
			err = fmt.Errorf("measure the part %s: %w", part.name, err)
			b.missing, b.Partial, failed = append(b.missing, err.Error()), true, append(failed, err)
		}
	}
	report, err := b.report()
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	return errors.Join(append(failed, b.Publish(ctx, report))...)
}

// The parts.
const (
	memoryPart  = "memory"
	putsPart    = "puts"
	brokerPart  = "broker"
	diskPart    = "disk"
	channelPart = "channel"
	archivePart = "archive"

	neighbourPart = "neighbour"
	stoppedPart   = "stopped"

	dictionaryPart = "dictionary"
)

// inMemory measures with files on tmpfs.
func (b *bench) inMemory(ctx context.Context) error {
	brokers, names := b.only != memoryPart && b.only != putsPart, contenders
	if b.only == brokerPart {
		names = []string{s2}
	}
	return b.Rounds(b.rounds, func(round int) error {
		if err := b.take(ctx, round, names, b.bytes, b.directory, nil, &b.memory); err != nil || !brokers {
			return err
		}
		turns, err := brokered(ctx, b.bytes/brokerShare, b.directory)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			// It is not ours to make it run.
			brokers = false
			b.missing = append(b.missing, err.Error())
		}
		b.memory = append(b.memory, turns...)
		return nil
	})
}

// take has contenders take turns with messages of all sizes.
func (b *bench) take(
	ctx context.Context, round int, names []string, total int, directory string, d *disk.Disk, turns *[]turn,
) error {
	for _, size := range sizes {
		if b.only == putsPart && size < leastTarget {
			continue
		}
		for _, i := range harness.Order(round, len(names)) {
			t, err := harness.Undisturbed(names[i], func() (turn, error) {
				return b.one(ctx, round, names[i], size, total, directory, d)
			})
			if err != nil {
				return err
			}
			*turns = append(*turns, t)
		}
		harness.Log("round %d: messages of %d bytes", round+1, size)
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
		if t, err = harness.Undisturbed(broker, func() (turn, error) {
			return run(ctx, r, broker, size, total, between{})
		}); err != nil {
			break
		}
		turns = append(turns, t)
	}
	return turns, errors.Join(err, r.stop())
}

const (
	// diskSpeed is what the disk is limited to, in bytes a second each way.
	diskSpeed = 50_000_000
	// diskSize in bytes.
	diskSize = 1 << 30
)

// onDisk measures with files on a disk with a limited speed.
func (b *bench) onDisk(ctx context.Context) (err error) {
	d, err := disk.Open(ctx, b.image, diskSize, diskSpeed)
	if err != nil {
		if ctx.Err() == nil {
			b.missing = append(b.missing, "a disk with a limited speed: "+err.Error())
			err = nil
		}
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	b.diskSpeed = d.Measured
	return b.Rounds(b.diskRounds, func(round int) error {
		return b.take(ctx, round, contenders, b.diskBytes, d.Directory, d, &b.disk)
	})
}

// one is the turn of a contender, which begins without messages. On a disk it counts
// when everything is there, and messages are got by another process, for which what it
// read when it started was taken out of memory again.
func (b *bench) one(
	ctx context.Context, round int, name string, size, total int, directory string, d *disk.Disk,
) (turn, error) {
	profile := ""
	if d == nil && b.profiles != "" {
		profile = filepath.Join(b.profiles, fmt.Sprintf("%s-%d-%d.cpu", strings.ReplaceAll(name, ", ", "-"), size, round))
	}
	r, err := start(ctx, name, directory, profile)
	if err != nil {
		return turn{}, err
	}
	order := between{putsAlone: b.only == putsPart}
	if d == nil {
		// For the messages, and for about as much beside them.
		err = findPages(directory, 2*total)
	} else {
		order.settle = d.Sync
		order.chill = func() error { return errors.Join(r.end(), r.start(ctx), d.Forget()) }
	}
	var t turn
	if err == nil {
		t, err = run(ctx, r, name, size, total, order)
	}
	return t, errors.Join(err, r.stop())
}
