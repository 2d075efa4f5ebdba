// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package objectstore_test

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
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
	"github.com/lighterage/lighterage/controllers/objectstore"
)

var (
	cluster  *controllertest.Cluster
	registry = prometheus.NewRegistry()
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
	if err := index.Setup(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return 1, err
	}
	err = objectstore.Setup(mgr, objectstore.Options{
		Client: mgr.GetClient(), Attempts: agentjob.NewCluster(agentjob.Options{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Authority: cluster.Authority(), Lifetime: time.Hour,
			Networks: &networkpolicy.Keeper{
				Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), OperatorNamespace: "lighterage-system",
			},
		}),
		Egress: egress.NewCluster(egress.Options{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		}),
		Recorder: mgr.GetEventRecorder("lighterage-objectstore"), Metrics: metrics.NewObjectStores(registry),
		Clock: clock.RealClock{}, Cluster: "east", OperatorNamespace: "lighterage-system",
		Image:       agentpod.Image{Name: "registry.example/agent:test"},
		Concurrency: 8,
	})
	if err != nil {
		return 1, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer cancel() // when it ends early the caches are never filled
		done <- mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		cancel()
		return 1, fmt.Errorf("starting the manager: %w", <-done)
	}
	defer func() { cancel(); <-done }()
	return m.Run(), nil
}
