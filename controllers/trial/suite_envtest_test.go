// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package trial_test

import (
	"os"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/trial"
)

var (
	cluster *controllertest.Cluster
	agents  = &controllertest.Agents{}

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
		return trial.Setup(mgr, trial.Options{
			Topology: mgr.Topology,
			Client:   mgr.GetClient(), Reports: agentjob.Reports(mgr.Pool, "trial", agents),
			Attempts: agentjob.NewCluster(agentjob.Options{
				Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Authority: cluster.Authority(), Lifetime: time.Hour,
			}),
			Recorder: mgr.GetEventRecorder("lighterage-trial"), Clock: clock.RealClock{}, Cluster: "east",
			Image: agentpod.Image{Name: "registry.example/agent:test"}, Concurrency: 8,
		})
	})
	if err == nil {
		stopManager = stop
	}
	return err
}
