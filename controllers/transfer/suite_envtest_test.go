// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/receiptkey"
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
	os.Exit(controllertest.Main(m, &cluster, func() (func(), error) {
		return func() { stopManager() }, startManager()
	}))
}

// measured is what the manager was told of paths.
var measured pathCosts

type pathCosts struct {
	mu  sync.Mutex
	all []plan.PathCost
}

func (p *pathCosts) take(cost plan.PathCost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, cost)
}

// once is an error unless it was told once of a node.
func (p *pathCosts) once(node string, path v1alpha1.DataPathType, bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var said []plan.PathCost
	for _, cost := range p.all {
		if cost.Node == node {
			said = append(said, cost)
		}
	}
	if len(said) != 1 || said[0].Type != path || said[0].Bytes != bytes || said[0].CPU <= 0 {
		return fmt.Errorf("of paths of node %s the manager was told %+v", node, said)
	}
	return nil
}

// startManager runs the controller until stopManager is called.
func startManager(adjust ...func(*ctrl.Options)) error {
	stop, err := cluster.StartManager(func(mgr controllertest.Manager) error {
		cached = mgr.GetClient()
		return transfer.Setup(mgr, transfer.Options{
			Topology: mgr.Topology,
			Egress: egress.NewCluster(egress.Options{
				Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			}),
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Reports: agentjob.Reports(mgr.Pool, "transfer", agents),
			Gateways: gateways, Agents: agents,
			Keys: receiptkey.New(receiptkey.Options{
				Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{},
				Namespace: controllertest.OperatorNamespace, Cluster: "east",
			}),
			Attempts: agentjob.NewCluster(agentjob.Options{
				Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Authority: cluster.Authority(), Lifetime: time.Hour,
			}),
			Recorder: mgr.GetEventRecorder("lighterage-transfer"), Metrics: counters, Clock: &managerClock, Cluster: "east",
			Image: agentpod.Image{Name: "registry.example/agent:test"}, Concurrency: 8, Measured: measured.take,
		})
	}, adjust...)
	if err == nil {
		stopManager = stop
	}
	return err
}
