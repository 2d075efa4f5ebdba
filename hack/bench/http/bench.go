// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package http measures the agent in mode http beside nginx, HAProxy and Caddy as reverse proxies that speak TLS 1.3 to
// clients and plain HTTP to the same backend, with and without compression, on loopback.
package http

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// extent is how much is measured.
type extent struct {
	rounds int
	turn   time.Duration // of load on one contender
	sizes  []int
	json   []int // sizes of which JSON is measured too
	hold   time.Duration
}

var (
	full = extent{
		rounds: 11, turn: 2 * time.Second, hold: 40 * time.Second,
		sizes: []int{3000, 5000, 12000, 20000, 40000, 64000, 128000, 240000}, json: []int{20000, 128000},
	}
	quick = extent{rounds: 1, turn: time.Second, hold: 5 * time.Second, sizes: []int{5000, 20000, 64000, 240000}}
)

const (
	name        = "http"
	backendRole = "backend"
)

// Benchmark measures responses.
func Benchmark() harness.Benchmark {
	agent, caddy, some := "", "", part{}
	return harness.Benchmark{
		Name: name, About: "the agent in mode http beside nginx, HAProxy and Caddy",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&agent, "agent", "bin/agent", "the agent to measure")
			f.StringVar(&caddy, "caddy", "caddy", "the program caddy")
			some.flags(f)
		},
		Run: func(ctx context.Context, r *harness.Run) error {
			b := &bench{extent: full, part: some}
			if r.Quick {
				b.extent = quick
			}
			if err := some.narrow(&b.extent); err != nil {
				return err
			}
			r.Partial = some.partial()
			defer b.close()
			if err := b.startBackend(ctx); err != nil {
				return err
			}
			if err := b.contenders(ctx, agent, caddy); err != nil {
				return err
			}
			if err := b.check(ctx); err != nil {
				return err
			}
			if err := b.measure(ctx, r); err != nil {
				return err
			}
			return r.Publish(ctx, b.report(ctx))
		},
		Roles: map[string]func(context.Context, []string) error{
			backendRole: func(ctx context.Context, args []string) error { return serveBackend(ctx, args[0]) },
		},
	}
}

// bench is what is measured, and what came of it.
type bench struct {
	extent
	part           part
	work           string
	certificates   string
	backendAddress string
	processes      []*harness.Process
	all            []*contender // who is compared
	engines        []*contender // ours, by engine

	turns  map[key][]turn
	memory map[string][]int64 // by contender, in bytes: at the start, then as connections stay
}

// key names a cell of the tables.
type key struct {
	contender, kind string
	size            int
	protocol        string // "1.1" or "2"
	compressed      bool
}

// connections that load is made with, and those of which the memory is looked at.
const (
	connections     = 32
	manyConnections = 1000
)

// startBackend makes a place to work in and starts who answers.
func (b *bench) startBackend(ctx context.Context) (err error) {
	b.turns, b.memory = map[key][]turn{}, map[string][]int64{}
	if b.work, err = os.MkdirTemp("", "lighterage-bench-http-"); err != nil {
		return fmt.Errorf("make a directory to work in: %w", err)
	}
	if err := os.Chmod(b.work, 0o755); err != nil { // nginx's workers are another user
		return err
	}
	if b.certificates, err = b.directory("certificates"); err != nil {
		return err
	}
	if err := agents.ServerFiles(b.certificates); err != nil { // the same for all
		return err
	}
	if b.backendAddress, err = harness.FreeAddress(); err != nil {
		return err
	}
	self := Backend(b.backendAddress)
	_, err = b.spawn(ctx, b.backendAddress, self[0], self[1:]...)
	return err
}

func (b *bench) directory(name string) (string, error) {
	path := filepath.Join(b.work, strings.ToLower(name))
	return path, os.MkdirAll(path, 0o755)
}

// spawn starts a program and waits until it accepts connections.
func (b *bench) spawn(ctx context.Context, address, name string, args ...string) (*harness.Process, error) {
	p, err := harness.StartListening(ctx, exec.CommandContext(ctx, name, args...), address)
	if err == nil {
		b.processes = append(b.processes, p)
	}
	return p, err
}

func (b *bench) close() {
	const patience = 200 * time.Millisecond
	for _, p := range slices.Backward(b.processes) {
		p.Stop(patience)
	}
	os.RemoveAll(b.work)
}

// measure lets everybody take turns, in a cell for each size and kind of body.
func (b *bench) measure(ctx context.Context, r *harness.Run) error {
	type cell struct {
		kind, protocol string
		size           int
		compressed     []bool
	}
	var cells []cell
	for _, size := range b.sizes {
		cells = append(cells, cell{"xml", "1.1", size, []bool{true, false}})
	}
	for _, size := range b.json {
		cells = append(cells, cell{"json", "1.1", size, []bool{true}})
	}
	if b.part.only == "" {
		cells = append(cells, cell{"xml", "2", 20000, []bool{true, false}})
	}
	for _, c := range cells {
		var turns []key
		for _, compressed := range c.compressed {
			for _, one := range b.all {
				turns = append(turns, key{one.name, c.kind, c.size, c.protocol, compressed})
			}
		}
		if c.kind == "xml" && c.protocol == "1.1" {
			for _, one := range b.engines {
				turns = append(turns, key{one.name, c.kind, c.size, c.protocol, true})
			}
		}
		if err := r.Rounds(b.rounds, func(round int) error {
			for _, i := range harness.Order(round, len(turns)) {
				t, err := harness.Undisturbed(turns[i].contender, func() (turn, error) { return b.loadOn(ctx, turns[i]) })
				if err != nil {
					return fmt.Errorf("%+v: %w", turns[i], err)
				}
				b.turns[turns[i]] = append(b.turns[turns[i]], t)
			}
			harness.Log("round %d: %d bytes of %s by HTTP/%s", round+1, c.size, c.kind, c.protocol)
			return nil
		}); err != nil {
			return err
		}
	}
	if b.part.only != "" {
		return nil
	}
	return b.holdConnections(ctx)
}

// holdConnections looks at the memory of each with many connections that are in use.
func (b *bench) holdConnections(ctx context.Context) error {
	for _, c := range b.all {
		duration := b.hold / 4
		if c.ours() {
			duration = b.hold
		}
		harness.Log("%d connections: %s", manyConnections, c.name)
		var err error
		if _, b.memory[c.name], err = b.underLoad(ctx, c, duration, duration/8); err != nil {
			return fmt.Errorf("%s with %d connections: %w", c.name, manyConnections, err)
		}
	}
	return nil
}

// underLoad makes load with many connections and looks at the memory from time to time. It returns how many requests
// were answered by second, and the memory in bytes.
func (b *bench) underLoad(
	ctx context.Context, c *contender, duration, interval time.Duration,
) (rate float64, memory []int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var err error
		rate, err = wrkMany(ctx, c, duration)
		done <- err
	}()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return rate, memory, err
		case <-ticker.C:
			n, err := c.Group().Memory()
			if err != nil {
				cancel()
				return 0, nil, errors.Join(err, <-done)
			}
			memory = append(memory, n)
		}
	}
}

// median of the figures of a cell; 0 when there is none.
func (b *bench) median(k key, of func(turn) float64) float64 { return harness.MedianOf(b.turns[k], of) }
