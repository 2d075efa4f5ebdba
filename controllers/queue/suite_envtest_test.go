// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/queue"
	"github.com/lighterage/lighterage/controllers/topology"
)

var (
	cluster *controllertest.Cluster
	agents  = &controllertest.Agents{}
	// cached reads what the manager knows.
	cached client.Client
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
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: cluster.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	if err != nil {
		return 1, fmt.Errorf("making a manager: %w", err)
	}
	authority := cluster.Authority()
	if err := (&pki.Renewer{
		Authority: authority, Clock: clock.RealClock{}, Lifetime: time.Hour,
	}).Ensure(context.Background()); err != nil {
		return 1, fmt.Errorf("making the key for channels: %w", err)
	}
	seen, err := topology.Setup(context.Background(), mgr)
	if err != nil {
		return 1, err
	}
	pool, err := controllertest.Pool(mgr)
	if err != nil {
		return 1, err
	}
	err = queue.Setup(mgr, queue.Options{
		Topology: seen,
		Client:   mgr.GetClient(), Reader: mgr.GetAPIReader(), Reports: queue.Reports(pool, agents), Authority: authority,
		Lifetime: time.Hour,
		Recorder: mgr.GetEventRecorder("lighterage-queue"),
		Metrics:  metrics.NewQueues(prometheus.NewRegistry(), time.Now()), Clock: clock.RealClock{}, Cluster: "east",
		Image: image, Concurrency: 4,
		Egress: egress.NewCluster(
			egress.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}},
		),
	})
	if err != nil {
		return 1, err
	}
	cached = mgr.GetClient()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(done)
		defer cancel() // when it ends early the caches are never filled
		done <- mgr.Start(ctx)
	}()
	defer func() { cancel(); <-done }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return 1, fmt.Errorf("starting the manager: %w", <-done)
	}
	return m.Run(), nil
}
