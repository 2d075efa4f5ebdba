// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package httpendpoint_test

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
	"github.com/lighterage/lighterage/controllers/metrics"
)

var (
	cluster *controllertest.Cluster
	agents  = &controllertest.Agents{}
)

func TestMain(m *testing.M) {
	os.Exit(controllertest.Main(m, &cluster, func() (func(), error) { return cluster.StartManager(setup) }))
}

func setup(mgr controllertest.Manager) error {
	return httpendpoint.Setup(mgr, httpendpoint.Options{
		Topology: mgr.Topology,
		Client:   mgr.GetClient(), Reader: mgr.GetAPIReader(), Reports: httpendpoint.Reports(mgr.Pool, agents),
		Authority: cluster.Authority(), Lifetime: time.Hour,
		Recorder: mgr.GetEventRecorder("lighterage-httpendpoint"),
		Metrics:  metrics.NewHTTPEndpoints(prometheus.NewRegistry(), time.Now()), Clock: clock.RealClock{}, Cluster: "east",
		Image: image, Concurrency: 4,
		Egress: egress.NewCluster(
			egress.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}},
		),
	})
}
