// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bed is a cluster full of objects in which the operator's manager and gateway can be started, stopped and
// looked at.
package bed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
	"github.com/lighterage/lighterage/test/render"
)

const (
	// pause between two looks at how far something has come.
	pause = time.Second
	// installation is how long a manager may take in an empty cluster. It is for a busy machine.
	installation = 2 * time.Minute
)

// ErrEnded says that the manager has ended by itself.
var ErrEnded = errors.New("the manager has ended")

// Bed is made by Start.
type Bed struct {
	World   fleet.World
	Cluster *controlplane.Cluster
	Fleet   *fleet.Fleet
	// Manager and Gateway are nil while there is none.
	Manager, Gateway *controlplane.Program
}

// Start starts a control plane in the sandbox of that directory, has a manager install what the operator needs, fills
// the cluster while there is none, and starts a gateway.
func Start(ctx context.Context, world fleet.World, directory, logs string) (b *Bed, err error) {
	b = &Bed{World: world}
	if b.Cluster, err = controlplane.Start(ctx, directory, logs); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.Fleet, err = fleet.Start(ctx, fleet.Options{
		World: world, Config: b.Cluster.Config, Client: b.Cluster.Client,
		AsManager: b.Cluster.As(controlplane.Manager), AsGateway: b.Cluster.As(controlplane.Gateway),
	}); err != nil {
		return nil, err
	}
	if err := b.install(ctx); err != nil {
		return nil, err
	}
	if err := b.Fleet.Populate(ctx); err != nil {
		return nil, err
	}
	b.Gateway, err = b.Cluster.StartGateway(ctx)
	return b, err
}

// install has a manager make the CA and what it issues for the gateway and the node agents.
func (b *Bed) install(ctx context.Context) error {
	if err := b.StartManager(); err != nil {
		return err
	}
	took, err := b.Until(ctx, installation, func() (bool, error) {
		for _, name := range []string{pki.GatewaySecret, pki.NodeAgentSecret} {
			if err := b.Cluster.Client.Get(ctx, client.ObjectKey{Namespace: render.Namespace, Name: name},
				&corev1.Secret{}); err != nil {
				return false, client.IgnoreNotFound(err)
			}
		}
		return true, nil
	})
	switch {
	case errors.Is(err, ErrEnded):
		return b.Manager.Failure()
	case err == nil && took == 0:
		return fmt.Errorf("the manager has made no certificates within %s", installation)
	case err != nil:
		return err
	}
	return b.StopManager()
}

// Close ends everything.
func (b *Bed) Close() error {
	var errs []error
	for _, program := range []*controlplane.Program{b.Manager, b.Gateway} {
		if program != nil {
			errs = append(errs, program.Stop())
		}
	}
	if b.Fleet != nil {
		b.Fleet.Close()
	}
	return errors.Join(append(errs, b.Cluster.Stop())...)
}

// StartManager starts one.
func (b *Bed) StartManager() (err error) {
	b.Manager, err = b.Cluster.StartManager()
	return err
}

// StopManager stops the one that runs.
func (b *Bed) StopManager() error {
	err := b.Manager.Stop()
	b.Manager = nil
	return err
}

// Until looks again and again until done. It returns how long that took since the manager was started, and 0 when it
// took longer than patience.
func (b *Bed) Until(ctx context.Context, patience time.Duration, done func() (bool, error)) (time.Duration, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		reached, err := done()
		if err != nil {
			return 0, err
		}
		if reached {
			return time.Since(b.Manager.Began), nil
		}
		if err := b.Wait(ctx, pause); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Wait waits while the manager runs; ErrEnded says that it does not any more.
func (b *Bed) Wait(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.Manager.Ended():
		return ErrEnded
	case <-time.After(length):
		return nil
	}
}

// Missing says what does not run yet, empty if everything does: every agent was asked, every run has progress, and
// every Queue and HTTPEndpoint is Ready.
func (b *Bed) Missing(ctx context.Context) (string, error) {
	reached := b.Fleet.Asked().Reached
	for _, kind := range b.World.Expected() {
		if n := reached[kind.Name]; n < kind.Agents {
			return fmt.Sprintf("%d of %d %s were asked", n, kind.Agents, kind.Name), nil
		}
	}
	record, err := b.Cluster.Ledger.Read()
	if err != nil {
		return "", err
	}
	if runs := b.World.Admitted() + b.World.RunningTransfers(); len(record.Runs) < runs {
		return fmt.Sprintf("%d of %d running Transfers and Deliveries have progress", len(record.Runs), runs), nil
	}
	queues, endpoints := &v1alpha1.QueueList{}, &v1alpha1.HTTPEndpointList{}
	// From the API server's memory: what is asked here must not cost more than what is measured.
	cached := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	if err := errors.Join(b.Cluster.Client.List(ctx, queues, cached),
		b.Cluster.Client.List(ctx, endpoints, cached)); err != nil {
		return "", fmt.Errorf("list Queues and HTTPEndpoints: %w", err)
	}
	waiting := map[string]int{}
	note := func(kind string, conditions []metav1.Condition) {
		ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
		if ready == nil {
			waiting[kind+" without conditions"]++
		} else if ready.Status != metav1.ConditionTrue {
			waiting[kind+" "+ready.Reason]++
		}
	}
	for i := range queues.Items {
		note("Queue", queues.Items[i].Status.Conditions)
	}
	for i := range endpoints.Items {
		note("HTTPEndpoint", endpoints.Items[i].Status.Conditions)
	}
	if len(waiting) > 0 {
		return fmt.Sprintf("not ready: %v", waiting), nil
	}
	return "", nil
}

// Ended is how many runs of Transfers have succeeded since the manager was started.
func (b *Bed) Ended(ctx context.Context) (int, error) {
	metrics, err := b.Cluster.ManagerMetrics(ctx)
	return int(metrics.Of("lighterage_transfer_runs_total", "outcome", "Succeeded").Sum()), err
}

// Observed reports whether every object of the operator's kinds was looked at since the manager was started.
func (b *Bed) Observed(ctx context.Context) bool {
	metrics, err := b.Cluster.ManagerMetrics(ctx)
	if err != nil {
		return false // it does not serve yet
	}
	for name, objects := range map[string]int{
		"transfer": b.World.Transfers, "delivery": b.World.Transfers, "queue": b.World.Queues,
		"httpendpoint": b.World.Endpoints,
		"peer":         b.World.Peers, "nodeprofile": b.World.Nodes, "peergrant": b.World.Namespaces,
	} {
		if metrics.Of(reconciles, controller,
			name).Sum() < float64(objects) || waiting(metrics.Of(depth, controller, name)) {
			return false
		}
	}
	return true
}

// waiting reports whether any of what was there when a manager started has not been looked at: that has a priority
// below 0.
func waiting(depths controlplane.Metrics) bool {
	for series, n := range depths {
		priority := controlplane.Label(series, "priority")
		if n > 0 && (priority == "" || strings.HasPrefix(priority, "-")) {
			return true
		}
	}
	return false
}
