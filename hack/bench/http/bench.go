// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bench is what is measured, and what came of it.
type bench struct {
	extent
	load           float64 // of the machine at the start
	work           string
	certificates   string
	backendAddress string
	processes      []*process
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

// start starts everything.
func (b *bench) start(ctx context.Context, agent, caddy string) error {
	b.turns, b.memory = map[key][]turn{}, map[string][]int64{}
	if err := b.startBackend(); err != nil {
		return err
	}
	if err := b.contenders(agent, caddy); err != nil {
		return err
	}
	return b.check(ctx)
}

// startBackend makes a place to work in and starts who answers.
func (b *bench) startBackend() error {
	var err error
	if b.work, err = os.MkdirTemp("", "lighterage-bench-http-"); err != nil {
		return fmt.Errorf("make a directory to work in: %w", err)
	}
	if err := os.Chmod(b.work, 0o755); err != nil { // nginx's workers are another user
		return err
	}
	if b.certificates, err = b.directory("certificates"); err != nil {
		return err
	}
	if err := makeCertificates(b.certificates); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.backendAddress = b.nextAddress()
	if _, err := b.spawn(b.backendAddress, self, "-backend", b.backendAddress); err != nil {
		return fmt.Errorf("start the backend: %w", err)
	}
	return nil
}

func (b *bench) directory(name string) (string, error) {
	path := filepath.Join(b.work, strings.ToLower(name))
	return path, os.MkdirAll(path, 0o755)
}

// nextAddress returns one that nobody listens on.
func (b *bench) nextAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // without loopback there is nothing to do
	}
	defer l.Close()
	return l.Addr().String()
}

func (b *bench) close() {
	for _, p := range slices.Backward(b.processes) {
		p.stop()
	}
	os.RemoveAll(b.work)
}

// measure lets everybody take turns.
func (b *bench) measure(ctx context.Context) error {
	for round := range b.rounds {
		for _, size := range b.sizes {
			for _, compressed := range []bool{true, false} {
				for i := range b.all {
					// Each round begins with another, so that nobody always follows the same.
					c := b.all[(i+round)%len(b.all)]
					if err := b.take(ctx, c, key{c.name, "xml", size, "1.1", compressed}); err != nil {
						return err
					}
				}
			}
			for _, c := range b.engines {
				if round > 1 {
					break // two turns are enough for what is compared with itself
				}
				if err := b.take(ctx, c, key{c.name, "xml", size, "1.1", true}); err != nil {
					return err
				}
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %d bytes\n", round+1, b.rounds, size)
		}
		for _, size := range b.json {
			for _, c := range b.all {
				if err := b.take(ctx, c, key{c.name, "json", size, "1.1", true}); err != nil {
					return err
				}
			}
		}
		for _, size := range []int{20000} {
			for _, c := range b.all {
				for _, compressed := range []bool{true, false} {
					if err := b.take(ctx, c, key{c.name, "xml", size, "2", compressed}); err != nil {
						return err
					}
				}
			}
		}
	}
	return b.holdConnections(ctx)
}

// take makes load on one contender and keeps what came of it.
func (b *bench) take(ctx context.Context, c *contender, k key) error {
	t, err := b.loadOn(ctx, c, k)
	if err != nil {
		return fmt.Errorf("%s, %s of %d bytes, HTTP/%s: %w", c.name, k.kind, k.size, k.protocol, err)
	}
	b.turns[k] = append(b.turns[k], t)
	return nil
}

// holdConnections looks at the memory of each with many connections that are in use.
func (b *bench) holdConnections(ctx context.Context) error {
	for _, c := range b.all {
		duration := b.hold / 4
		if c.ours {
			duration = b.hold
		}
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			_, err := b.wrkMany(ctx, c, duration)
			done <- err
		}()
		ticker := time.NewTicker(duration / 8)
		var err error
		for running := true; running; {
			select {
			case err = <-done:
				running = false
			case <-ticker.C:
				n, e := c.process.memory()
				if e != nil {
					err = e
					break
				}
				b.memory[c.name] = append(b.memory[c.name], n)
			}
		}
		ticker.Stop()
		cancel()
		if err != nil {
			return fmt.Errorf("%s with %d connections: %w", c.name, manyConnections, err)
		}
		fmt.Fprintf(os.Stderr, "%d connections: %s\n", manyConnections, c.name)
	}
	return nil
}

// median of the figures of a cell; 0 when there is none.
func (b *bench) median(k key, of func(turn) float64) float64 {
	turns := b.turns[k]
	if len(turns) == 0 {
		return 0
	}
	var values []float64
	for _, t := range turns {
		values = append(values, of(t))
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}
