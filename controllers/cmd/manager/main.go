// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager runs the controllers. See --help for its flags.
package main

import (
	_ "time/tzdata" // Schedules have time zones, and the image has no other files.

	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/memory"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	settings, err := parse(arguments)
	if err != nil {
		return err
	}
	if settings.version {
		fmt.Println(wirev1.Version)
		return nil
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: settings.logLevel}))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)

	if err := memory.Keep(); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	mgr, err := newManager(config, settings)
	if err != nil {
		return err
	}
	logger.Info(
		"Starting the manager", "version", wirev1.Version, "cluster", settings.cluster, "agentImage", settings.agentImage,
	)
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		return fmt.Errorf("running the controllers: %w", err)
	}
	return nil
}
