// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"bufio"
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// idleConnections are open at once while nothing happens on them, for so long.
	idleConnections = 10000
	idleFor         = 20 * time.Second
	// sampleInterval is how often the memory is looked at.
	sampleInterval = 5 * time.Second
	// longest is how long there is load, and shortest the least.
	longest, shortest = 10 * time.Minute, 5 * time.Second
)

//go:embed long.md.tmpl
var longText string

// long is what takes long: the agent's memory under load for a time, and with many
// connections that are idle.
type long struct {
	*bench
	before  int64   // bytes, before anything was asked
	loaded  []int64 // while there is load
	rate    float64 // requests by second
	idle    int64   // with idle connections
	settled int64   // when they are closed
}

// Long measures the agent's memory in the long run.
func Long() harness.Benchmark {
	agent, hold := "", longest
	return harness.Benchmark{
		Name: name + "-long", About: "the memory of the agent in mode http under load, and with idle connections",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&agent, "agent", "bin/agent", "the agent to measure")
			f.DurationVar(&hold, "hold", longest, "how long there is load")
		},
		Run: func(ctx context.Context, r *harness.Run) error {
			if r.Quick {
				hold = shortest
			}
			r.Partial = hold < longest
			l := &long{bench: &bench{extent: extent{hold: max(hold, shortest)}}}
			defer l.close()
			if err := l.startBackend(ctx); err != nil {
				return err
			}
			if err := l.begin(ctx, ourName, "gzip", &l.all, func(ctx context.Context, c *contender) error {
				return l.agent(ctx, c, agent)
			}); err != nil {
				return err
			}
			if err := l.check(ctx); err != nil {
				return err
			}
			if err := l.measureLong(ctx, l.all[0]); err != nil {
				return err
			}
			return r.Publish(ctx, l.report(ctx))
		},
	}
}

func (l *long) measureLong(ctx context.Context, c *contender) (err error) {
	if l.before, err = c.Group().Memory(); err != nil {
		return err
	}
	harness.Log("%d connections for %v", manyConnections, l.hold)
	if l.rate, l.loaded, err = l.underLoad(ctx, c, l.hold, min(sampleInterval, l.hold/20)); err != nil {
		return fmt.Errorf("%d connections: %w", manyConnections, err)
	}
	harness.Log("%d idle connections", idleConnections)
	if err := l.holdIdle(ctx, c); err != nil {
		return fmt.Errorf("%d idle connections: %w", idleConnections, err)
	}
	l.settled, err = c.Group().Memory()
	return err
}

// holdIdle opens connections, asks once on each, lets all of them be, and asks again: none
// may have been lost.
func (l *long) holdIdle(ctx context.Context, c *contender) error {
	open := make([]*tls.Conn, idleConnections)
	defer func() {
		for _, conn := range open {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	dialer := &tls.Dialer{
		Config: &tls.Config{InsecureSkipVerify: true},
	} //nolint:gosec // The certificate was made for this run.
	each := func(do func(i int) error) error {
		var group errgroup.Group
		group.SetLimit(8)
		for i := range open {
			group.Go(func() error {
				if err := do(i); err != nil {
					return fmt.Errorf("connection %d: %w", i, err)
				}
				return nil
			})
		}
		return group.Wait()
	}
	ask := func(i int) error {
		if _, err := fmt.Fprint(open[i], "GET /xml/3000 HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"); err != nil {
			return err
		}
		res, err := http.ReadResponse(bufio.NewReader(open[i]), nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	}
	if err := each(func(i int) error {
		conn, err := dialer.DialContext(ctx, "tcp", c.address)
		if err != nil {
			return err
		}
		open[i] = conn.(*tls.Conn)
		return ask(i)
	}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleFor):
	}
	var err error
	if l.idle, err = c.Group().Memory(); err != nil {
		return err
	}
	return each(ask)
}

// longTargets judges. What the first tenth of the time holds is not compared: it is the
// time in which connections and buffers are made.
func (l *long) longTargets() []harness.Target {
	rest := l.loaded[len(l.loaded)/10:]
	third := len(rest) / 3
	return []harness.Target{
		memoryTarget(l.loaded, fmt.Sprintf("in %v with %d connections", l.hold, manyConnections)),
		{
			Name: "memory-flat", Measured: harness.Exactly(mean(rest[len(rest)-third:]) / mean(rest[:third])), Bound: 1.05,
			Digits: 2, What: "mean memory of the last third of that time by that of the first",
		},
	}
}

// report is http-long.md.
func (l *long) report(ctx context.Context) harness.Report {
	var rows [][]string
	// The time in twenty parts.
	for i := range 20 {
		if part := l.loaded[i*len(l.loaded)/20 : (i+1)*len(l.loaded)/20]; len(part) > 0 {
			rows = append(rows, []string{
				(l.hold * time.Duration(i+1) / 20).String(), mib(int64(mean(part))), mib(slices.Max(part)),
			})
		}
	}
	return harness.Report{
		Name: "http-long", Template: longText, Targets: l.longTargets(), Versions: versions(ctx), Data: map[string]any{
			"Hold": l.hold, "Many": manyConnections, "Rate": harness.Grouped(l.rate),
			"Course": harness.Table([]string{"until", "mean, MiB", "most, MiB"}, rows),
			"Begin":  mib(l.before), "Idle": mib(l.idle), "Settled": mib(l.settled),
			"IdleConnections": harness.Grouped(idleConnections), "IdleFor": idleFor,
			"Each": fmt.Sprintf("%.1f", float64(l.idle-l.before)/idleConnections/1024),
		},
	}
}

func mib(n int64) string { return fmt.Sprintf("%.0f", float64(n)/(1<<20)) }
