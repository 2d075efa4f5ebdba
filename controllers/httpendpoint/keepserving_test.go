// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
)

const lifetime = 2 * time.Minute

// running is an HTTPEndpoint of one replica that is looked after step by step.
type running struct {
	*testing.T
	client.WithWatch
	clock      *clocktesting.FakePassiveClock
	agents     *controllertest.Agents
	reconciler *httpendpoint.Reconciler
	endpoint   *v1alpha1.HTTPEndpoint
	deployment *appsv1.Deployment
	image      plan.AgentImage
}

// begin has an endpoint run on a node with an accelerator.
func begin(t *testing.T, endpoint *v1alpha1.HTTPEndpoint, objects ...client.Object) *running {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects = append(objects, endpoint, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "api"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8080}}},
	}, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "z15-a", Labels: map[string]string{v1alpha1.DeflateLabel: "hardware"}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: endpoint.Namespace, Annotations: map[string]string{v1alpha1.AllowPrivilegedAnnotation: "true"},
	}})
	r := &running{
		T: t, endpoint: endpoint, image: image, deployment: &appsv1.Deployment{},
		clock:  clocktesting.NewFakePassiveClock(now),
		agents: &controllertest.Agents{},
		WithWatch: indextest.In(
			fake.NewClientBuilder().WithScheme(scheme),
		).WithObjects(objects...).WithStatusSubresource(endpoint, &appsv1.Deployment{}).Build(),
	}
	r.restart()
	r.look()
	var deployments appsv1.DeploymentList
	if err := r.List(t.Context(), &deployments); err != nil || len(deployments.Items) != 1 {
		t.Fatalf("%d Deployments, %v: %+v", len(deployments.Items), err, r.endpoint.Status.Conditions)
	}
	r.deployment = &deployments.Items[0]
	r.deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: r.deployment.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1,
	}
	if err := r.Status().Update(t.Context(), r.deployment); err != nil {
		t.Fatal(err)
	}
	replicas := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: r.deployment.Name + "-1", UID: "replicas"}}
	replica := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: endpoint.Namespace, Name: replicas.Name + "-a", Labels: r.deployment.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(replicas, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")),
			},
		},
		Spec:   corev1.PodSpec{NodeName: "z15-a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	}
	if err := r.Create(t.Context(), replica); err != nil {
		t.Fatal(err)
	}
	r.say()
	r.look()
	r.expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	return r
}

// restart is one of the manager, which forgets everything.
func (r *running) restart() {
	policies := interceptor.NewClient(r.WithWatch, interceptor.Funcs{Apply: controllertest.ApplyNetworkPolicy})
	r.reconciler = httpendpoint.NewReconciler(httpendpoint.Options{
		Client: r.WithWatch, Reader: r.WithWatch, Reports: controllertest.Asking[*wirev1.HTTPReport](r.agents.HTTPReport),
		Lifetime: lifetime, Clock: r.clock, Cluster: "east", Image: r.image,
		Topology: topology.New(r.WithWatch),
		Authority: pki.NewAuthority(
			pki.Options{Client: r.WithWatch, Reader: r.WithWatch, Clock: r.clock, Namespace: "operator", Cluster: "east"},
		),
		Recorder: events.NewFakeRecorder(100), Metrics: metrics.NewHTTPEndpoints(prometheus.NewRegistry(), now),
		Egress:   egress.NewCluster(egress.Options{Client: r.WithWatch, Reader: r.WithWatch, Clock: r.clock}),
		Networks: &networkpolicy.Keeper{Client: policies, Reader: r.WithWatch, OperatorNamespace: "operator"},
	})
}

// look reconciles, and reads what became of it.
func (r *running) look() {
	r.Helper()
	key := client.ObjectKeyFromObject(r.endpoint)
	if _, err := r.reconciler.Reconcile(context.Background(), ctrl.Request{NamespacedName: key}); err != nil {
		r.Fatal(err)
	}
	if err := r.Get(r.Context(), key, r.endpoint); err != nil {
		r.Fatal(err)
	}
}

func (r *running) secret() *corev1.Secret {
	r.Helper()
	secret := &corev1.Secret{}
	if err := r.Get(r.Context(), client.ObjectKeyFromObject(r.deployment), secret); err != nil {
		r.Fatal(err)
	}
	return secret
}

// say has the replica answer that it does what its Secret says.
func (r *running) say() {
	r.Helper()
	wanted, problem := httpendpoint.Want(r.endpoint, r.policies(), true)
	if problem != nil {
		r.Fatal(problem.Message)
	}
	r.agents.SayHTTP("10.0.0.1:9443", serving(wanted))
}

func (r *running) policies() []v1alpha1.CompressionPolicy {
	r.Helper()
	var list v1alpha1.CompressionPolicyList
	if err := r.List(r.Context(), &list); err != nil {
		r.Fatal(err)
	}
	return list.Items
}

func (r *running) expect(condition, reason string) {
	r.Helper()
	if err := controllertest.Expect(r.endpoint.Status.Conditions, condition, reason); err != nil {
		r.Fatalf("%v\n%+v", err, r.endpoint.Status.Conditions)
	}
}

// expectKept waits until the certificate has to be renewed, and expects that it is and that the replica is told nothing
// else.
func (r *running) expectKept() {
	r.Helper()
	before := r.secret()
	r.clock.SetTime(r.clock.Now().Add(lifetime/2 + time.Second))
	r.look()
	after := r.secret()
	if bytes.Equal(before.Data[corev1.TLSCertKey], after.Data[corev1.TLSCertKey]) {
		r.Error("the certificate is not renewed")
	}
	if got, want := compact(after.Data["config.json"]), compact(before.Data["config.json"]); got != want {
		r.Errorf("the replica is told %s, before %s", got, want)
	}
	deployment := &appsv1.Deployment{}
	if err := r.Get(r.Context(), client.ObjectKeyFromObject(r.deployment), deployment); err != nil {
		r.Fatal(err)
	}
	if deployment.Spec.Template.String() != r.deployment.Spec.Template.String() {
		r.Error("the replica would be recreated")
	}
}

// compact takes out the spaces, which are where the encoder likes.
func compact(json []byte) string { return strings.ReplaceAll(string(json), " ", "") }

func (r *running) update(change func()) {
	r.Helper()
	change()
	r.endpoint.Generation++
	if err := r.Update(r.Context(), r.endpoint); err != nil {
		r.Fatal(err)
	}
	r.look()
}

// plain has one replica and serves without TLS.
func plain(compression *v1alpha1.HTTPCompression) *v1alpha1.HTTPEndpoint {
	return newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) {
		s.Listener.TLS, s.Replicas, s.Compression = nil, ptr.To[int32](1), compression
	})
}

// TestPolicyGone: an endpoint goes on with a policy that is deleted, follows all else that its spec says, and says what
// is missing.
func TestPolicyGone(t *testing.T) {
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "high"}, Spec: v1alpha1.CompressionPolicySpec{Level: v1alpha1.CompressionHigh},
	}
	r := begin(t, plain(&v1alpha1.HTTPCompression{PolicyName: "high"}), policy)
	if err := r.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	r.expectKept()
	r.restart()
	r.expectKept()
	if r.endpoint.Status.Policy.Level != v1alpha1.CompressionHigh {
		t.Errorf("status shows policy %+v", r.endpoint.Status.Policy)
	}
	r.update(func() { r.endpoint.Spec.ContentTypes = []string{"text/csv"} })
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	if got := compact(r.secret().Data["config.json"]); !strings.Contains(got, "text/csv") ||
		!strings.Contains(got, "LEVEL_HIGH") {
		t.Errorf("the replica is told %s", got)
	}
}

// TestSpoiltSpec: replicas go on with what the spec said before it was spoilt, also when the manager remembers nothing
// of it.
func TestSpoiltSpec(t *testing.T) {
	endpoint := plain(nil)
	endpoint.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{
		SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
	}
	r := begin(t, endpoint)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: endpoint.Namespace}}
	if err := r.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPrivilegeNotAllowed)
	r.expectKept()
	r.restart()
	r.expectKept()
	r.update(func() {
		r.endpoint.Spec.Backend.TLS = &v1alpha1.HTTPBackendTLS{CABundle: []byte("not a certificate")}
		r.endpoint.Spec.PodTemplate = nil
	})
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)
	r.expectKept()
}

// TestCordoned: replicas that run well do not mind that no other could be placed. A change of what they are made from
// waits.
func TestCordoned(t *testing.T) {
	r := begin(t, plain(&v1alpha1.HTTPCompression{Placement: v1alpha1.PlacementRequireHardware}))
	node := &corev1.Node{}
	if err := r.Get(t.Context(), client.ObjectKey{Name: "z15-a"}, node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Unschedulable = true
	if err := r.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	r.reconciler.Topology = topology.New(r.WithWatch) // as after the event
	r.look()
	r.expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	r.expectKept()
	r.expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	r.update(func() { r.endpoint.Spec.ContentTypes = []string{"text/csv"} })
	if got := compact(r.secret().Data["config.json"]); !strings.Contains(got, "text/csv") {
		t.Errorf("the replica is told %s", got)
	}
	r.say()
	r.look()
	r.expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	r.update(func() { r.endpoint.Spec.Replicas = ptr.To[int32](2) })
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	r.expectKept()
	r.update(func() { r.endpoint.Spec.Replicas = ptr.To[int32](1) })
	r.expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	// A replica that lost its node waits for one.
	lost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.endpoint.Namespace, Name: r.deployment.Name + "-1-a"}}
	if err := r.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	if got := meta.FindStatusCondition(
		r.endpoint.Status.Conditions, v1alpha1.ConditionReady,
	).Message; !strings.Contains(got, "0 of 1 replicas have a node") ||
		!strings.Contains(got, "z15-a: cordoned") {
		t.Error(got)
	}
}

// TestFull: a replica that needs the accelerator and that the scheduler has no space for beside it: placement and
// Stalled say the same.
func TestFull(t *testing.T) {
	r := begin(t, plain(&v1alpha1.HTTPCompression{Placement: v1alpha1.PlacementRequireHardware}))
	replica := &corev1.Pod{}
	if err := r.Get(
		t.Context(), client.ObjectKey{Namespace: r.endpoint.Namespace, Name: r.deployment.Name + "-1-a"}, replica,
	); err != nil {
		t.Fatal(err)
	}
	replica.Spec.NodeName = ""
	if err := r.Update(t.Context(), replica); err != nil {
		t.Fatal(err)
	}
	replica.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 Insufficient cpu."},
	}}
	if err := r.Status().Update(t.Context(), replica); err != nil {
		t.Fatal(err)
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(r.deployment), r.deployment); err != nil {
		t.Fatal(err)
	}
	r.deployment.Status.ReadyReplicas = 0
	if err := r.Status().Update(t.Context(), r.deployment); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	where := r.endpoint.Status.Placement
	if where.Reason != v1alpha1.PlacementReasonNoRoom || len(where.Alternatives) != 1 ||
		where.Alternatives[0].Reason != v1alpha1.PlacementReasonNoRoom {
		t.Errorf("%+v", where)
	}
	got := meta.FindStatusCondition(r.endpoint.Status.Conditions, v1alpha1.ConditionStalled).Message
	for _, words := range []string{
		"0 of 1 replicas are ready", where.Message, "free resources there", "choose PreferHardware", "1 Insufficient cpu",
	} {
		if !strings.Contains(got, words) {
			t.Errorf("%q lacks %q", got, words)
		}
	}
}
