// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package object measures what moving a tree of files into an object store and out of it costs: our agent beside rclone
// and restic, with versitygw over TLS, in one run.
//
// Trees, objects and what is restored are in memory. The bucket has nothing of the contender when its turn begins.
package object

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
	"github.com/lighterage/lighterage/hack/bench/trees"
)

type options struct {
	agent, versitygw, rclone, restic string
	work, only                       string
	// runs of each contender over loopback, and rounds of cells that take minutes.
	runs, longRuns int
	// size of the demo's tree in MiB, and directories of 1,000 files.
	size, directories int
}

// linkMbits is the speed of the limited link.
const linkMbits = 100

// Benchmark measures speed.
func Benchmark() harness.Benchmark {
	o := &options{}
	return harness.Benchmark{
		Name:  "object",
		About: "moving trees through an object store beside rclone and restic; needs about 8 GiB of memory in -work",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&o.agent, "agent", "bin/agent", "the agent's binary")
			// hack/objectstores.sh says where they are.
			f.StringVar(&o.versitygw, "versitygw", os.Getenv("LIGHTERAGE_VERSITYGW"), "the server's binary")
			f.StringVar(&o.rclone, "rclone", os.Getenv("LIGHTERAGE_RCLONE"), "rclone's binary")
			f.StringVar(&o.restic, "restic", os.Getenv("LIGHTERAGE_RESTIC"), "restic's binary")
			f.StringVar(&o.work, "work", "/dev/shm", "where trees and objects are, in a directory of their own")
			f.StringVar(&o.only, "only", "", "measure one cell alone: demo, small, link or storage")
			f.IntVar(&o.runs, "runs", 5, "runs of each contender with the cells demo and storage")
			f.IntVar(&o.longRuns, "long-runs", 3, "runs of each contender with the cells small and link")
			f.IntVar(&o.size, "size", 1024, "MiB of the demo's tree")
			f.IntVar(&o.directories, "directories", 200, "directories of 1,000 small files each")
		},
		Run: o.run,
	}
}

// cell is a tree and a way to the store.
type cell struct {
	name, about string
	runs        int
	make        func(ctx context.Context, root string) error
	// limited: over the link. What is restored crosses it without a limit then, and is not shown.
	limited bool
}

func (o *options) cells() []cell {
	demo := func(ctx context.Context, root string) error { return trees.Demo(ctx, root, o.size) }
	return []cell{
		{name: "demo", about: "the tree of the demo over loopback", runs: o.runs, make: demo},
		{
			name: "small", about: fmt.Sprintf("%d files of 4 KiB of JSON over loopback", o.directories*1000), runs: o.longRuns,
			make: func(_ context.Context, root string) error { return trees.Small(root, o.directories) },
		},
		{
			name: "link", about: fmt.Sprintf("the tree of the demo over a link of %d Mbit/s", linkMbits), runs: o.longRuns,
			make: demo, limited: true,
		},
	}
}

// measured is a cell with what its contenders took.
type measured struct {
	cell
	tree    trees.Size
	results []result
}

// result is the turns of a contender.
type result struct {
	name    string
	samples []sample
}

// sample is one turn.
type sample struct {
	store, restore taken
	// stored is how many bytes the objects have.
	stored int64
}

// taken is what one direction took: the CPU time of the client, and that of the whole system, all that is not idle.
type taken struct {
	wall, client, system time.Duration
	// wire is how many bytes crossed the limited link; 0 where there is none.
	wire int64
}

func (o *options) run(ctx context.Context, r *harness.Run) (err error) {
	for _, path := range []*string{&o.agent, &o.versitygw, &o.rclone, &o.restic} {
		if *path == "" {
			return errors.New("programs are missing; run make bench-object")
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find a program: %w", err)
		}
	}
	if o.work, err = os.MkdirTemp(o.work, "lighterage-bench-"); err != nil {
		return fmt.Errorf("make a directory for trees: %w", err)
	}
	defer os.RemoveAll(o.work)
	if r.Quick {
		o.runs, o.longRuns, o.size, o.directories = 1, 1, min(o.size, 64), min(o.directories, 5)
	}
	r.Partial = o.only != ""
	var all []measured
	for _, c := range o.cells() {
		if o.only != "" && o.only != c.name {
			continue
		}
		m, err := o.measure(ctx, r, c)
		if err != nil {
			return fmt.Errorf("cell %s: %w", c.name, err)
		}
		fmt.Printf("\n%s\n", m)
		all = append(all, m)
	}
	var beside *storage
	if o.only == "" || o.only == storageCell {
		if beside, err = o.storage(ctx, r); err != nil {
			return fmt.Errorf("cell %s: %w", storageCell, err)
		}
		fmt.Printf("\n%s\n", beside)
	}
	if len(all) == 0 && beside == nil {
		return fmt.Errorf("there is no cell %q", o.only)
	}
	return r.Publish(ctx, o.report(all, beside))
}

// measure has every contender take turns with a cell.
func (o *options) measure(ctx context.Context, r *harness.Run, c cell) (m measured, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var link *network.Pair
	if c.limited {
		if link, err = network.New(ctx, "ltgo", "10.231.9."); err != nil {
			return m, err
		}
		defer func() { err = errors.Join(err, link.Close()) }() //nolint:contextcheck // also when the context has ended
		if err := link.Limit(ctx, linkMbits); err != nil {
			return m, err
		}
	}
	dir := filepath.Join(o.work, c.name)
	defer os.RemoveAll(dir)
	s, err := startServer(ctx, o.versitygw, dir, link)
	if err != nil {
		return m, err
	}
	defer s.process.Stop(time.Second)
	source := filepath.Join(dir, "source")
	if err := c.make(ctx, source); err != nil {
		return m, fmt.Errorf("make the tree: %w", err)
	}
	m.cell = c
	if m.tree, err = trees.Measure(source); err != nil {
		return m, err
	}
	contenders := o.contenders()
	for _, one := range contenders {
		m.results = append(m.results, result{name: one.name})
	}
	err = r.Rounds(c.runs, func(round int) error {
		for _, i := range harness.Order(round, len(contenders)) {
			one := contenders[i]
			got, err := s.turn(ctx, one, source, m.tree)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			harness.Log("%s, run %d: %s: stored in %.2f s, restored in %.2f s", c.name, round+1, one.name,
				got.store.wall.Seconds(), got.restore.wall.Seconds())
			m.results[i].samples = append(m.results[i].samples, got)
		}
		return nil
	})
	return m, err
}

// begin makes the directories of a turn, which the function that it returns removes, with the objects.
func (s *server) begin(source string) (t turn, remove func() error, err error) {
	t = turn{
		server: s, source: source, prefix: "turn", dir: filepath.Join(s.dir, "turn"),
		destination: filepath.Join(s.dir, "destination"),
	}
	for _, dir := range []string{t.dir, t.destination} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return t, nil, fmt.Errorf("make a directory: %w", err)
		}
	}
	return t, func() error {
		return errors.Join(os.RemoveAll(t.dir), os.RemoveAll(t.destination), os.RemoveAll(t.objects()))
	}, nil
}

// objects is where the server keeps those of the turn.
func (t turn) objects() string { return filepath.Join(t.server.dir, "objects", bucketName, t.prefix) }

// turn stores a tree in an empty prefix, restores it into an empty directory, and holds what is there against the tree.
func (s *server) turn(ctx context.Context, c contender, source string, want trees.Size) (got sample, err error) {
	t, remove, err := s.begin(source)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if c.prepare != nil {
		if err := c.prepare(ctx, t); err != nil {
			return got, err
		}
	}
	if got.store, err = s.time(ctx, t, c.store); err != nil {
		return got, err
	}
	there, err := trees.Measure(t.objects())
	if err != nil {
		return got, err
	}
	got.stored = there.Bytes
	if got.restore, err = s.time(ctx, t, c.restore); err != nil {
		return got, err
	}
	restored, err := trees.Measure(t.destination)
	if err == nil && restored != want {
		err = fmt.Errorf("restored are %+v of %+v", restored, want)
	}
	return got, err
}

// time runs a client to its end.
func (s *server) time(
	ctx context.Context, t turn, command func(context.Context, turn) (*client, error),
) (taken, error) {
	c, err := command(ctx, t)
	if err != nil {
		return taken{}, err
	}
	before, _, err := harness.SystemCPU()
	if err != nil {
		return taken{}, err
	}
	crossed, err := s.crossed(ctx)
	if err != nil {
		return taken{}, err
	}
	begin := time.Now()
	p, err := harness.Start(c.command(ctx, s))
	if err != nil {
		return taken{}, err
	}
	if err := p.Wait(); err != nil {
		return taken{}, err
	}
	wall := time.Since(begin)
	after, _, err := harness.SystemCPU()
	if err != nil {
		return taken{}, err
	}
	wire, err := s.crossed(ctx)
	state := p.Command.ProcessState
	return taken{
		wall: wall, client: state.UserTime() + state.SystemTime(), system: after - before, wire: wire - crossed,
	}, err
}

// crossed is how many bytes have crossed the limited link; 0 where there is none.
func (s *server) crossed(ctx context.Context) (int64, error) {
	if s.link == nil {
		return 0, nil
	}
	return s.link.Sent(ctx)
}
