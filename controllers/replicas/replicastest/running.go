// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicastest looks after objects whose agents run all the time step by step, and tests what controllers of
// such kinds have in common.
package replicastest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/topology"
)

// Lifetime of agents' certificates.
const Lifetime = 2 * time.Minute

// AgentAddress is where the agent is asked.
const AgentAddress = "10.0.0.1:9443"

// Running is an object of one agent that is looked after step by step, and its cluster.
type Running[O client.Object] struct {
	*testing.T
	client.WithWatch
	Clock      *clocktesting.FakePassiveClock
	Agents     *controllertest.Agents
	Reconciler reconcile.Reconciler
	// Object that is looked after, as it was after the last look.
	Object O
	// Workload is its Deployment or StatefulSet, and Pod the one of that.
	Workload client.Object
	Pod      *corev1.Pod
	// Image takes effect with the next Restart.
	Image agentpod.Image

	kind *Kind[O]
	seen **topology.Topology
	// again is how soon the last look wants to be repeated.
	again time.Duration
}

// Manager is what controllers get of the manager that they run in.
type Manager struct {
	Topology  *topology.Topology
	Authority *pki.Authority
	Recorder  events.EventRecorder
	Egress    *egress.Cluster
	Networks  *networkpolicy.Keeper
}

// Begin has an object run on the node z15-a, which has an accelerator, beside other objects.
func (k *Kind[O]) Begin(t *testing.T, object O, others ...client.Object) *Running[O] {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	others = append(others, object, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "z15-a", Labels: map[string]string{v1alpha1.DeflateLabel: "hardware"}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: object.GetNamespace(), Annotations: map[string]string{v1alpha1.AllowPrivilegedAnnotation: "true"},
	}})
	r := &Running[O]{
		T: t, kind: k, Object: object, Image: k.Image, Clock: clocktesting.NewFakePassiveClock(k.Now),
		Agents: &controllertest.Agents{},
		WithWatch: indextest.In(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(append(others, k.Beside()...)...).
			WithStatusSubresource(object, &appsv1.Deployment{}, &appsv1.StatefulSet{}).Build(),
	}
	r.Restart()
	r.Look()
	workloads := r.workloads()
	if len(workloads) != 1 {
		t.Fatalf("%d workloads: %+v", len(workloads), k.Status(r.Object).Conditions)
	}
	r.Workload = workloads[0]
	r.becomes(r.Workload, 1)
	r.Pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: r.Workload.GetName() + "-0", Labels: template(r.Workload).Labels,
			OwnerReferences: []metav1.OwnerReference{podOwner(r.Workload)},
		},
		Spec:   corev1.PodSpec{NodeName: "z15-a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	}
	if err := r.Create(t.Context(), r.Pod); err != nil {
		t.Fatal(err)
	}
	k.Say(r)
	r.Look()
	r.Expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	return r
}

// podOwner is what the controller of a workload would have own pods.
func podOwner(workload client.Object) metav1.OwnerReference {
	if _, ok := workload.(*appsv1.Deployment); ok {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: workload.GetName() + "-1", UID: "replicas"}}
		return *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	}
	return *metav1.NewControllerRef(workload, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
}

func template(workload client.Object) *corev1.PodTemplateSpec {
	if deployment, ok := workload.(*appsv1.Deployment); ok {
		return &deployment.Spec.Template
	}
	return &workload.(*appsv1.StatefulSet).Spec.Template
}

// workloads are the Deployments and StatefulSets that there are.
func (r *Running[O]) workloads() (all []client.Object) {
	r.Helper()
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}} {
		if err := r.List(r.Context(), list); err != nil {
			r.Fatal(err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			all = append(all, item.(client.Object))
			return nil
		})
	}
	return all
}

// becomes says that a workload has the one pod that it wants, which is ready if ready is 1.
func (r *Running[O]) becomes(workload client.Object, ready int32) {
	r.Helper()
	switch w := workload.(type) {
	case *appsv1.Deployment:
		w.Status = appsv1.DeploymentStatus{
			ObservedGeneration: w.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: ready,
		}
	case *appsv1.StatefulSet:
		w.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: w.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: ready,
		}
	}
	if err := r.Status().Update(r.Context(), workload); err != nil {
		r.Fatal(err)
	}
}

// Restart is one of the manager, which forgets everything.
func (r *Running[O]) Restart() {
	policies := interceptor.NewClient(r.WithWatch, interceptor.Funcs{Apply: controllertest.ApplyNetworkPolicy})
	r.Reconciler, r.seen = r.kind.Reconciler(r, Manager{
		Topology: topology.New(r.WithWatch),
		Authority: pki.NewAuthority(
			pki.Options{Client: r.WithWatch, Reader: r.WithWatch, Clock: r.Clock, Namespace: "operator", Cluster: "east"},
		),
		Recorder: events.NewFakeRecorder(100),
		Egress:   egress.NewCluster(egress.Options{Client: r.WithWatch, Reader: r.WithWatch, Clock: r.Clock}),
		Networks: &networkpolicy.Keeper{Client: policies, Reader: r.WithWatch, OperatorNamespace: "operator"},
	})
}

// Look reconciles, and reads what became of the object.
func (r *Running[O]) Look() {
	r.Helper()
	r.reconcile(r.Object)
	if err := r.Get(r.Context(), client.ObjectKeyFromObject(r.Object), r.Object); err != nil {
		r.Fatal(err)
	}
}

func (r *Running[O]) reconcile(object client.Object) {
	r.Helper()
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	result, err := r.Reconciler.Reconcile(r.Context(), request)
	if err != nil {
		r.Fatal(err)
	}
	r.again = result.RequeueAfter
}

// Change changes the object's spec, and looks at it.
func (r *Running[O]) Change(change func(O)) {
	r.Helper()
	change(r.Object)
	r.Object.SetGeneration(r.Object.GetGeneration() + 1)
	if err := r.Update(r.Context(), r.Object); err != nil {
		r.Fatal(err)
	}
	r.Look()
}

// Policies are all that there are.
func (r *Running[O]) Policies() []v1alpha1.CompressionPolicy {
	r.Helper()
	var list v1alpha1.CompressionPolicyList
	if err := r.List(r.Context(), &list); err != nil {
		r.Fatal(err)
	}
	return list.Items
}

// Tariffs are all that there are.
func (r *Running[O]) Tariffs() []v1alpha1.Tariff {
	r.Helper()
	var list v1alpha1.TariffList
	if err := r.List(r.Context(), &list); err != nil {
		r.Fatal(err)
	}
	return list.Items
}

// Secret is the agent's.
func (r *Running[O]) Secret() *corev1.Secret {
	r.Helper()
	secret := &corev1.Secret{}
	if err := r.Get(r.Context(), client.ObjectKeyFromObject(r.Workload), secret); err != nil {
		r.Fatal(err)
	}
	return secret
}

// config is what the agent is told, without the spaces, which are where the encoder likes.
func (r *Running[O]) config() string {
	r.Helper()
	return strings.ReplaceAll(string(r.Secret().Data["config.json"]), " ", "")
}

// Dials reports whether the NetworkPolicy admits a port of whatever is dialled.
func (r *Running[O]) Dials(port intstr.IntOrString) bool {
	r.Helper()
	var list networkingv1.NetworkPolicyList
	if err := r.List(r.Context(), &list); err != nil || len(list.Items) != 1 {
		r.Fatalf("%d NetworkPolicies, %v", len(list.Items), err)
	}
	return slices.ContainsFunc(list.Items[0].Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return *p.Port == port })
	})
}

// Expect stops the test if the conditions of the object say something else.
func (r *Running[O]) Expect(condition, reason string) {
	r.Helper()
	if err := controllertest.Expect(r.kind.Status(r.Object).Conditions, condition, reason); err != nil {
		r.Fatal(err)
	}
}

// ExpectKept waits until the certificate has to be renewed, and expects that it is and that the agent is told nothing
// else.
func (r *Running[O]) ExpectKept() {
	r.Helper()
	certificate, config := r.Secret().Data[corev1.TLSCertKey], r.config()
	r.Clock.SetTime(r.Clock.Now().Add(Lifetime/2 + time.Second))
	r.Look()
	if bytes.Equal(certificate, r.Secret().Data[corev1.TLSCertKey]) {
		r.Error("the certificate is not renewed")
	}
	if got := r.config(); got != config {
		r.Errorf("the agent is told %s, before %s", got, config)
	}
	if got := r.workloads()[0]; template(got).String() != template(r.Workload).String() {
		r.Error("the agent would be recreated")
	}
}
