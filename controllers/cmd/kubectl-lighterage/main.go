// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-lighterage is a kubectl plugin: kubectl runs it as kubectl lighterage when it is in a directory of
// $PATH. It uses the rights of the user who runs it. Only connect, link, disconnect, verify, prove, run, suspend,
// pause, resume and the buttons of console change objects of a cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lighterage/lighterage/controllers/cmd/kubectl-lighterage/command"
)

func main() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // every failure comes back as an error
	arguments := os.Args[1:]
	// kubectl completes the arguments of a plugin with the program of this name.
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl_complete-") {
		arguments = append([]string{cobra.ShellCompRequestCmd}, arguments...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.Run(ctx, arguments, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(command.ExitCode(err))
	}
}
