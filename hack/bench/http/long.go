// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"
)

const (
	// idleConnections are open at once while nothing happens on them, for so long.
	idleConnections = 10000
	idleFor         = 20 * time.Second
	// sampleInterval is how often the memory is looked at.
	sampleInterval = 5 * time.Second
)

//go:embed long.md.tmpl
var longText string

// long is what takes long: the agent's memory under load for a time, and with many
// connections that are idle.
type long struct {
	*bench
	begin   int64   // bytes, before anything was asked
	loaded  []int64 // while there is load
	rate    float64 // requests by second
	idle    int64   // with idle connections
	settled int64   // when they are closed
}

// runLong measures and writes http-long.md.
func runLong(ctx context.Context, out, agent string, hold time.Duration) error {
	b := &bench{extent: extent{name: "long", hold: hold}, load: loadNow()}
	defer b.close()
	if err := b.startBackend(); err != nil {
		return err
	}
	ours := &contender{name: ourName, ours: true, address: b.nextAddress()}
	if err := b.agent(ours, agent, nil, "gzip"); err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	b.all = []*contender{ours}
	if err := b.check(ctx); err != nil {
		return err
	}
	l := &long{bench: b}
	if err := l.measureLong(ctx, ours); err != nil {
		return err
	}
	targets := l.longTargets()
	if err := l.writeLong(ctx, out, targets); err != nil {
		return err
	}
	for _, t := range targets {
		fmt.Println(t.line())
	}
	return nil
}

func (l *long) measureLong(ctx context.Context, c *contender) error {
	var err error
	if l.begin, err = c.memory(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d connections for %v\n", manyConnections, l.hold)
	ended := make(chan error, 1)
	go func() {
		var err error
		l.rate, err = l.wrkMany(ctx, c, l.hold)
		ended <- err
	}()
	ticker := time.NewTicker(min(sampleInterval, l.hold/20))
	defer ticker.Stop()
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("%d connections: %w", manyConnections, err)
			}
			running = false
		case <-ticker.C:
			n, err := c.memory()
			if err != nil {
				return err
			}
			l.loaded = append(l.loaded, n)
		}
	}
	fmt.Fprintf(os.Stderr, "%d idle connections\n", idleConnections)
	if err := l.holdIdle(ctx, c); err != nil {
		return fmt.Errorf("%d idle connections: %w", idleConnections, err)
	}
	l.settled, err = c.memory()
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
		var wg sync.WaitGroup
		var mu sync.Mutex
		var first error
		const workers = 8
		for w := range workers {
			wg.Go(func() {
				for i := w; i < len(open); i += workers {
					if err := do(i); err != nil {
						mu.Lock()
						first = errors.Join(first, fmt.Errorf("connection %d: %w", i, err))
						mu.Unlock()
						return
					}
				}
			})
		}
		wg.Wait()
		return first
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
	if l.idle, err = c.memory(); err != nil {
		return err
	}
	return each(ask)
}

// longTargets judges. What the first tenth of the time holds is not compared: it is the
// time in which connections and buffers are made.
func (l *long) longTargets() []target {
	var most int64
	for _, n := range l.loaded {
		most = max(most, n)
	}
	tenth := len(l.loaded) / 10
	rest := l.loaded[tenth:]
	third := len(rest) / 3
	return []target{
		{
			name: "memory-1000-connections", measured: float64(most) / (1 << 20), bound: 128, atMost: true, digits: 0,
			what: fmt.Sprintf("most MiB of memory in %v with %d connections", l.hold, manyConnections),
		},
		{
			name: "memory-flat", measured: mean(rest[len(rest)-third:]) / mean(rest[:third]), bound: 1.05, atMost: true,
			digits: 2, what: "mean memory of the last third of that time by that of the first",
		},
	}
}

func (l *long) writeLong(ctx context.Context, out string, targets []target) error {
	parsed, err := template.New("report").Parse(longText)
	if err != nil {
		return fmt.Errorf("read the report's template: %w", err)
	}
	var rows [][]string
	// The time in twenty parts.
	for i := range 20 {
		from, to := i*len(l.loaded)/20, (i+1)*len(l.loaded)/20
		if from == to {
			continue
		}
		var most int64
		for _, n := range l.loaded[from:to] {
			most = max(most, n)
		}
		rows = append(
			rows, []string{(l.hold * time.Duration(i+1) / 20).String(), mib(int64(mean(l.loaded[from:to]))), mib(most)},
		)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, map[string]any{
		"Date": time.Now().UTC().Format("2006-01-02"), "Hold": l.hold.String(), "Machine": machine(ctx), "Busy": l.busy(),
		"Many":    manyConnections,
		"Targets": targetTable(targets), "Course": table([]string{"until", "mean, MiB", "most, MiB"}, rows),
		"Rate":  grouped(l.rate),
		"Begin": mib(l.begin), "Idle": mib(l.idle), "Settled": mib(l.settled), "IdleConnections": grouped(idleConnections),
		"IdleFor": idleFor.String(),
		"Each":    fmt.Sprintf("%.1f", float64(l.idle-l.begin)/idleConnections/1024),
	}); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the directory for results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, "http-long.md"), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

func mib(n int64) string { return fmt.Sprintf("%.0f", float64(n)/(1<<20)) }
