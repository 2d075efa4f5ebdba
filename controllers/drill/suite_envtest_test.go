// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package drill_test

import (
	"os"
	"testing"

	"k8s.io/utils/clock"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/drill"
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
		return drill.Setup(mgr, drill.Options{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("lighterage-drill"), Clock: clock.RealClock{},
			Concurrency: 8,
		})
	})
	if err == nil {
		stopManager = stop
	}
	return err
}
