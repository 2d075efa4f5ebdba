// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent moves and compresses data. It knows nothing of Kubernetes: a configuration directory says what to do, a
// report says what was done.
package main

import (
	_ "golang.org/x/crypto/x509roots/fallback" // Object stores have public certificates, and the image has no CAs.

	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitConfig
)

const usage = `Usage: agent MODE [flags]

Modes:
  send      move a directory to the receiving agent of a Delivery
  receive   take what the sender of a Transfer sends
  local     move a directory to another that is mounted beside it
  http      answer for a backend, compressed
  queue     keep the messages of a queue
  node      measure this node and tell the manager
  trial     measure every engine on a sample of a directory
  handoff   send as in mode send, through an object store to the relay of the other cluster
  relay     connect senders that come through an object store to the gateway
  probe     find out what an object store does
  fill      write test data into a directory
  prove     prove the use of this machine's accelerator; needs no cluster
  version   print the version

Flags:
`

// errStopped is the cause of a context that a signal ended.
var errStopped = failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED, "the agent was told to stop")

// errPaused is that of one that the manager ended because its run pauses.
var errPaused = failure.New(wirev1.FailureReason_FAILURE_REASON_PAUSED, "the run is paused")

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel(errStopped)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its surroundings given.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	configDir := flags.String("config-dir", "/etc/lighterage", "directory with config.json and the certificates")
	terminationLog := flags.String(
		"termination-log", "", "file for the final report as JSON of at most 4096 bytes; empty: none is written",
	)
	fillDirectory := flags.String("directory", "", "directory that fill writes into")
	fillBytes := flags.Int64("bytes", 0, "how many bytes fill writes")
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	if len(args) == 0 {
		flags.Usage()
		return exitConfig
	}
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitConfig
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "agent: unexpected argument %q\n", flags.Arg(0))
		return exitConfig
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &agent{
		pause:          func() { cancel(errPaused) },
		configDir:      *configDir,
		terminationLog: *terminationLog,
		fillDirectory:  *fillDirectory,
		fillBytes:      *fillBytes,
		stdout:         stdout,
		log:            slog.New(slog.NewJSONHandler(stderr, nil)),
	}
	modes := map[string]func(context.Context) error{
		"send": a.send, "receive": a.receive, "local": a.local, "node": a.node, "http": a.http, "queue": a.queue,
		"handoff": a.handOff, "relay": a.relay, "trial": a.trial, "probe": a.probe, "fill": a.fill, "prove": a.prove,
	}
	mode, ok := modes[args[0]]
	switch {
	case args[0] == "version":
		fmt.Fprintln(stdout, wirev1.Version)
		return exitOK
	case args[0] == "-h", args[0] == "-help", args[0] == "--help", args[0] == "help":
		flags.Usage()
		return exitOK
	case !ok:
		fmt.Fprintf(stderr, "agent: unknown mode %q\n\n", args[0])
		flags.Usage()
		return exitConfig
	}
	a.memory = debug.SetMemoryLimit(-1)
	if limit := memoryLimit(args[0]); limit < a.memory {
		debug.SetMemoryLimit(limit)
	}
	a.log = a.log.With("mode", args[0])
	a.log.Info("Agent starts", "version", wirev1.Version)
	defer a.shares.close()
	err := mode(ctx)
	var bad *configError
	switch {
	case err == nil:
		a.log.Info("Agent has finished")
		return exitOK
	case errors.As(err, &bad):
		a.log.Error("Configuration is unusable", "error", err.Error())
		return exitConfig
	default:
		a.log.Error("Agent has failed", "reason", failure.ToWire(err).GetReason().String(), "error", err.Error())
		return exitFailed
	}
}

// agent is what the modes have in common. transferMemory is what Go's collector keeps the memory of one side of a
// Transfer below, in bytes, whatever GOMEMLIMIT admits: more than can be in use (see package transfer), so that
// garbage, not work, gives way, and with the buffers of engines in C less than 256 MiB.
const transferMemory = 208 << 20

// memoryLimit returns the limit of a mode in bytes.
func memoryLimit(mode string) int64 {
	switch mode {
	case "send", "handoff", "receive":
		return transferMemory
	case "local": // Both sides.
		return 2 * transferMemory
	default:
		return math.MaxInt64
	}
}

type agent struct {
	// pause ends the agent as the manager asks.
	pause          func()
	configDir      string
	terminationLog string
	// fillDirectory and fillBytes are for the mode fill alone.
	fillDirectory string
	fillBytes     int64
	stdout        io.Writer // of prove
	// known are figures of the engines on a machine like this one; nil: there are none.
	known *calibrate.Known
	// memory is what GOMEMLIMIT admits, in bytes.
	memory int64
	// shares is this agent's part in the accelerator.
	shares sharing
	log    *slog.Logger
}
