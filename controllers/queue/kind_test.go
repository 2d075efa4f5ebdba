// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/queue"
	"github.com/lighterage/lighterage/controllers/replicas/replicastest"
	"github.com/lighterage/lighterage/controllers/topology"
)

type running = replicastest.Running[*v1alpha1.Queue]

var kind = replicastest.Kind[*v1alpha1.Queue]{
	Agents: "members", Now: now, Image: image,
	New: func(policy string, placement v1alpha1.Placement) *v1alpha1.Queue {
		return newQueue(func(s *v1alpha1.QueueSpec) {
			s.Compression = &v1alpha1.QueueCompression{PolicyName: policy, Placement: placement}
		})
	},
	Beside: func() []client.Object { return nil },
	Reconciler: func(r *running, m replicastest.Manager) (reconcile.Reconciler, **topology.Topology) {
		reconciler := queue.NewReconciler(queue.Options{
			Client: r, Reader: r, Reports: controllertest.Asking[*wirev1.QueueReport](r.Agents.QueueReport),
			Lifetime: replicastest.Lifetime, Clock: r.Clock, Cluster: "east", Image: r.Image, Topology: m.Topology,
			Authority: m.Authority, Recorder: m.Recorder, Metrics: metrics.NewQueues(prometheus.NewRegistry(), now),
			Egress: m.Egress, Networks: m.Networks,
		})
		return reconciler, &reconciler.Topology
	},
	Say: func(r *running) {
		stores := &v1alpha1.ObjectStoreList{}
		if err := r.List(r.Context(), stores); err != nil {
			r.Fatal(err)
		}
		queues := &v1alpha1.QueueList{}
		if err := r.List(r.Context(), queues); err != nil {
			r.Fatal(err)
		}
		neighbours := queue.Neighbours{Stores: stores.Items, Queues: queues.Items}
		wanted, problem := queue.Want(r.Object, r.Policies(), r.Tariffs(), neighbours, true, r.Clock.Now())
		if problem != nil {
			r.Fatal(problem.Message)
		}
		report := serving(wanted, 0)
		report.Content = &wirev1.QueueContent{Leader: r.Pod.Name}
		if wanted.Config.GetChannel() != nil {
			report.Channel = &wirev1.ChannelStatus{State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Codec: "none"}
		}
		r.Agents.SayQueue(replicastest.AgentAddress, report)
	},
	Status: func(q *v1alpha1.Queue) replicastest.Status {
		return replicastest.Status{
			Conditions: q.Status.Conditions, Policy: q.Status.Policy, Placement: q.Status.Placement,
			Baseline: q.Status.CanaryBaseline,
		}
	},
	PodTemplate: func(q *v1alpha1.Queue) **v1alpha1.AgentPodTemplate { return &q.Spec.PodTemplate },
	Follow:      func(q *v1alpha1.Queue) { q.Spec.Limits.MaxMessages = ptr.To[int64](7) },
	Followed:    `"maxMessages":"7"`,
	Spoil: func(q *v1alpha1.Queue) {
		q.Spec.Authentication.ClientCertificates = &v1alpha1.QueueClientCertificates{CABundle: []byte("not a certificate")}
	},
	// What restarts the member would end it, as there is no node for the one that takes its place.
	Grow:   func(q *v1alpha1.Queue) { q.Spec.TLS = &v1alpha1.QueueTLS{SecretName: "orders-tls"} },
	Shrink: func(q *v1alpha1.Queue) { q.Spec.TLS = nil },
}

func TestKind(t *testing.T) { kind.Test(t) }
