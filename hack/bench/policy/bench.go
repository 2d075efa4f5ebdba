// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy measures what mode Auto loses against the best fixed choice: agents, one of which sends a kind of data
// over a network of a speed, by Auto with each objective and by each codec and level for everything. What is sent are
// the blocks of Transfers, the messages that a Queue's channel sends to another Queue, and the bodies of an
// HTTPEndpoint.
//
// Both sides are processes of their own in network namespaces of their own (ltgb-a, ltgb-b), joined by a pair of
// virtual interfaces that a token bucket holds to the speed. Those of Transfers run on one core each, or on two that
// they share, all others on two.
package policy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

const (
	benchmark   = "policy"
	sendRole    = "send"
	receiveRole = "receive"
	proxyRole   = "proxy"
	clientRole  = "client"
	// prefix of the addresses of sender and receiver.
	prefix = "10.231.7."
)

// Benchmark is this one.
func Benchmark() harness.Benchmark {
	only, keep, each := "", false, false
	return harness.Benchmark{
		Name: benchmark, About: "what mode Auto loses against the best fixed choice; needs root and 5 GiB of memory",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&only, "only", "", "measure a part alone: transfers, messages or bodies, one network (10, 100, 1000, 0 "+
				"for unlimited Mbit/s), one kind of data, or all of these (messages/100/XML); no result is written but with -merge")
			f.BoolVar(&keep, "merge", false, "put what -only measures in the place of what the results had of it")
			f.BoolVar(&each, "each", false, "print what every contender took of each cell, too")
		},
		Run: func(ctx context.Context, r *harness.Run) error {
			g := fullGrid
			if r.Quick {
				g = quickGrid
			}
			g, err := g.only(only)
			if err != nil {
				return err
			}
			if runtime.NumCPU() < 2 {
				return errors.New("two cores are needed: one for each side")
			}
			r.Partial = only != "" && !keep
			rows, err := inMemory(func(work string) ([]row, error) { return g.measure(ctx, work, each) })
			if err != nil {
				return err
			}
			_, err = publish(ctx, r, rows, keep)
			return err
		},
		Roles: map[string]func(context.Context, []string) error{
			sendRole:    func(ctx context.Context, args []string) error { return serve(ctx, newSender, args[0]) },
			receiveRole: func(ctx context.Context, args []string) error { return serve(ctx, newReceiver, args[0]) },
			proxyRole:   func(ctx context.Context, args []string) error { return serveProxy(ctx, args[0]) },
			clientRole:  func(ctx context.Context, _ []string) error { return serveClient(ctx) },
		},
	}
}

// inMemory runs with a directory in memory in large pages: with small ones, what a run takes is mostly what the machine
// takes to find them.
func inMemory(run func(work string) ([]row, error)) (rows []row, err error) {
	work, err := os.MkdirTemp("/dev/shm", "lighterage-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory in memory: %w", err)
	}
	defer os.RemoveAll(work)
	if err := syscall.Mount("lighterage-bench", work, "tmpfs", 0, "size=4g,huge=always"); err != nil {
		return nil, fmt.Errorf("mount a tmpfs (this needs root): %w", err)
	}
	defer func() { err = errors.Join(err, syscall.Unmount(work, syscall.MNT_DETACH)) }()
	return run(work)
}

// bed is where the contenders of a section run.
type bed interface {
	// over readies for cells over the network, which has the speed by now.
	over(ctx context.Context, link speed) error
	// ready readies for a cell, by runs that count for nobody.
	ready(ctx context.Context, c *cell) error
	// run has one of its contenders move all bytes of a cell.
	run(ctx context.Context, c *cell, one *contender) (outcome, error)
	close() error
}

// beds by what they are for.
var beds = map[part]func(ctx context.Context, link *network.Pair, work string, s section, cores int) (bed, error){
	transfers: startPair, messages: openChannels, bodies: openProxies,
}

// measure measures all cells of a grid.
func (g grid) measure(ctx context.Context, work string, each bool) (rows []row, err error) {
	link, err := network.New(ctx, "ltgb", prefix)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, link.Close()) }() //nolint:contextcheck // also when the context has ended
	for _, s := range g {
		for _, cores := range s.cores {
			bed, err := beds[s.part](ctx, link, filepath.Join(work, string(s.part)), s, cores)
			if err != nil {
				return nil, fmt.Errorf("ready for %s: %w", s.part, err)
			}
			measured, err := s.measure(ctx, bed, link, cores, each)
			if err := errors.Join(err, bed.close()); err != nil {
				return nil, fmt.Errorf("measure %s: %w", s.part, err)
			}
			rows = append(rows, measured...)
		}
	}
	return rows, nil
}

func (s section) measure(
	ctx context.Context, bed bed, net *network.Pair, cores int, each bool,
) (rows []row, err error) {
	for _, link := range s.links {
		if !measured(link, cores) {
			continue
		}
		if err := net.Limit(ctx, int(link)); err != nil {
			return nil, err
		}
		if err := bed.over(ctx, link); err != nil {
			return nil, err
		}
		for _, unit := range s.units {
			for _, k := range s.kinds {
				c := s.cell(link, k, cores, unit)
				if err := bed.ready(ctx, &c); err != nil {
					return nil, fmt.Errorf("%s over %s: %w", k.shown, link, err)
				}
				run := func(one *contender) (outcome, error) { return bed.run(ctx, &c, one) }
				if err := c.take(ctx, s.limits, run); err != nil {
					return nil, err
				}
				harness.Log("%s", &c)
				if each {
					harness.Log("%s", c.each())
				}
				rows = append(rows, c.rows(time.Now())...)
			}
		}
	}
	return rows, nil
}

// publish writes what was measured, beside what was measured before if only a part was.
func publish(ctx context.Context, r *harness.Run, rows []row, part bool) ([]row, error) {
	w, err := week(weekJobs, 1)
	if err != nil {
		return nil, err
	}
	if !r.IsResult() {
		return rows, r.Publish(ctx, report(rows, w))
	}
	if part {
		before, err := readRows(r.Directory())
		if err != nil {
			return nil, err
		}
		rows = merge(before, rows)
	}
	if err := keepRows(r.Directory(), rows); err != nil {
		return nil, err
	}
	if missing := fullGrid.rows() - len(rows); missing > 0 {
		harness.Log("%d rows are not measured yet: the report is written when all are", missing)
		harness.PrintTargets(targets(rows))
		return rows, nil
	}
	return rows, r.Publish(ctx, report(rows, w))
}
