// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lighterage-cargo lists, reads, packs, copies and verifies files that rest compressed with an index, on file
// systems and in object stores. It needs no cluster.
package main

import (
	_ "golang.org/x/crypto/x509roots/fallback" // A container of this program alone has no CAs.

	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lighterage/lighterage/agent/cmd/lighterage-cargo/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.Run(ctx, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", command.Describe(err))
		os.Exit(command.ExitCode(err))
	}
}
