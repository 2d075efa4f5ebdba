// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command queue measures a queue beside plain JetStream and JetStream with S2 store
// compression: each in a process of its own, with one client over loopback that puts
// XML messages and gets them again.
//
// Contenders take turns, so that noise hits all of them alike; medians of the rounds
// count. It writes queue.md and queue.svg and ends with a line for each target.
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
	bytes  int // put in one turn
}

var extents = map[string]extent{
	"full":  {"full", 5, 400 << 20},
	"quick": {"quick", 1, 60 << 20},
}

// sizes of messages in bytes.
var sizes = []int{3000, 5000, 12000, 70000, 200000}

func main() {
	name := flag.String("extent", "full", "how much is measured: full, or quick for a look that is no result")
	out := flag.String("out", "", "the directory for queue.md and queue.svg (default: docs/results; dist/bench when quick)")
	directory := flag.String("dir", "/dev/shm", "where contenders keep messages; on tmpfs the disk is not the limit")
	contender := flag.String("serve", "", "internal: be a contender")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *contender != "" {
		err = serve(ctx, *contender, *directory)
	} else {
		err = run(ctx, *name, *out, *directory)
		if ctx.Err() != nil {
			err = errors.New("interrupted; nothing was written")
		}
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, out, directory string) error {
	e, ok := extents[name]
	if !ok {
		return fmt.Errorf("unknown extent %q: use full or quick", name)
	}
	if out == "" {
		out = "dist/bench"
		if e.name == "full" {
			out = "docs/results"
		}
	}
	begin := time.Now()
	var turns []turn
	for round := range e.rounds {
		for _, size := range sizes {
			for i := range contenders {
				// Nobody is always first.
				t, err := one(ctx, contenders[(i+round)%len(contenders)], size, e.bytes, directory)
				if err != nil {
					return err
				}
				turns = append(turns, t)
			}
		}
	}
	r := newReport(e, turns, time.Since(begin))
	if err := r.write(out); err != nil {
		return err
	}
	for _, t := range r.Targets {
		fmt.Println(t.Line())
	}
	return nil
}

func one(ctx context.Context, name string, size, total int, directory string) (turn, error) {
	r, err := start(ctx, name, directory)
	if err != nil {
		return turn{}, err
	}
	t, err := r.run(ctx, size, total)
	return t, errors.Join(err, r.stop())
}
