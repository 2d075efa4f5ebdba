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

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/queue"
)

var (
	cluster *controllertest.Cluster
	agents  = &controllertest.Agents{}
	// cached reads what the manager knows.
	cached client.Client
)

func TestMain(m *testing.M) {
	os.Exit(controllertest.Main(m, &cluster, func() (func(), error) { return cluster.StartManager(setup) }))
}

func setup(mgr controllertest.Manager) error {
	authority := cluster.Authority()
	if err := (&pki.Renewer{
		Authority: authority, Clock: clock.RealClock{}, Lifetime: time.Hour,
	}).Ensure(context.Background()); err != nil {
		return fmt.Errorf("making the key for channels: %w", err)
	}
	cached = mgr.GetClient()
	return queue.Setup(mgr, queue.Options{
		Topology: mgr.Topology,
		Client:   mgr.GetClient(), Reader: mgr.GetAPIReader(), Reports: queue.Reports(mgr.Pool, agents),
		Authority: authority, Lifetime: time.Hour,
		Recorder: mgr.GetEventRecorder("lighterage-queue"),
		Metrics:  metrics.NewQueues(prometheus.NewRegistry(), time.Now()), Clock: clock.RealClock{}, Cluster: "east",
		Image: image, Concurrency: 4,
		Egress: egress.NewCluster(
			egress.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}},
		),
	})
}
