// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/topology"
)

// Main runs the tests of a package of controllers in a cluster of their own, while the manager runs that start starts
// there, and returns the exit code.
func Main(m *testing.M, cluster **Cluster, start func() (stop func(), err error)) int {
	ctrl.SetLogger(logr.Discard())
	var err error
	if *cluster, err = Start("../../config/crd/bases"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = (*cluster).Stop() }()
	stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	return m.Run()
}

// Manager is one with what controllers share.
type Manager struct {
	ctrl.Manager
	Topology *topology.Topology
	Pool     *agentpoll.Pool
}

// StartManager runs the controllers that setup registers until stop is called, which may be often. Managers may run one
// after the other in a process.
func (c *Cluster) StartManager(
	setup func(Manager) error, adjust ...func(*ctrl.Options),
) (stop func(), err error) {
	options := ctrl.Options{
		Scheme: c.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	for _, change := range adjust {
		change(&options)
	}
	mgr := Manager{}
	if mgr.Manager, err = ctrl.NewManager(c.Config, options); err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	if mgr.Topology, err = topology.Setup(context.Background(), mgr); err != nil {
		return nil, err
	}
	if mgr.Pool, err = Pool(mgr); err != nil {
		return nil, err
	}
	if err := setup(mgr); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel() // when it ends early the caches are never filled
		ended = mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		cancel()
		<-done
		return nil, fmt.Errorf("starting the manager: %w", ended)
	}
	return func() { cancel(); <-done }, nil
}
