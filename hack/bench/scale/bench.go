// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale measures the real manager and gateway in a cluster that is an API server with etcd and a fake fleet:
// agents that answer by TLS and gRPC, and whatever else would act on what the manager makes. It makes so many
// Transfers, of which a fifth run, as many Deliveries, nodes, volumes, Queues, HTTPEndpoints and Peers, and looks at
// what the first pass over all of them takes, what goes on from then on, what a restart takes, and what silent agents
// do to the others. With the most Transfers it does so once more in a world with limits that namespaces share, and
// compares what a run takes there.
package scale

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
)

// extent is how much is measured.
type extent struct {
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
	// profile is a file for a CPU profile of the manager in the steady state, beside which one of its heap is written;
	// empty: none, since they take CPU time themselves.
	profile string
}

var (
	full = extent{
		sizes:  []int{500, 2000, 10000},
		world:  fleet.World{Namespaces: 100, Nodes: 1000, Volumes: 10000, Queues: 500, Endpoints: 500, Peers: 50},
		steady: 5 * time.Minute, silent: 2 * time.Minute, quiet: 30 * time.Second, patience: 20 * time.Minute,
		restart: 5 * time.Minute, arrivals: 100,
	}
	quick = extent{
		sizes:  []int{500},
		world:  fleet.World{Namespaces: 20, Nodes: 100, Volumes: 1000, Queues: 50, Endpoints: 50, Peers: 5},
		steady: 20 * time.Second, silent: 15 * time.Second, quiet: 5 * time.Second, patience: 5 * time.Minute,
		restart: time.Minute, arrivals: 20,
	}
)

// Benchmark is this one.
func Benchmark() harness.Benchmark {
	size, profile := 0, ""
	return harness.Benchmark{
		Name: "scale", About: "the manager and the gateway with up to 10,000 Transfers; needs root or user namespaces",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&size, "size", 0, "measure so many Transfers alone")
			f.StringVar(&profile, "profile", "",
				"write a CPU profile of the manager in the steady state to this file and one of its heap to this file.heap; "+
					"what is measured is no result then")
		},
		Run: func(ctx context.Context, r *harness.Run) error {
			e := full
			if r.Quick {
				e = quick
			}
			e.profile = profile
			r.Partial = size != 0 || profile != ""
			if size != 0 {
				e.sizes = []int{size}
			}
			directory, inside := controlplane.Inside()
			if !inside {
				code, err := controlplane.RunInside(ctx)
				if err == nil && code != 0 {
					return harness.ErrSaid
				}
				return err
			}
			ctrl.SetLogger(logr.Discard())
			klog.SetLogger(logr.Discard())
			if err := controlplane.Enter(); err != nil {
				return err
			}
			return bench(ctx, r, e, directory)
		},
	}
}

func bench(ctx context.Context, run *harness.Run, e extent, directory string) error {
	var all []result
	for i, size := range e.sizes {
		world, parts := e.world, usual
		world.Transfers = size
		if i == len(e.sizes)-1 {
			parts = plain
		}
		r, err := measure(ctx, e, world, directory, parts)
		if err != nil {
			return fmt.Errorf("%s: %w", name(world), err)
		}
		all = append(all, r)
	}
	world := all[len(all)-1].world
	world.Limited = true
	under, err := measure(ctx, e, world, directory, limited)
	if err != nil {
		return fmt.Errorf("%s: %w", name(world), err)
	}
	problems := problems(append(slices.Clone(all), under))
	if err := run.Publish(ctx, report(e, all, under, problems)); err != nil {
		return err
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	return nil
}
