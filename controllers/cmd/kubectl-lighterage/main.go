// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-lighterage is a plugin of kubectl: in a directory of $PATH it is run by kubectl lighterage. It uses the rights of
// whoever runs it, and changes no object of the cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // every failure comes back as an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, say: os.Stderr})
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(exitCode(err))
	}
}

// exitCode tells scripts what went wrong.
func exitCode(err error) int {
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		return 2
	case errors.Is(err, errNoMessage):
		return 3
	}
	return 1
}
