// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command scale measures the real manager and gateway in a cluster that is an API server with etcd and a fake fleet:
// agents that answer by TLS and gRPC, and whatever else would act on what the manager makes. It makes so many
// Transfers, of which a fifth run, as many Deliveries, nodes, volumes, Queues, HTTPEndpoints and Peers, and looks at
// what the first pass over all of them takes, what goes on from then on, what a restart takes, and what silent agents
// do to the others.
//
// It writes scale.md and scale.svg and ends with a line for each target.
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

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
)

// extent is how much is measured.
type extent struct {
	name  string
	sizes []int
	// world is what there is beside Transfers and Deliveries, whatever their number.
	world fleet.World
	// steady is for how long is looked on, silent for how long a fifth of the agents says nothing, and quiet for how
	// long there is no manager.
	steady, silent, quiet time.Duration
	// patience with the first pass, and with the manager after a restart.
	patience, restart time.Duration
	// arrivals is how many runs of other clusters are opened at the gateway.
	arrivals int
	// profile is a file for a CPU profile of the manager in the steady state; empty: none, since it takes CPU time
	// itself.
	profile string
}

var extents = map[string]extent{
	"full": {
		name: "full", sizes: []int{500, 2000, 10000},
		world:  fleet.World{Namespaces: 100, Nodes: 1000, Volumes: 10000, Queues: 500, Endpoints: 500, Peers: 50},
		steady: 5 * time.Minute, silent: 2 * time.Minute, quiet: 30 * time.Second, patience: 20 * time.Minute,
		restart: 5 * time.Minute, arrivals: 100,
	},
	"quick": {
		name: "quick", sizes: []int{500},
		world:  fleet.World{Namespaces: 20, Nodes: 100, Volumes: 1000, Queues: 50, Endpoints: 50, Peers: 5},
		steady: 20 * time.Second, silent: 15 * time.Second, quiet: 5 * time.Second, patience: 5 * time.Minute,
		restart: time.Minute, arrivals: 20,
	},
}

func main() {
	name := flag.String("extent", "full", "how much is measured: full, or quick for a look that is no result")
	out := flag.String("out", "",
		"the directory for scale.md and scale.svg (default: docs/results; dist/bench when quick or with -size)")
	size := flag.Int("size", 0, "measure so many Transfers alone")
	profile := flag.String(
		"profile", "",
		"write a CPU profile of the manager in the steady state to this file; what is measured is no result then",
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, *name, *out, *size, *profile)
	if ctx.Err() != nil {
		err = errors.New("interrupted; nothing was written")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, name, out string, size int, profile string) (int, error) {
	e, ok := extents[name]
	if !ok {
		return 0, fmt.Errorf("unknown extent %q: use full or quick", name)
	}
	e.profile = profile
	if out == "" {
		out = "dist/bench"
		if e.name == "full" && size == 0 && profile == "" {
			out = "docs/results"
		}
	}
	if size != 0 {
		e.sizes = []int{size}
	}
	directory, inside := controlplane.Inside()
	if !inside {
		return controlplane.RunInside(ctx)
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := controlplane.Enter(); err != nil {
		return 0, err
	}
	return 0, bench(ctx, e, directory, out)
}

func bench(ctx context.Context, e extent, directory, out string) error {
	begun, load := time.Now(), loadNow()
	var all []result
	versions := ""
	for _, size := range e.sizes {
		world := e.world
		world.Transfers = size
		r, err := measure(ctx, e, world, directory)
		if err != nil {
			return fmt.Errorf("%d Transfers: %w", size, err)
		}
		all, versions = append(all, r), r.versions
	}
	r := newReport(e, all, versions, load, time.Since(begun))
	if err := r.write(out); err != nil {
		return err
	}
	for _, t := range r.Targets {
		fmt.Println(t.Line())
	}
	for _, one := range all {
		for _, problem := range one.problems {
			fmt.Printf("%d Transfers: %s\n", one.world.Transfers, problem)
		}
	}
	return nil
}

// say tells how far it has come.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// loadNow is what else the machine was doing, as its load.
func loadNow() float64 {
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}
