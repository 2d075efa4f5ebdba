// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/wake"
)

func newCluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return indextest.In(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(objects...).Build()
}

func transfer(namespace, name string) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)},
	}
}

func queue(namespace, name string) *v1alpha1.Queue {
	return &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)},
	}
}

// TestLabelled: the label is tenants' input, so it finds nothing in another namespace.
func TestLabelled(t *testing.T) {
	c := newCluster(t, queue("bank", "ledger"), queue("bank", "other"), queue("shop", "ledger"))
	of := wake.Labelled(c, func() client.ObjectList { return &v1alpha1.QueueList{} }, v1alpha1.QueueLabel)
	for uid, want := range map[string][]reconcile.Request{
		"bank-ledger": {{NamespacedName: client.ObjectKey{Namespace: "bank", Name: "ledger"}}},
		"shop-ledger": nil,
		"":            nil,
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Labels: map[string]string{v1alpha1.QueueLabel: uid}},
		}
		if got := of(context.Background(), pod); !slices.Equal(got, want) {
			t.Errorf("%q: %v", uid, got)
		}
	}
}

// TestOfAttempt: the Job names the owner, and without it the label does. Both are tenants' input, so they find nothing
// in another namespace.
func TestOfAttempt(t *testing.T) {
	ledger := transfer("bank", "ledger")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: "ledger-1", UID: "job", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(ledger, v1alpha1.GroupVersion.WithKind("Transfer")),
		},
	}}
	c := newCluster(t, ledger, transfer("bank", "other"), transfer("shop", "ledger"), job)
	of := wake.OfAttempt(
		c, "Transfer", func() client.ObjectList { return &v1alpha1.TransferList{} }, v1alpha1.TransferLabel,
	)
	found := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(ledger)}}
	other := []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "bank", Name: "other"}}}
	for name, test := range map[string]struct {
		uid, job string
		want     []reconcile.Request
	}{
		"of its Job":                {"bank-ledger", "ledger-1", found},
		"of a Job that is gone":     {"bank-ledger", "ledger-0", found},
		"of no Job":                 {"bank-ledger", "", found},
		"label and Job differ":      {"bank-other", "ledger-1", other},
		"of another namespace's":    {"shop-ledger", "", nil},
		"without a label":           {"", "ledger-1", nil},
		"of a Transfer that is not": {"bank-none", "ledger-0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Labels: map[string]string{v1alpha1.TransferLabel: test.uid}},
			}
			if test.job != "" {
				owner := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: test.job, UID: "job"}}
				pod.OwnerReferences = []metav1.OwnerReference{
					*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("Job")),
				}
			}
			if got := of(context.Background(), pod); !slices.Equal(got, test.want) {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestOfPolicy: those that name none depend on the default policy.
func TestOfPolicy(t *testing.T) {
	named, none, other := transfer("bank", "named"), transfer("shop", "none"), transfer("bank", "other")
	named.Spec.Compression = &v1alpha1.Compression{PolicyName: "fast"}
	other.Spec.Compression = &v1alpha1.Compression{PolicyName: "high"}
	named.Status.Policy, other.Status.Policy = &v1alpha1.PolicyStatus{Name: "fast"}, &v1alpha1.PolicyStatus{Name: "high"}
	of := wake.OfPolicy(newCluster(t, named, none, other), func() client.ObjectList { return &v1alpha1.TransferList{} })
	policy := &v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	want := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(named)}}
	if got := of(context.Background(), policy); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	policy.Annotations = map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"}
	want = append(want, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(none)})
	if got := of(context.Background(), policy); !slices.Equal(got, want) {
		t.Errorf("of the default: %v", got)
	}
}

// TestOfLocalPolicy: it is of its namespace, and what it applies to has its prices from the default one.
func TestOfLocalPolicy(t *testing.T) {
	here, there := transfer("bank", "here"), transfer("shop", "there")
	for _, one := range []*v1alpha1.Transfer{here, there} {
		one.Spec.Compression = &v1alpha1.Compression{PolicyName: "fast"}
	}
	here.Status.Policy = &v1alpha1.PolicyStatus{Kind: v1alpha1.LocalPolicyKind, Name: "fast"}
	there.Status.Policy = &v1alpha1.PolicyStatus{Name: "fast"}
	of := wake.OfPolicy(newCluster(t, here, there), func() client.ObjectList { return &v1alpha1.TransferList{} })
	want := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(here)}}
	for name, policy := range map[string]client.Object{
		"of the namespace": &v1alpha1.LocalCompressionPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "fast", Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"},
		}},
		"the default one": &v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{
			Name: "priced", Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"},
		}},
	} {
		if got := of(context.Background(), policy); !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWaiting(t *testing.T) {
	ready, waits := &v1alpha1.Queue{}, &v1alpha1.Queue{}
	ready.Namespace, ready.Name, waits.Namespace, waits.Name = "bank", "ready", "shop", "waits"
	ready.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	of := wake.Waiting(newCluster(t, ready, waits), func() client.ObjectList { return &v1alpha1.QueueList{} })
	if got := of(context.Background()); len(got) != 1 || got[0].Name != "waits" {
		t.Errorf("%v", got)
	}
}

func TestRequestsKeeps(t *testing.T) {
	c := newCluster(t, transfer("bank", "ledger"), transfer("bank", "other"))
	keep := func(transfer *v1alpha1.Transfer) bool { return transfer.Name == "other" }
	got := wake.Requests(context.Background(), c, &v1alpha1.TransferList{}, keep)
	if len(got) != 1 || got[0].Name != "other" {
		t.Errorf("%v", got)
	}
}

func TestLater(t *testing.T) {
	p := wake.Later()
	if p.Create(event.CreateEvent{IsInInitialList: true}) {
		t.Error("what is there at the start wakes somebody")
	}
	if !p.Create(event.CreateEvent{}) || !p.Update(event.UpdateEvent{}) || !p.Delete(event.DeleteEvent{}) {
		t.Error("a change wakes nobody")
	}
}

func TestAgain(t *testing.T) {
	failure, own := errors.New("busy"), -7
	stale := apierrors.NewConflict(schema.GroupResource{Resource: "transfers"}, "ledger", errors.New("changed"))
	for name, test := range map[string]struct {
		result, want reconcile.Result
		err, wantErr error
	}{
		"again": {
			result: reconcile.Result{RequeueAfter: time.Second},
			want:   reconcile.Result{RequeueAfter: time.Second, Priority: new(int)},
		},
		"failed": {err: failure, wantErr: failure, want: reconcile.Result{Priority: new(int)}},
		"chosen": {result: reconcile.Result{Priority: &own}, want: reconcile.Result{Priority: &own}},
		"stale": {
			err:  fmt.Errorf("writing the status: %w", stale),
			want: reconcile.Result{RequeueAfter: 200 * time.Millisecond, Priority: new(int)},
		},
	} {
		r := wake.Again(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return test.result, test.err
		}))
		got, err := r.Reconcile(context.Background(), reconcile.Request{})
		if !errors.Is(err, test.wantErr) || got.RequeueAfter != test.want.RequeueAfter || got.Priority == nil ||
			*got.Priority != *test.want.Priority {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestCanaryChanged: figures of a canary wake nobody, its beginning and end do.
func TestCanaryChanged(t *testing.T) {
	with := func(c *v1alpha1.CanaryStatus) *v1alpha1.CompressionPolicy {
		return &v1alpha1.CompressionPolicy{Status: v1alpha1.CompressionPolicyStatus{Canary: c}}
	}
	measuring := &v1alpha1.CanaryStatus{Revision: "a", State: v1alpha1.CanaryMeasuring}
	figures, ended, next := measuring.DeepCopy(), measuring.DeepCopy(), measuring.DeepCopy()
	figures.ChangePercent, ended.State, next.Revision = "1.0", v1alpha1.CanaryPromoted, "b"
	for name, c := range map[string]struct {
		was, is *v1alpha1.CanaryStatus
		woken   bool
	}{
		"begins": {nil, measuring, true}, "figures": {measuring, figures, false}, "ends": {measuring, ended, true},
		"another": {measuring, next, true}, "removed": {ended, nil, true}, "none": {nil, nil, false},
	} {
		change := event.UpdateEvent{ObjectOld: with(c.was), ObjectNew: with(c.is)}
		if got := wake.CanaryChanged().Update(change); got != c.woken {
			t.Errorf("%s: %v", name, got)
		}
	}
}
