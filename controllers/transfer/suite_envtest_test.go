// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/transfer"
)

var (
	cluster  *controllertest.Cluster
	agents   = &controllertest.Agents{}
	gateways = &controllertest.Gateways{}
	registry = prometheus.NewRegistry()
	counters = metrics.NewTransfers(registry)

	// cached reads what the manager knows.
	cached      client.Client
	stopManager func()
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	if cluster, err = controllertest.Start("../../config/crd/bases"); err != nil {
		return 1, err
	}
	defer func() { _ = cluster.Stop() }()
	if err := startManager(); err != nil {
		return 1, err
	}
	defer func() { stopManager() }()
	return m.Run(), nil
}

// startManager runs the controller until stopManager is called.
func startManager() error { return startManagerWith(func(*ctrl.Options) {}) }

func startManagerWith(adjust func(*ctrl.Options)) error {
	options := ctrl.Options{
		Scheme:  cluster.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Two managers run one after the other in this process.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Logger:     logr.Discard(),
	}
	adjust(&options)
	mgr, err := ctrl.NewManager(cluster.Config, options)
	if err != nil {
		return fmt.Errorf("making a manager: %w", err)
	}
	seen, err := topology.Setup(context.Background(), mgr)
	if err != nil {
		return err
	}
	pool, err := controllertest.Pool(mgr)
	if err != nil {
		return err
	}
	err = transfer.Setup(mgr, transfer.Options{
		Topology: seen,
		Client:   mgr.GetClient(), Reader: mgr.GetAPIReader(), Reports: attempt.Reports(pool, "transfer", agents),
		Gateways: gateways,
		Attempts: attempt.NewCluster(attempt.Options{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Authority: cluster.Authority(), Lifetime: time.Hour,
		}),
		Recorder: mgr.GetEventRecorder("lighterage-transfer"), Metrics: counters, Clock: clock.RealClock{}, Cluster: "east",
		Image: plan.AgentImage{Name: "registry.example/agent:test"}, Concurrency: 8,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(done)
		defer cancel() // when it ends early the caches are never filled
		done <- mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		cancel()
		return fmt.Errorf("starting the manager: %w", <-done)
	}
	cached = mgr.GetClient()
	stopManager = func() { cancel(); <-done }
	return nil
}
