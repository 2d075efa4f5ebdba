// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"errors"
	"testing"

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
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/transfer"
)

const attemptJob = "ledger-a2b3c-1"

func endedFixture() (*v1alpha1.Transfer, *stubborn, reconcile.Reconciler) {
	object := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "ledger", UID: "uid", Finalizers: []string{v1alpha1.Finalizer},
		},
		Status: v1alpha1.TransferStatus{Phase: v1alpha1.TransferStarting, Run: &v1alpha1.RunStatus{ID: "a2b3c", Attempt: 1}},
	}
	s := newStubborn(append(endedAgent(object, attemptJob), object)...)
	return object, s, transfer.NewReconciler(transfer.Options{
		Client: s, Attempts: agentjob.NewCluster(agentjob.Options{Client: s, Reader: s}), Topology: topology.New(s),
		Reports: controllertest.Asking[*wirev1.Report](nil), Metrics: metrics.NewTransfers(prometheus.NewRegistry()),
		Recorder: events.NewFakeRecorder(10), Clock: clock.RealClock{}, Cluster: "east",
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
	).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Transfer{}).
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
			{Kind: "Transfer", Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes},
		}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name + "-x",
			Labels:          map[string]string{batchv1.JobNameLabel: name, v1alpha1.TransferLabel: string(owner.GetUID())},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{
			{Name: agentpod.ContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		}},
	}
	return []client.Object{job, pod, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: attempt.SecretName(name, owner),
	}}}
}

// look reconciles once and says how far the Transfer is, and whether the Secret is there.
func look(
	t *testing.T, s *stubborn, r reconcile.Reconciler, object *v1alpha1.Transfer, name string,
) (result reconcile.Result, secret bool, err error) {
	t.Helper()
	key := client.ObjectKeyFromObject(object)
	result, err = r.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
	if err := s.Get(context.Background(), key, object); err != nil {
		t.Fatal(err)
	}
	missing := s.Get(context.Background(), client.ObjectKey{
		Namespace: "bank", Name: attempt.SecretName(name, object),
	}, &corev1.Secret{})
	return result, missing == nil, err
}

// TestNoKeyIsLeftBehind: the final status is written only when the Secret is gone, as nobody looks for it afterwards.
func TestNoKeyIsLeftBehind(t *testing.T) {
	object, s, r := endedFixture()
	failure := errors.New("the API server is busy")
	s.deletes = failure
	if _, secret, err := look(t, s, r, object, attemptJob); !errors.Is(err, failure) || !secret ||
		object.Status.Phase != v1alpha1.TransferStarting {
		t.Fatalf("%v, Secret there: %v, %s", err, secret, object.Status.Phase)
	}
	// A crash between the two leaves less than there was, and it is done again.
	s.deletes, s.writes = nil, failure
	if _, secret, err := look(t, s, r, object, attemptJob); !errors.Is(err, failure) || secret ||
		object.Status.Phase != v1alpha1.TransferStarting {
		t.Fatalf("%v, Secret there: %v, %s", err, secret, object.Status.Phase)
	}
	s.writes = nil
	if _, _, err := look(t, s, r, object, attemptJob); err != nil || object.Status.Phase != v1alpha1.TransferComplete {
		t.Fatalf("%v, %s", err, object.Status.Phase)
	}
}

// TestStaleRead: a conflict can be told from other errors, so that wake.Again looks again soon and logs nothing.
func TestStaleRead(t *testing.T) {
	object, s, r := endedFixture()
	s.writes = apierrors.NewConflict(
		schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "transfers"}, object.Name, nil,
	)
	if _, _, err := look(t, s, r, object, attemptJob); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
}
