// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/delivery"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/topology"
)

const attemptName = "ledger-a2b3c-1-01234567"

func endedFixture() (*v1alpha1.Delivery, *stubborn, reconcile.Reconciler) {
	object := &v1alpha1.Delivery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: attemptName, UID: "uid", Finalizers: []string{v1alpha1.Finalizer},
		},
		Status: v1alpha1.DeliveryStatus{Phase: v1alpha1.DeliveryStarting, Run: &v1alpha1.RunStatus{ID: "a2b3c", Attempt: 1}},
	}
	s := newStubborn(append(endedAgent(object, attemptName), object)...)
	return object, s, delivery.NewReconciler(delivery.Options{
		Client: s, Attempts: agentjob.NewCluster(agentjob.Options{Client: s, Reader: s}),
		Topology: topology.New(s), Reports: controllertest.Asking[*wirev1.Report](nil),
		Recorder: events.NewFakeRecorder(10), Clock: clock.RealClock{}, Cluster: "west",
	})
}

// stubborn is a cluster that at first refuses to delete Secrets, or to have the status written.
type stubborn struct {
	client.WithWatch
	deletes, writes error
}

func newStubborn(objects ...client.Object) *stubborn {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	s := &stubborn{}
	s.WithWatch = indextest.In(
		fake.NewClientBuilder().WithScheme(scheme),
	).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Delivery{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				if s.deletes != nil {
					return s.deletes
				}
				return c.Delete(ctx, object, options...)
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				if s.writes != nil {
					return s.writes
				}
				return c.SubResource(name).Patch(ctx, object, patch, options...)
			},
		}).Build()
	return s
}

// endedAgent is the Job, the pod and the Secret of an attempt that has succeeded.
func endedAgent(owner client.Object, name string) []client.Object {
	yes := true
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, UID: "job",
		OwnerReferences: []metav1.OwnerReference{
			{Kind: "Delivery", Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes},
		}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name + "-x",
			Labels:          map[string]string{batchv1.JobNameLabel: name, v1alpha1.DeliveryLabel: string(owner.GetUID())},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{
			{Name: agentpod.ContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		}},
	}
	return []client.Object{
		job, pod, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: attempt.SecretName(name, owner)}},
	}
}

// look reconciles once and says how far the Delivery is, and whether the Secret is there.
func look(
	t *testing.T, s *stubborn, r reconcile.Reconciler, object *v1alpha1.Delivery,
) (result reconcile.Result, secret bool, err error) {
	t.Helper()
	key := client.ObjectKeyFromObject(object)
	result, err = r.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
	if err := s.Get(context.Background(), key, object); err != nil {
		t.Fatal(err)
	}
	missing := s.Get(
		context.Background(), client.ObjectKey{Namespace: "bank", Name: attempt.SecretName(object.Name, object)},
		&corev1.Secret{},
	)
	return result, missing == nil, err
}

// TestNoKeyIsLeftBehind: the final status is written only when the Secret is gone, as nobody looks for it afterwards.
func TestNoKeyIsLeftBehind(t *testing.T) {
	object, s, r := endedFixture()
	failure := errors.New("the API server is busy")
	s.deletes = failure
	if _, secret, err := look(t, s, r, object); !errors.Is(err, failure) || !secret ||
		object.Status.Phase != v1alpha1.DeliveryStarting {
		t.Fatalf("%v, Secret there: %v, %s", err, secret, object.Status.Phase)
	}
	// A crash between the two leaves less than there was, and it is done again.
	s.deletes, s.writes = nil, failure
	if _, secret, err := look(t, s, r, object); !errors.Is(err, failure) || secret ||
		object.Status.Phase != v1alpha1.DeliveryStarting {
		t.Fatalf("%v, Secret there: %v, %s", err, secret, object.Status.Phase)
	}
	s.writes = nil
	if _, _, err := look(t, s, r, object); err != nil || object.Status.Phase != v1alpha1.DeliveryComplete {
		t.Fatalf("%v, %s", err, object.Status.Phase)
	}
}

// TestStaleRead: a conflict can be told from other errors, so that wake.Again looks again soon and logs nothing.
func TestStaleRead(t *testing.T) {
	object, s, r := endedFixture()
	s.writes = apierrors.NewConflict(
		schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "deliveries"}, object.Name, nil,
	)
	if _, _, err := look(t, s, r, object); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
}

// TestAgentIsWaitedForWhateverTheClocksSay: how long a deletion lasts is not measured between the API server's clock
// and the manager's, whichever is a day ahead. Before its agent has ended the Delivery keeps the place; for an agent
// that is lost it does not wait for long.
func TestAgentIsWaitedForWhateverTheClocksSay(t *testing.T) {
	for _, ahead := range []time.Duration{24 * time.Hour, 0, -24 * time.Hour} {
		object := &v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: attemptName, UID: "uid", Finalizers: []string{v1alpha1.Finalizer},
			DeletionTimestamp: &metav1.Time{Time: time.Now()},
		}}
		objects := append(endedAgent(object, attemptName), object)
		pod := objects[1].(*corev1.Pod)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
		pod.Labels[v1alpha1.DeliveryLabel] = "uid"
		own := clocktesting.NewFakePassiveClock(time.Now().Add(ahead))
		s := newStubborn(objects...)
		r := delivery.NewReconciler(delivery.Options{
			Client: s, Attempts: agentjob.NewCluster(agentjob.Options{Client: s, Reader: s}),
			Topology: topology.New(s), Reports: controllertest.Asking[*wirev1.Report](nil),
			Recorder: events.NewFakeRecorder(10), Clock: own, Cluster: "west",
		})
		begin := own.Now()
		for _, step := range []struct {
			after time.Duration
			gone  bool
		}{{0, false}, {time.Minute, false}, {3 * time.Minute, true}} {
			own.SetTime(begin.Add(step.after))
			if _, err := r.Reconcile(
				context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)},
			); err != nil {
				t.Fatal(err)
			}
			err := s.Get(context.Background(), client.ObjectKeyFromObject(object), &v1alpha1.Delivery{})
			if gone := apierrors.IsNotFound(err); gone != step.gone || err != nil && !gone {
				t.Errorf("manager ahead by %s, after %s: gone %v, want %v (%v)", ahead, step.after, gone, step.gone, err)
			}
		}
	}
}

// TestWithdrawnReceiverIsCounted: metrics get what an agent reported before its Delivery was deleted.
func TestWithdrawnReceiverIsCounted(t *testing.T) {
	object := &v1alpha1.Delivery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: attemptName, UID: "uid", Finalizers: []string{v1alpha1.Finalizer},
			DeletionTimestamp: &metav1.Time{Time: time.Now()},
		},
		Status: v1alpha1.DeliveryStatus{Phase: v1alpha1.DeliveryReceiving, Usage: &v1alpha1.UsageStatus{
			Receive: &v1alpha1.CPUUsage{ProcessSeconds: "3", DecompressSeconds: "1"}, WireBytes: 120,
		}},
	}
	s, registry := newStubborn(object), prometheus.NewRegistry()
	r := delivery.NewReconciler(delivery.Options{
		Client: s, Reader: s, Attempts: agentjob.NewCluster(agentjob.Options{Client: s, Reader: s}),
		Topology: topology.New(s), Reports: controllertest.Asking[*wirev1.Report](nil),
		Recorder: events.NewFakeRecorder(10), Clock: clock.RealClock{}, Cluster: "west",
		Metrics: metrics.NewDeliveries(registry),
	})
	for range 3 { // more often than is necessary
		if _, err := r.Reconcile(
			t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)},
		); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			sums[family.GetName()] += metric.GetCounter().GetValue()
		}
	}
	if sums["lighterage_deliveries_total"] != 1 || sums["lighterage_delivery_wire_bytes_total"] != 120 ||
		sums["lighterage_delivery_cpu_seconds_total"] != 3 {
		t.Errorf("counted are %v", sums)
	}
}
