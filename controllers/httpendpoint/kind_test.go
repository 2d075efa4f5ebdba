// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/replicas/replicastest"
	"github.com/lighterage/lighterage/controllers/topology"
)

type running = replicastest.Running[*v1alpha1.HTTPEndpoint]

var kind = replicastest.Kind[*v1alpha1.HTTPEndpoint]{
	Agents: "replicas", Now: now, Image: image,
	New: func(policy string, placement v1alpha1.Placement) *v1alpha1.HTTPEndpoint {
		endpoint := plain()
		endpoint.Spec.Compression = &v1alpha1.HTTPCompression{PolicyName: policy, Placement: placement}
		return endpoint
	},
	Beside: func() []client.Object {
		return []client.Object{&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "api"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8080}}},
		}}
	},
	Reconciler: func(r *running, m replicastest.Manager) (reconcile.Reconciler, **topology.Topology) {
		reconciler := httpendpoint.NewReconciler(httpendpoint.Options{
			Client: r, Reader: r, Reports: controllertest.Asking[*wirev1.HTTPReport](r.Agents.HTTPReport),
			Lifetime: replicastest.Lifetime, Clock: r.Clock, Cluster: "east", Image: r.Image, Topology: m.Topology,
			Authority: m.Authority, Recorder: m.Recorder, Metrics: metrics.NewHTTPEndpoints(prometheus.NewRegistry(), now),
			Egress: m.Egress, Networks: m.Networks,
		})
		return reconciler, &reconciler.Topology
	},
	Say: func(r *running) {
		wanted, problem := httpendpoint.Want(r.Object, r.Policies(), r.Tariffs(), true, r.Clock.Now())
		if problem != nil {
			r.Fatal(problem.Message)
		}
		r.Agents.SayHTTP(replicastest.AgentAddress, serving(wanted))
	},
	Status: func(e *v1alpha1.HTTPEndpoint) replicastest.Status {
		return replicastest.Status{
			Conditions: e.Status.Conditions, Policy: e.Status.Policy, Placement: e.Status.Placement,
			Baseline: e.Status.CanaryBaseline,
		}
	},
	PodTemplate: func(e *v1alpha1.HTTPEndpoint) **v1alpha1.AgentPodTemplate { return &e.Spec.PodTemplate },
	Follow:      func(e *v1alpha1.HTTPEndpoint) { e.Spec.ContentTypes = []string{"text/csv"} },
	Followed:    "text/csv",
	Spoil: func(e *v1alpha1.HTTPEndpoint) {
		e.Spec.Backend.TLS = &v1alpha1.HTTPBackendTLS{CABundle: []byte("not a certificate")}
	},
	Grow:   func(e *v1alpha1.HTTPEndpoint) { e.Spec.Replicas = ptr.To[int32](2) },
	Shrink: func(e *v1alpha1.HTTPEndpoint) { e.Spec.Replicas = ptr.To[int32](1) },
}

func TestKind(t *testing.T) { kind.Test(t) }

// plain has one replica and serves without TLS.
func plain() *v1alpha1.HTTPEndpoint {
	return newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) {
		s.Listener.TLS, s.Replicas = nil, ptr.To[int32](1)
	})
}
