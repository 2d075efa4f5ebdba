// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command moment writes files without end, and tells whether a copy of them is of one moment. The demo and the
// end-to-end tests copy its files while it writes them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage:
  moment write [-interval 0s] DIR   write to DIR, with a pause after each file, until a signal
  moment check DIR                  tell whether DIR is a copy of one moment: exit status 1 if not
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if torn := (*TornError)(nil); errors.As(err, &torn) {
		fmt.Fprintln(os.Stderr, "Not of one moment:", err)
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(2)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("a command is missing\n%s", usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	interval := flags.Duration("interval", 0, "")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("reading arguments: %w", err)
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("a directory is missing\n%s", usage)
	}
	switch args[0] {
	case "write":
		return Write(ctx, flags.Arg(0), *interval)
	case "check":
		round, err := Check(flags.Arg(0))
		if err == nil {
			fmt.Printf("Of one moment: round %d\n", round)
		}
		return err
	default:
		return fmt.Errorf("there is no command %q\n%s", args[0], usage)
	}
}
