// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wan measures moving trees over links: a long one, with delay and loss of packets, and in a benchmark of
// their own short ones. Our agents are beside rsync through stunnel, which is how VolSync moves data, and over ssh,
// rclone over SFTP, and tar through TLS, in one run.
package wan

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/movers"
	"github.com/lighterage/lighterage/hack/bench/network"
	"github.com/lighterage/lighterage/hack/bench/transfer"
	"github.com/lighterage/lighterage/hack/bench/trees"
)

const (
	wideName, linksName = "wan", "links"
	// linkMbits and linkRTT are those of the long link.
	linkMbits, linkRTT = 200, 100 * time.Millisecond
	// longRuns are made of each contender over the long link, which sets the pace, so that runs differ little; shortRuns
	// over the others.
	longRuns, shortRuns = 5, 11
)

type options struct {
	// name of the benchmark, template of its report, and what it measures.
	name, template string
	cells          func(quick bool) []cell
	// contenders of it; runs are made of each.
	contenders []contender

	agent, rclone, work, only string
	runs                      int
}

// Benchmark is that of a long link.
func Benchmark() harness.Benchmark {
	o := &options{
		name: wideName, template: wideTemplate, cells: wideCells, contenders: contenders(ours, viaStunnel, viaTLS, viaSFTP),
		runs: longRuns,
	}
	return o.benchmark("moving trees over a long link beside rsync, rclone and tar; needs root and /dev/net/tun")
}

// Links is the benchmark of links without delay.
func Links() harness.Benchmark {
	o := &options{
		name: linksName, template: linksTemplate, cells: shortCells,
		contenders: contenders(ours, oursHigh, viaStunnel, viaSSH, viaSFTP, viaTLS), runs: shortRuns,
	}
	return o.benchmark("moving a tree over links without delay beside rsync, rclone and tar; needs root")
}

func (o *options) benchmark(about string) harness.Benchmark {
	return harness.Benchmark{
		Name: o.name, About: about,
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&o.agent, "agent", "bin/agent", "the agent's binary")
			f.StringVar(&o.rclone, "rclone", os.Getenv("LIGHTERAGE_RCLONE"), "rclone's binary")
			f.StringVar(&o.work, "work", "/dev/shm", "where trees and destinations are, in a directory of their own")
			f.StringVar(&o.only, "only", "", "measure one cell alone, by its name")
		},
		Run:   o.run,
		Roles: map[string]func(context.Context, []string) error{transfer.GatewayRole: transfer.ServeGateway},
	}
}

// cell is a tree and a path.
type cell struct {
	name, about string
	// mbits is the speed of a link without delay; 0: it is the long one, with a share of packets that it loses.
	mbits int
	loss  float64
	make  func(root string) error
	// without are contenders that are left out.
	without []string
}

// wideCells are a long link that loses nothing, one that loses packets, and many files over it.
func wideCells(quick bool) []cell {
	long, lossy, small := 256, 8, 20
	if quick {
		long, lossy, small = 64, 4, 2
	}
	return []cell{
		{
			name: "long", about: fmt.Sprintf("4 files of noise, %d MiB together", long),
			make: func(root string) error { return noise(root, 4, long<<20/4) },
		},
		{
			name: "lossy", about: fmt.Sprintf("4 files of noise, %d MiB together, and 1 %% of all packets is lost", lossy),
			loss: 0.01,
			make: func(root string) error { return noise(root, 4, lossy<<20/4) },
		},
		{
			name: "small", about: fmt.Sprintf("%d files of 4 KiB of JSON", small*1000),
			make: func(root string) error { return trees.Small(root, small) },
			// SFTP has several requests for each file, 16 files at once: it takes minutes for 2,000 of them.
			without: []string{viaSFTP},
		},
	}
}

func shortCells(bool) []cell {
	return []cell{
		{name: "hundred", about: fmt.Sprintf(short, 100), mbits: 100, make: trees.Deep},
		{name: "gigabit", about: fmt.Sprintf(short, 1000), mbits: 1000, make: trees.Deep},
	}
}

// short says what cells with short links are.
const short = "3,000 files of mixed kinds and sizes, half of them small ones in a deep tree, over a link of %d Mbit/s " +
	"without delay"

// speed of the link in Mbit/s.
func (c cell) speed() int { return cmp.Or(c.mbits, linkMbits) }

// link is one that a contender has for a turn. String says what passed.
type link interface {
	fmt.Stringer
	// Sent is how many bytes went to the receiver.
	Sent(ctx context.Context) (int64, error)
	pair() *network.Pair
	Close() error
}

// wideLink and shortLink are the two kinds.
type (
	wideLink  struct{ *network.Wide }
	shortLink struct {
		*network.Pair
		mbits int
	}
)

func (l wideLink) pair() *network.Pair { return &l.Pair }

func (d shortLink) pair() *network.Pair { return d.Pair }

// String implements link.
func (d shortLink) String() string { return fmt.Sprintf("%d Mbit/s", d.mbits) }

func (c cell) link(ctx context.Context) (link, error) {
	const space, prefix = "ltgw", "10.231.11."
	if c.mbits == 0 {
		wide, err := network.NewWide(ctx, space, prefix, network.Path{Mbits: linkMbits, RTT: linkRTT, Loss: c.loss})
		return wideLink{wide}, err
	}
	pair, err := network.New(ctx, space, prefix)
	if err != nil {
		return nil, err
	}
	if err := pair.Limit(ctx, c.mbits); err != nil {
		return nil, errors.Join(err, pair.Close()) //nolint:contextcheck // also when the context has ended
	}
	return shortLink{pair, c.mbits}, nil
}

// noise makes files that nothing compresses.
func noise(root string, files, size int) error {
	data := make([]byte, files*size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return trees.Cut(data, size, root, "%d")
}

// measured is a cell with what its contenders took.
type measured struct {
	cell
	tree    trees.Size
	results []result
}

// result is the runs of a contender.
type result struct {
	name    string
	samples []sample
}

// sample is one run. CPU is that of the whole system, all that is not idle. sent are bytes on the link.
type sample struct {
	wall, cpu time.Duration
	sent      int64
}

func (o *options) run(ctx context.Context, r *harness.Run) (err error) {
	for _, path := range []*string{&o.agent, &o.rclone} {
		if *path == "" {
			return errors.New("programs are missing; run make bench-wan")
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find a program: %w", err)
		}
	}
	if o.work, err = os.MkdirTemp(o.work, "lighterage-bench-"); err != nil {
		return fmt.Errorf("make a directory for trees: %w", err)
	}
	defer os.RemoveAll(o.work)
	r.Partial = o.only != ""
	if r.Quick {
		o.runs = 1
	}
	if !movers.HasSSHD() {
		harness.Log("%s is missing: without %s and %s this is no result", movers.SSHD, viaSFTP, viaSSH)
		r.Partial = true
	}
	var all []measured
	for _, c := range o.cells(r.Quick) {
		if o.only != "" && o.only != c.name {
			continue
		}
		m, err := o.measure(ctx, r, c)
		if err != nil {
			return fmt.Errorf("cell %s: %w", c.name, err)
		}
		fmt.Printf("\n%s: %s\n\n%s\n", c.name, c.about, m)
		all = append(all, m)
	}
	if len(all) == 0 {
		return fmt.Errorf("there is no cell %q", o.only)
	}
	return r.Publish(ctx, o.report(ctx, all))
}

// measure has every contender take turns with a cell.
func (o *options) measure(ctx context.Context, r *harness.Run, c cell) (m measured, err error) {
	source := filepath.Join(o.work, c.name)
	defer os.RemoveAll(source)
	if err := c.make(source); err != nil {
		return m, fmt.Errorf("make the tree: %w", err)
	}
	m.cell = c
	if m.tree, err = trees.Measure(source); err != nil {
		return m, err
	}
	contenders := slices.DeleteFunc(slices.Clone(o.contenders), func(one contender) bool {
		return slices.Contains(c.without, one.name)
	})
	for _, one := range contenders {
		m.results = append(m.results, result{name: one.name})
	}
	err = r.Rounds(o.runs, func(round int) error {
		for _, i := range harness.Order(round, len(contenders)) {
			one := contenders[i]
			got, err := harness.Undisturbed(one.name, func() (sample, error) {
				return o.turn(ctx, c, one, round, source, m.tree)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			m.results[i].samples = append(m.results[i].samples, got)
		}
		return nil
	})
	return m, err
}

// turn has a contender move the tree once, over a link of its own, and compares what arrived.
func (o *options) turn(
	ctx context.Context, c cell, one contender, round int, source string, want trees.Size,
) (s sample, err error) {
	dir, err := os.MkdirTemp(o.work, "run-")
	if err != nil {
		return s, fmt.Errorf("make a directory for a run: %w", err)
	}
	defer os.RemoveAll(dir)
	destination := filepath.Join(dir, "destination")
	if err := os.Mkdir(destination, 0o755); err != nil {
		return s, fmt.Errorf("make the destination: %w", err)
	}
	link, err := c.link(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, link.Close()) }() //nolint:contextcheck // also when the context has ended
	ctx, cancel := context.WithCancel(ctx)
	var served []*harness.Process
	defer func() {
		cancel()
		for _, p := range served {
			<-p.Ended() // before its namespace goes
		}
	}()
	way := way{link: link.pair(), dir: dir, source: source, destination: destination, served: &served}
	move, err := one.setUp(ctx, o, way)
	if err != nil {
		return s, err
	}
	busy, _, err := harness.SystemCPU()
	if err != nil {
		return s, err
	}
	begun := time.Now()
	if err := move(ctx); err != nil {
		return s, err
	}
	s.wall = time.Since(begun)
	after, _, err := harness.SystemCPU()
	if err != nil {
		return s, err
	}
	s.cpu = after - busy
	if s.sent, err = link.Sent(ctx); err != nil {
		return s, err
	}
	harness.Log("%s, run %d: %s: %.2f s; %s", c.name, round+1, one.name, s.wall.Seconds(), link)
	got, err := trees.Measure(destination)
	if err == nil && (got.Files != want.Files || got.Bytes != want.Bytes) {
		err = fmt.Errorf("the destination has %+v, the source %+v", got, want)
	}
	return s, err
}
