// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is what benchmarks share: the command line, rounds in which contenders take turns, ratios with their
// intervals, targets, tables, drawings, reports, and what processes and the machine have used.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// module is the first line of the repository's go.mod.
const module = "module github.com/lighterage/lighterage\n"

// Benchmark is a subcommand of the program.
type Benchmark struct {
	// Name without "bench-", which is before it in the Makefile.
	Name, About string
	// Flags adds those that are the benchmark's own; nil: there are none.
	Flags func(*flag.FlagSet)
	Run   func(context.Context, *Run) error
	// Roles are what processes do that the benchmark starts with Self.
	Roles map[string]func(ctx context.Context, args []string) error
}

// ErrSaid ends the program as an error does that was printed already.
var ErrSaid = errors.New("an error was printed")

// roleWord is the first argument of a process in a role.
const roleWord = "role"

// Self is the command line of this program in a role of a benchmark. It has the path of the program, because others
// that start it, such as ip, have another /proc/self/exe.
func Self(benchmark, role string, args ...string) []string {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return append([]string{path, benchmark, roleWord, role}, args...)
}

// Main runs the benchmark that the command line names, in the root of the repository, and ends the program.
func Main(all ...Benchmark) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, all, os.Args[1:])
	stop()
	if err != nil {
		if !errors.Is(err, ErrSaid) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

func command(ctx context.Context, all []Benchmark, args []string) error {
	for _, b := range all {
		if len(args) == 0 || b.Name != args[0] {
			continue
		}
		if len(args) > 2 && args[1] == roleWord {
			serve, ok := b.Roles[args[2]]
			if !ok {
				return fmt.Errorf("benchmark %s has no role %q", b.Name, args[2])
			}
			return serve(ctx, args[3:])
		}
		return b.run(ctx, args[1:])
	}
	var text strings.Builder
	text.WriteString("name a benchmark, and -h for its flags:")
	for _, b := range all {
		fmt.Fprintf(&text, "\n  %-10s %s", b.Name, b.About)
	}
	return errors.New(text.String())
}

func (b Benchmark) run(ctx context.Context, args []string) error {
	if err := toRoot(); err != nil {
		return err
	}
	flags := flag.NewFlagSet(b.Name, flag.ContinueOnError)
	extent := flags.String("extent", "full", "how much is measured: full, or quick for a look that is no result")
	r := &Run{Name: b.Name}
	flags.StringVar(&r.Out, "out", "",
		"the directory for what is written (default: docs/results; dist/bench when quick, or when a part alone is measured)")
	if b.Flags != nil {
		b.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return ErrSaid
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%q: %s takes flags alone", flags.Arg(0), b.Name)
	case *extent != "full" && *extent != "quick":
		return fmt.Errorf("unknown extent %q: use full or quick", *extent)
	}
	r.Quick = *extent == "quick"
	r.busy, r.begun = busyNow(), time.Now()
	err := b.Run(ctx, r)
	if ctx.Err() != nil {
		err = errors.New("interrupted; nothing was written")
	}
	return err
}

// toRoot makes the root of the repository the working directory, from which on paths are shorter to say: it is the
// nearest one upwards that holds its go.mod.
func toRoot() error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), module) {
			return os.Chdir(dir)
		}
		if dir == filepath.Dir(dir) {
			return errors.New("the repository's go.mod is neither here nor above; run the benchmark in the repository")
		}
		dir = filepath.Dir(dir)
	}
}
