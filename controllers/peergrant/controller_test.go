// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
)

func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.PeerGrant{}).Build()
}

func TestReferences(t *testing.T) {
	ctx := context.Background()
	given := grant(
		"vault", []v1alpha1.PeerGrantFrom{from("east", "bank"), from("north", "bank"), from("north", "shop")}, "ledger-copy",
		"",
	)
	c := newClient(t, &given)
	key := client.ObjectKeyFromObject(&given)
	r := peergrant.NewReconciler(c, peergrant.Options{})
	check := func(ready metav1.ConditionStatus, reason, message string) {
		t.Helper()
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.PeerGrant
		if err := c.Get(ctx, key, &got); err != nil {
			t.Fatal(err)
		}
		condition := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
		if condition == nil || condition.Status != ready || condition.Reason != reason ||
			!strings.Contains(condition.Message, message) {
			t.Errorf("Ready is %+v; want %s, %s, %q", condition, ready, reason, message)
		}
		if meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionStalled) {
			t.Error("it is Stalled, although what is missing may come")
		}
		version := got.ResourceVersion
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, key, &got); err != nil || got.ResourceVersion != version {
			t.Errorf("it was written without a change (%v)", err)
		}
	}
	create := func(object client.Object) {
		t.Helper()
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	check(metav1.ConditionFalse, v1alpha1.ReasonReferenceNotFound,
		"Peer \"east\" does not exist, Peer \"north\" does not exist, PersistentVolumeClaim \"ledger-copy\" does not exist:")
	create(&v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
	create(&v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "north"}})
	check(metav1.ConditionFalse, v1alpha1.ReasonReferenceNotFound, "PersistentVolumeClaim \"ledger-copy\" does not exist")
	create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "ledger-copy"}})
	check(metav1.ConditionTrue, v1alpha1.ReasonReferencesResolved, "")

	// A Queue of the name of a claim is no claim, and the other way round.
	if err := c.Get(ctx, key, &given); err != nil {
		t.Fatal(err)
	}
	given.Spec.To = append(
		given.Spec.To, v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue, Name: "ledger-copy"},
		v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue},
	)
	if err := c.Update(ctx, &given); err != nil {
		t.Fatal(err)
	}
	check(metav1.ConditionFalse, v1alpha1.ReasonReferenceNotFound, "Queue \"ledger-copy\" does not exist")
	create(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "ledger-copy"}})
	check(metav1.ConditionTrue, v1alpha1.ReasonReferencesResolved, "")
}

// TestUsage: what is received by a grant is shown, of its own namespace and its own peers alone, and written again only
// when it changed.
func TestUsage(t *testing.T) {
	given := grant("vault", []v1alpha1.PeerGrantFrom{from("east", "bank")}, "")
	given.Spec.To = append(given.Spec.To, v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue})
	received := func(namespace, peer, sender string, bytes int64) *v1alpha1.Delivery {
		return &v1alpha1.Delivery{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer + "-" + sender},
			Spec: v1alpha1.DeliverySpec{
				Peer:     peer,
				Transfer: v1alpha1.TransferReference{Namespace: sender, Name: "ledger", Run: "abcde", Attempt: 1},
				Destination: v1alpha1.DeliveryDestination{
					PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
				},
			},
			Status: v1alpha1.DeliveryStatus{Usage: &v1alpha1.UsageStatus{WireBytes: bytes}},
		}
	}
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "orders"}}
	queue.Status.Received = []v1alpha1.ReceivedChannel{
		{Source: "east/bank/orders", Bytes: 30}, {Source: "west/bank/orders", Bytes: 500}, {Source: "odd", Bytes: 7000},
	}
	c := newClient(t, &given, queue, received("vault", "east", "bank", 1), received("vault", "east", "shop", 10),
		received("vault", "west", "bank", 100), received("other", "east", "bank", 1000))
	clock := clocktesting.NewFakePassiveClock(now)
	r := peergrant.NewReconciler(c, peergrant.Options{Clock: clock})
	var versions []string
	for range 2 {
		if _, err := r.Reconcile(
			t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&given)},
		); err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.PeerGrant
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(&given), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&v1alpha1.UsedByStatus{
			Objects:   []v1alpha1.UsingObjects{{Kind: "Delivery", Count: 1}, {Kind: "Queue", Count: 1}},
			WireBytes: 1, CompressedBytes: 30, Time: ptr.To(metav1.NewTime(now).Rfc3339Copy()),
		}, got.Status.UsedBy); diff != "" {
			t.Error(diff)
		}
		versions = append(versions, got.ResourceVersion)
		clock.SetTime(clock.Now().Add(2 * time.Minute))
	}
	if versions[0] != versions[1] {
		t.Error("it was written without a change")
	}
}

func delivery(name string, phase v1alpha1.DeliveryPhase) *v1alpha1.Delivery {
	return &v1alpha1.Delivery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: name, UID: "1"},
		Spec: v1alpha1.DeliverySpec{
			Peer:     "east",
			Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: name, Run: "abcde", Attempt: 1},
			Destination: v1alpha1.DeliveryDestination{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger-copy", Path: "/"},
			},
		},
		Status: v1alpha1.DeliveryStatus{Phase: phase},
	}
}

func TestRevoker(t *testing.T) {
	peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	good := grant("vault", []v1alpha1.PeerGrantFrom{from("east", "bank")}, "ledger-copy")
	other := grant("vault", []v1alpha1.PeerGrantFrom{from("east", "shop")}, "ledger-copy")
	own := grant("vault", []v1alpha1.PeerGrantFrom{from("", "bank")}, "ledger-copy")
	expired := claimed(func(g *v1alpha1.PeerGrant, _ *v1alpha1.PeerGrantTo) {
		g.Spec.ExpirationTime = &metav1.Time{Time: now}
	})
	narrow := claimed(func(_ *v1alpha1.PeerGrant, to *v1alpha1.PeerGrantTo) { to.Path = "/in" })
	for name, c := range map[string]struct {
		phase v1alpha1.DeliveryPhase
		// cached and live are what exists as seen with and without a cache.
		cached, live []client.Object
		gone         bool
	}{
		"granted":       {v1alpha1.DeliveryReceiving, []client.Object{peer, &good}, nil, false},
		"grant is gone": {v1alpha1.DeliveryReceiving, []client.Object{peer}, []client.Object{peer}, true},
		"grant was changed": {
			v1alpha1.DeliveryPending, []client.Object{peer, &other}, []client.Object{peer, &other}, true,
		},
		"peer is gone": {v1alpha1.DeliveryWaiting, []client.Object{&good}, []client.Object{&good}, true},
		"grant is too new for a cache": {
			v1alpha1.DeliveryPending, []client.Object{peer}, []client.Object{peer, &good}, false,
		},
		"within the cluster":    {v1alpha1.DeliveryReceiving, []client.Object{&own}, nil, false},
		"not granted within it": {v1alpha1.DeliveryReceiving, []client.Object{&good}, []client.Object{&good}, true},
		"expired": {
			v1alpha1.DeliveryReceiving, []client.Object{peer, &expired}, []client.Object{peer, &expired}, true,
		},
		"path was narrowed": {
			v1alpha1.DeliveryReceiving, []client.Object{peer, &narrow}, []client.Object{peer, &narrow}, true,
		},
		"mirrors without leave": {
			v1alpha1.DeliveryReceiving, []client.Object{peer, &good}, []client.Object{peer, &good}, true,
		},
		"keeps owners without leave": {
			v1alpha1.DeliveryReceiving, []client.Object{peer, &good}, []client.Object{peer, &good}, true,
		},
		"has ended": {v1alpha1.DeliveryComplete, []client.Object{peer}, []client.Object{peer}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			subject := delivery("ledger", c.phase)
			subject.Spec.Delete = strings.Contains(name, "mirrors")
			if strings.Contains(name, "keeps owners") {
				subject.Spec.Privilege = v1alpha1.AgentPrivilegeKeepOwners
			}
			if strings.Contains(name, "within") {
				subject.Spec.Peer = ""
			}
			cached := newClient(t, append(c.cached, subject)...)
			recorder := events.NewFakeRecorder(1)
			r := peergrant.NewRevoker(
				cached, newClient(t, c.live...), recorder, peergrant.Options{Clock: clocktesting.NewFakePassiveClock(now)},
			)
			if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(subject)}); err != nil {
				t.Fatal(err)
			}
			err := cached.Get(ctx, client.ObjectKeyFromObject(subject), subject)
			if apierrors.IsNotFound(err) != c.gone {
				t.Fatalf("after it: %v", err)
			}
			select {
			case said := <-recorder.Events:
				if !c.gone || !strings.Contains(said, v1alpha1.ReasonNotGranted) {
					t.Errorf("event %q", said)
				}
			default:
				if c.gone {
					t.Error("no event")
				}
			}
		})
	}
}

// M7: a grant says when it has expired, and both controllers look again at that moment.
func TestExpiryIsNoticed(t *testing.T) {
	ctx := context.Background()
	clock := clocktesting.NewFakePassiveClock(now)
	given := claimed(func(g *v1alpha1.PeerGrant, _ *v1alpha1.PeerGrantTo) {
		g.Spec.ExpirationTime = &metav1.Time{Time: now.Add(time.Minute)}
	})
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "ledger-copy"}}
	subject := delivery("ledger", v1alpha1.DeliveryReceiving)
	c := newClient(t, &given, claim, &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}}, subject)
	grants := peergrant.NewReconciler(c, peergrant.Options{Clock: clock})
	revoker := peergrant.NewRevoker(c, c, events.NewFakeRecorder(1), peergrant.Options{Clock: clock})
	for _, step := range []struct {
		at     time.Duration
		after  time.Duration
		reason string
	}{
		{0, time.Minute, v1alpha1.ReasonReferencesResolved},
		{59 * time.Second, time.Second, v1alpha1.ReasonReferencesResolved},
		{time.Minute, 0, v1alpha1.ReasonGrantExpired},
	} {
		clock.SetTime(now.Add(step.at))
		for of, r := range map[client.Object]interface {
			Reconcile(context.Context, ctrl.Request) (ctrl.Result, error)
		}{&given: grants, subject: revoker} {
			result, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(of)})
			if err != nil || result.RequeueAfter != step.after {
				t.Errorf("after %s %T looks again after %s, want %s (%v)", step.at, r, result.RequeueAfter, step.after, err)
			}
		}
		var got v1alpha1.PeerGrant
		if err := c.Get(ctx, client.ObjectKeyFromObject(&given), &got); err != nil {
			t.Fatal(err)
		}
		ready := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
		stalled := meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionStalled)
		if ready == nil || ready.Reason != step.reason || stalled != (step.after == 0) {
			t.Errorf("after %s: %+v, stalled %v", step.at, ready, stalled)
		}
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(subject), subject); !apierrors.IsNotFound(err) {
		t.Errorf("the Delivery goes on without a grant: %v", err)
	}
}
