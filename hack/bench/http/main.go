// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command http measures the agent in mode http beside nginx, HAProxy and Caddy as
// reverse proxies that speak TLS 1.3 to clients and plain HTTP to the same backend,
// with and without compression, on loopback.
//
// Contenders take turns, so that noise hits all of them alike; medians of the rounds
// count. It writes http.md and http.svg, or for extent long http-long.md, and ends with a
// line for each target.
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
	turn   time.Duration // of load on one contender
	sizes  []int
	json   []int // sizes of which JSON is measured too
	hold   time.Duration
}

var extents = map[string]extent{
	"full": {
		name: "full", rounds: 3, turn: 2 * time.Second, hold: 40 * time.Second,
		sizes: []int{3000, 5000, 12000, 20000, 40000, 64000, 128000, 240000}, json: []int{20000, 128000},
	},
	"quick": {
		name: "quick", rounds: 1, turn: time.Second, hold: 5 * time.Second, sizes: []int{5000, 20000, 64000, 240000},
	},
}

func main() {
	name := flag.String(
		"extent", "full",
		"how much is measured: full, quick for a look that is no result, or long for the agent's memory in the long run",
	)
	out := flag.String(
		"out", "",
		"the directory for http.md and http.svg, or http-long.md (default: docs/results; dist/bench when quick or not that "+
			"long)",
	)
	hold := flag.Duration("hold", longest, "how long there is load when the extent is long")
	agent := flag.String("agent", "bin/agent", "the agent to measure")
	caddy := flag.String("caddy", "", "the program caddy")
	backend := flag.String("backend", "", "internal: be the backend on this address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case *backend != "":
		err = serveBackend(ctx, *backend)
	case *name == "long":
		err = runLong(ctx, directory(*out, *hold >= longest), *agent, max(*hold, shortest))
	default:
		err = run(ctx, *name, *out, *agent, *caddy)
	}
	if *backend == "" && ctx.Err() != nil {
		err = errors.New("interrupted; nothing was written")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// How long there is load when the extent is long: what counts, and the least.
const longest, shortest = 10 * time.Minute, 5 * time.Second

// directory is where results go if nothing else is said.
func directory(out string, result bool) string {
	switch {
	case out != "":
		return out
	case result:
		return "docs/results"
	default:
		return "dist/bench"
	}
}

func run(ctx context.Context, name, out, agent, caddy string) error {
	e, ok := extents[name]
	if !ok {
		return fmt.Errorf("unknown extent %q: use full, quick or long", name)
	}
	out = directory(out, e.name == "full")
	begin := time.Now()
	b := &bench{extent: e, load: loadNow()}
	defer b.close()
	if err := b.start(ctx, agent, caddy); err != nil {
		return err
	}
	if err := b.measure(ctx); err != nil {
		return err
	}
	r := newReport(b, time.Since(begin))
	if err := r.write(ctx, out); err != nil {
		return err
	}
	for _, t := range r.targets {
		fmt.Println(t.line())
	}
	return nil
}
