// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

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
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/queue"
	"github.com/lighterage/lighterage/controllers/topology"
)

const lifetime = 2 * time.Minute

// running is a Queue of one member that is looked after step by step.
type running struct {
	*testing.T
	client.WithWatch
	clock      *clocktesting.FakePassiveClock
	agents     *controllertest.Agents
	reconciler *queue.Reconciler
	queue      *v1alpha1.Queue
	set        *appsv1.StatefulSet
	image      plan.AgentImage
}

// begin has a Queue run on a node with an accelerator.
func begin(t *testing.T, q *v1alpha1.Queue, objects ...client.Object) *running {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects = append(objects, q, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "z15-a", Labels: map[string]string{v1alpha1.DeflateLabel: "hardware"}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: q.Namespace, Annotations: map[string]string{v1alpha1.AllowPrivilegedAnnotation: "true"},
	}})
	r := &running{
		T: t, queue: q, image: image, set: &appsv1.StatefulSet{}, clock: clocktesting.NewFakePassiveClock(now),
		agents: &controllertest.Agents{},
		WithWatch: indextest.In(
			fake.NewClientBuilder().WithScheme(scheme),
		).WithObjects(objects...).WithStatusSubresource(q, &appsv1.StatefulSet{}).Build(),
	}
	r.restart()
	r.look()
	var sets appsv1.StatefulSetList
	if err := r.List(t.Context(), &sets); err != nil || len(sets.Items) != 1 {
		t.Fatalf("%d StatefulSets, %v: %+v", len(sets.Items), err, r.queue.Status.Conditions)
	}
	r.set = &sets.Items[0]
	r.set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: r.set.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1,
	}
	if err := r.Status().Update(t.Context(), r.set); err != nil {
		t.Fatal(err)
	}
	member := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: q.Namespace, Name: r.set.Name + "-0", Labels: r.set.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(r.set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
			},
		},
		Spec:   corev1.PodSpec{NodeName: "z15-a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	}
	if err := r.Create(t.Context(), member); err != nil {
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
	r.reconciler = queue.NewReconciler(queue.Options{
		Client: r.WithWatch, Reader: r.WithWatch, Reports: controllertest.Asking[*wirev1.QueueReport](r.agents.QueueReport),
		Lifetime: lifetime, Clock: r.clock, Cluster: "east", Image: r.image,
		Topology: topology.New(r.WithWatch),
		Authority: pki.NewAuthority(
			pki.Options{Client: r.WithWatch, Reader: r.WithWatch, Clock: r.clock, Namespace: "operator", Cluster: "east"},
		),
		Recorder: events.NewFakeRecorder(100), Metrics: metrics.NewQueues(prometheus.NewRegistry(), now),
		Egress:   egress.NewCluster(egress.Options{Client: r.WithWatch, Reader: r.WithWatch, Clock: r.clock}),
		Networks: &networkpolicy.Keeper{Client: policies, Reader: r.WithWatch, OperatorNamespace: "operator"},
	})
}

// look reconciles, and reads what became of it.
func (r *running) look() {
	r.Helper()
	key := client.ObjectKeyFromObject(r.queue)
	if _, err := r.reconciler.Reconcile(context.Background(), ctrl.Request{NamespacedName: key}); err != nil {
		r.Fatal(err)
	}
	if err := r.Get(r.Context(), key, r.queue); err != nil {
		r.Fatal(err)
	}
}

func (r *running) secret() *corev1.Secret {
	r.Helper()
	secret := &corev1.Secret{}
	if err := r.Get(r.Context(), client.ObjectKeyFromObject(r.set), secret); err != nil {
		r.Fatal(err)
	}
	return secret
}

// say has the member answer that it does what its Secret says.
func (r *running) say() {
	r.Helper()
	wanted, problem := queue.Want(r.queue, r.policies(), queue.Neighbours{}, true)
	if problem != nil {
		r.Fatal(problem.Message)
	}
	report := serving(wanted, 0)
	report.Content = &wirev1.QueueContent{Leader: r.set.Name + "-0"}
	r.agents.SayQueue("10.0.0.1:9443", report)
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
	if err := controllertest.Expect(r.queue.Status.Conditions, condition, reason); err != nil {
		r.Fatalf("%v\n%+v", err, r.queue.Status.Conditions)
	}
}

// expectKept waits until the certificate has to be renewed, and expects that it is and that the member is told nothing
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
		r.Errorf("the member is told %s, before %s", got, want)
	}
	set := &appsv1.StatefulSet{}
	if err := r.Get(r.Context(), client.ObjectKeyFromObject(r.set), set); err != nil {
		r.Fatal(err)
	}
	if set.Spec.Template.String() != r.set.Spec.Template.String() {
		r.Error("the member would be recreated")
	}
}

// compact takes out the spaces, which are where the encoder likes.
func compact(json []byte) string { return strings.ReplaceAll(string(json), " ", "") }

func (r *running) update(change func()) {
	r.Helper()
	change()
	r.queue.Generation++
	if err := r.Update(r.Context(), r.queue); err != nil {
		r.Fatal(err)
	}
	r.look()
}

// TestPolicyGone: a Queue goes on with a policy that is deleted, follows all else that its spec says, and says what is
// missing.
func TestPolicyGone(t *testing.T) {
	q := newQueue(func(s *v1alpha1.QueueSpec) { s.Compression = &v1alpha1.QueueCompression{PolicyName: "high"} })
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "high"}, Spec: v1alpha1.CompressionPolicySpec{Level: v1alpha1.CompressionHigh},
	}
	r := begin(t, q, policy)
	if err := r.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	r.expectKept()
	r.restart()
	r.expectKept()
	if r.queue.Status.Policy.Level != v1alpha1.CompressionHigh {
		t.Errorf("status shows policy %+v", r.queue.Status.Policy)
	}
	r.update(func() { r.queue.Spec.Limits.MaxMessages = ptr.To[int64](7) })
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	if got := compact(r.secret().Data["config.json"]); !strings.Contains(got, `"maxMessages":"7"`) ||
		!strings.Contains(got, "LEVEL_HIGH") {
		t.Errorf("the member is told %s", got)
	}
}

// TestSpoiltSpec: members go on with what the spec said before it was spoilt, also when the manager remembers nothing
// of it.
func TestSpoiltSpec(t *testing.T) {
	q := newQueue(func(s *v1alpha1.QueueSpec) {
		s.PodTemplate = &v1alpha1.AgentPodTemplate{SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}}
	})
	r := begin(t, q)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: q.Namespace}}
	if err := r.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonPrivilegeNotAllowed)
	r.expectKept()
	r.restart()
	r.expectKept()
	r.update(func() {
		r.queue.Spec.Authentication.ClientCertificates = &v1alpha1.QueueClientCertificates{
			CABundle: []byte("not a certificate"),
		}
		r.queue.Spec.PodTemplate = nil
	})
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)
	r.expectKept()
}

// TestCordoned: members that run well do not mind that no other could be placed. What would stop one waits.
func TestCordoned(t *testing.T) {
	q := newQueue(func(s *v1alpha1.QueueSpec) {
		s.Compression = &v1alpha1.QueueCompression{Placement: v1alpha1.PlacementRequireHardware}
	})
	r := begin(t, q)
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

	r.update(func() { r.queue.Spec.Limits.MaxMessages = ptr.To[int64](7) })
	if got := compact(r.secret().Data["config.json"]); !strings.Contains(got, `"maxMessages":"7"`) {
		t.Errorf("the member is told %s", got)
	}
	r.say()
	r.look()
	r.expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	// What restarts the member would end it, as there is no node for the one that takes its place.
	r.update(func() { r.queue.Spec.TLS = &v1alpha1.QueueTLS{SecretName: "orders-tls"} })
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	r.expectKept()
	r.update(func() { r.queue.Spec.TLS = nil })
	r.expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	// A member that lost its node waits for one.
	if err := r.Delete(
		t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: r.set.Name + "-0"}},
	); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	if got := meta.FindStatusCondition(
		r.queue.Status.Conditions, v1alpha1.ConditionReady,
	).Message; !strings.Contains(got, "0 of 1 members have a node") ||
		!strings.Contains(got, "z15-a: cordoned") {
		t.Error(got)
	}
}

// TestFull: a member that needs the accelerator and that the scheduler has no space for beside it: placement and
// Stalled say the same.
func TestFull(t *testing.T) {
	r := begin(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Compression = &v1alpha1.QueueCompression{Placement: v1alpha1.PlacementRequireHardware}
	}))
	member := &corev1.Pod{}
	if err := r.Get(
		t.Context(), client.ObjectKey{Namespace: r.queue.Namespace, Name: r.set.Name + "-0"}, member,
	); err != nil {
		t.Fatal(err)
	}
	member.Spec.NodeName = ""
	if err := r.Update(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	member.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 Insufficient cpu."},
	}}
	if err := r.Status().Update(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(r.set), r.set); err != nil {
		t.Fatal(err)
	}
	r.set.Status.ReadyReplicas = 0
	if err := r.Status().Update(t.Context(), r.set); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	where := r.queue.Status.Placement
	if where.Reason != v1alpha1.PlacementReasonNoRoom || len(where.Alternatives) != 1 ||
		where.Alternatives[0].Reason != v1alpha1.PlacementReasonNoRoom {
		t.Errorf("%+v", where)
	}
	got := meta.FindStatusCondition(r.queue.Status.Conditions, v1alpha1.ConditionStalled).Message
	for _, words := range []string{
		"0 of 1 members are ready", where.Message, "free resources there", "choose PreferHardware", "1 Insufficient cpu",
	} {
		if !strings.Contains(got, words) {
			t.Errorf("%q lacks %q", got, words)
		}
	}
}
