// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package online measures what the run of a Transfer does to the latency of an HTTPEndpoint on the same machine: at
// night, when it may take what there is, by day, when its window limits it, and when no window is open.
package online

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/http"
)

const (
	name       = "online"
	clientRole = "client"
	// bodySize of answers in bytes, before they are compressed.
	bodySize = 12000
	// share of what the endpoint can serve is asked for.
	share = 0.4
	// settled is how long a run has been in its state when load begins.
	settled = time.Second
)

type options struct {
	agent, work string
	rounds      int
	turn        time.Duration // of load
	size        int64         // bytes of the tree
}

// Benchmark measures latency beside runs.
func Benchmark() harness.Benchmark {
	o := &options{}
	return harness.Benchmark{
		Name: name, About: "the latency of an HTTPEndpoint beside the run of a Transfer, by window; needs root",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&o.agent, "agent", "bin/agent", "the agent's binary")
			f.StringVar(&o.work, "work", "/dev/shm", "where trees and destinations are made, in a directory of their own")
			f.IntVar(&o.rounds, "rounds", 11, "rounds")
			f.DurationVar(&o.turn, "turn", 10*time.Second, "load in one turn")
		},
		Run: o.run,
		Roles: map[string]func(context.Context, []string) error{
			clientRole: func(ctx context.Context, args []string) error { return serveClient(ctx, args[0]) },
		},
	}
}

// bench is what is measured, and what came of it.
type bench struct {
	options
	source   string
	capacity float64 // requests a second that the endpoint serves at most
	client   *harness.Worker
	pods     pods
	turns    map[string][]turn
}

// turn is what came of load beside one state of the run.
type turn struct {
	answered
	// cores that the agents of the run took on average, and bytes a second that it moved: of files, and on the wire.
	cores, plain, wire float64
}

func (o *options) run(ctx context.Context, r *harness.Run) (err error) {
	o.size = 4 << 30
	if r.Quick {
		o.rounds, o.turn, o.size = min(o.rounds, 3), min(o.turn, 2*time.Second), 2<<30
	}
	b := &bench{options: *o, turns: map[string][]turn{}}
	if b.agent, err = filepath.Abs(b.agent); err != nil {
		return fmt.Errorf("find the agent: %w", err)
	}
	if b.work, err = os.MkdirTemp(b.work, "lighterage-bench-"); err != nil {
		return fmt.Errorf("make a directory to work in: %w", err)
	}
	defer os.RemoveAll(b.work)
	if err := b.makeTree(); err != nil {
		return fmt.Errorf("make a tree: %w", err)
	}
	if b.pods, err = makePods(); err != nil {
		return err
	}
	// What runs in control groups ends before they are removed.
	ctx, cancel := context.WithCancel(ctx)
	defer func() { err = errors.Join(err, b.pods.remove()) }()
	stop, err := b.serve(ctx)
	defer func() { cancel(); stop() }()
	if err != nil {
		return err
	}
	if err := b.measure(ctx, r); err != nil {
		return err
	}
	return r.Publish(ctx, b.report())
}

// serve starts the endpoint with its backend, and the client.
func (b *bench) serve(ctx context.Context) (stop func(), err error) {
	const patience = 200 * time.Millisecond
	stop = func() {}
	var addresses [2]string
	for i := range addresses {
		if addresses[i], err = harness.FreeAddress(); err != nil {
			return stop, err
		}
	}
	backend, endpoint := addresses[0], addresses[1]
	certificates, dir := filepath.Join(b.work, "certificates"), filepath.Join(b.work, "http")
	if err := errors.Join(agents.ServerFiles(certificates), os.Mkdir(dir, 0o755)); err != nil {
		return stop, err
	}
	self := http.Backend(backend)
	behind, err := harness.StartListening(ctx, exec.CommandContext(ctx, self[0], self[1:]...), backend)
	if err != nil {
		return stop, fmt.Errorf("start the backend: %w", err)
	}
	stop = func() { behind.Stop(patience) }
	agent, err := http.StartAgent(ctx, b.agent, dir, &wirev1.HTTPConfig{
		ListenAddress: endpoint, ServingDirectory: certificates, Backend: &wirev1.HTTPBackend{Address: backend},
		Codings: []string{"gzip"}, Compression: &wirev1.CompressionSettings{},
	})
	if err != nil {
		return stop, fmt.Errorf("start the endpoint: %w", err)
	}
	stop = func() { agent.Stop(patience); behind.Stop(patience) }
	self = harness.Self(name, clientRole, endpoint)
	if b.client, err = harness.StartWorker(exec.CommandContext(ctx, self[0], self[1:]...)); err != nil {
		return stop, err
	}
	stop = func() { _ = b.client.Close(); agent.Stop(patience); behind.Stop(patience) }
	return stop, errors.Join(
		b.pods.put(others, behind.PID()), b.pods.put(others, b.client.PID()), b.pods.put(serving, agent.PID()),
	)
}

// measure has the states of the run take turns.
func (b *bench) measure(ctx context.Context, r *harness.Run) error {
	most, err := b.load(load{Duration: b.turn})
	if err != nil {
		return fmt.Errorf("measure what the endpoint serves at most: %w", err)
	}
	b.capacity = most.Rate
	harness.Log("the endpoint serves %.0f requests a second; %.0f are asked for", b.capacity, share*b.capacity)
	return r.Rounds(b.rounds, func(round int) error {
		for _, i := range harness.Order(round, len(states)) {
			s := states[i]
			t, err := harness.Undisturbed(s.text, func() (turn, error) { return b.beside(ctx, s, round) })
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			harness.Log("round %d, %s: %.2f ms, 99 %% within %.2f ms; the run took %.2f cores for %.1f MB/s", round+1, s.name,
				t.P50, t.P99, t.cores, t.plain/1e6)
			b.turns[s.name] = append(b.turns[s.name], t)
		}
		return nil
	})
}

// load has the client ask.
func (b *bench) load(l load) (answered, error) {
	var got answered
	err := errors.Join(b.client.Order(l), b.client.Answer(&got))
	return got, err
}

// beside measures load beside the run in a state. All states of a round are asked at the same moments.
func (b *bench) beside(ctx context.Context, s state, round int) (t turn, err error) {
	if err := b.pods.weigh(serving, cmp.Or(s.endpoint, requests[serving])); err != nil {
		return t, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run, err := b.begin(ctx, s)
	defer func() { cancel(); err = errors.Join(err, run.end()) }()
	if err != nil {
		return t, err
	}
	time.Sleep(settled)
	before, err := run.look(ctx)
	if err != nil {
		return t, err
	}
	if t.answered, err = b.load(load{Rate: share * b.capacity, Duration: b.turn, Seed: uint64(round)}); err != nil {
		return t, err
	}
	after, err := run.look(ctx)
	if err != nil {
		return t, err
	}
	seconds := after.at.Sub(before.at).Seconds()
	t.cores = (after.cpu - before.cpu).Seconds() / seconds
	t.plain, t.wire = (after.plain-before.plain)/seconds, (after.wire-before.wire)/seconds
	return t, nil
}
