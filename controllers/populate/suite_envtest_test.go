// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package populate_test

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/populate"
)

var (
	cluster     *controllertest.Cluster
	stopManager func()
)

func TestMain(m *testing.M) {
	os.Exit(controllertest.Main(m, &cluster, func() (func(), error) {
		return func() { stopManager() }, startManager()
	}))
}

// startManager runs the controller until stopManager is called.
func startManager() error {
	stop, err := cluster.StartManager(func(mgr controllertest.Manager) error {
		return populate.Setup(mgr, populate.Options{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(),
			Recorder: mgr.GetEventRecorder("lighterage-populate"), Concurrency: 8,
			Metrics: metrics.NewPopulating(prometheus.NewRegistry()),
		})
	})
	if err == nil {
		stopManager = stop
	}
	return err
}
