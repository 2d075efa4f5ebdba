// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package populate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/populate"
	"github.com/lighterage/lighterage/controllers/populateplan"
)

// backup writes to an ObjectStore.
func backup(namespace string) *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "backup"}}
	t.Spec.Source.PersistentVolumeClaim.ClaimName = "lost"
	t.Spec.Destination.ObjectStore = &v1alpha1.ObjectStorePath{Name: "vault", Path: "/ledger"}
	return t
}

// waiting creates a claim that is to have what backup wrote, and a class.
func waiting(t *testing.T, namespace string) *corev1.PersistentVolumeClaim {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/none",
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
			DataSourceRef: &corev1.TypedObjectReference{
				APIGroup: ptr.To(v1alpha1.GroupVersion.Group), Kind: "Transfer", Name: "backup",
			},
		},
	}
	cluster.Create(t, class, claim)
	return claim
}

func eventually(t *testing.T, object client.Object, check func() error) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return check()
	})
}

// named is an object that does not exist yet, with the name of what populates a claim.
func named[T client.Object](claim *corev1.PersistentVolumeClaim, object T) T {
	object.SetNamespace(claim.Namespace)
	object.SetName(populateplan.Name(claim))
	return object
}

func there() error { return nil }

// TestPopulates plays Kubernetes' binder, the driver and the Transfer's controller, none of which runs here.
func TestPopulates(t *testing.T) {
	ctx, namespace := context.Background(), cluster.Namespace(t)
	cluster.Create(t, backup(namespace))
	claim := waiting(t, namespace)
	prime, fill := named(claim, &corev1.PersistentVolumeClaim{}), named(claim, &v1alpha1.Transfer{})
	eventually(t, prime, there)
	eventually(t, fill, there)
	if fill.Spec.Source.ObjectStore.Path != "/ledger" {
		t.Errorf("%+v", fill.Spec)
	}
	volume := bindPrime(t, prime)
	stopManager() // killed; another one comes
	now := time.Now().Truncate(time.Second)
	fill.Status.Conditions = conditions.Merge(nil, append(conditions.Ready(v1alpha1.ReasonSucceeded, "done"),
		conditions.New(v1alpha1.ConditionComplete, true, v1alpha1.ReasonSucceeded, "done")), 1, now)
	if err := cluster.Client.Status().Update(ctx, fill); err != nil {
		t.Fatal(err)
	}
	if err := startManager(); err != nil {
		t.Fatal(err)
	}
	eventually(t, volume, func() error {
		if ref := volume.Spec.ClaimRef; ref.UID != claim.UID || ref.Name != claim.Name {
			return fmt.Errorf("the volume is of %+v", ref)
		}
		return nil
	})
	for _, kept := range []client.Object{prime, fill} {
		if eventually(t, kept, there); kept.GetDeletionTimestamp() != nil {
			t.Errorf("%T is removed before the claim is Bound", kept)
		}
	}
	claim.Spec.VolumeName = volume.Name
	if err := cluster.Client.Update(ctx, claim); err != nil {
		t.Fatal(err)
	}
	claim.Status.Phase = corev1.ClaimBound
	if err := cluster.Client.Status().Update(ctx, claim); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(fill), fill)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Transfer is still there: %w", err)
		}
		err = cluster.Client.Get(ctx, client.ObjectKeyFromObject(prime), prime)
		// Nobody removes the finalizer of Kubernetes here.
		if err == nil && prime.DeletionTimestamp == nil {
			return errors.New("the prime is still there")
		}
		return client.IgnoreNotFound(err)
	})
}

// bindPrime makes the volume of a prime.
func bindPrime(t *testing.T, prime *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	t.Helper()
	ctx := context.Background()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + prime.Namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: prime.Spec.Resources.Requests, AccessModes: prime.Spec.AccessModes,
			StorageClassName: *prime.Spec.StorageClassName,
			ClaimRef:         &corev1.ObjectReference{Namespace: prime.Namespace, Name: prime.Name, UID: prime.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: prime.Namespace},
			},
		},
	}
	cluster.Create(t, volume)
	prime.Spec.VolumeName = volume.Name
	if err := cluster.Client.Update(ctx, prime); err != nil {
		t.Fatal(err)
	}
	prime.Status.Phase = corev1.ClaimBound
	if err := cluster.Client.Status().Update(ctx, prime); err != nil {
		t.Fatal(err)
	}
	return volume
}

// TestTellsWhatIsMissing: a claim that names a Transfer that is not there says so, and is populated when it comes.
func TestTellsWhatIsMissing(t *testing.T) {
	ctx, namespace := context.Background(), cluster.Namespace(t)
	claim := waiting(t, namespace)
	controllertest.Eventually(t, func() error {
		list := &eventsv1.EventList{}
		if err := cluster.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.UID == claim.UID && e.Reason == populateplan.EventNotPopulated {
				return nil
			}
		}
		return fmt.Errorf("%d events, none of the claim", len(list.Items))
	})
	cluster.Create(t, backup(namespace))
	prime := named(claim, &corev1.PersistentVolumeClaim{})
	eventually(t, prime, there)
	fill := named(claim, &v1alpha1.Transfer{})
	eventually(t, fill, there)
	before := []string{prime.ResourceVersion, fill.ResourceVersion}
	recorder, registry := events.NewFakeRecorder(8), prometheus.NewRegistry()
	reconciler := &populate.Reconciler{Options: populate.Options{
		Client: cluster.Client, Reader: cluster.Client, Recorder: recorder, Metrics: metrics.NewPopulating(registry),
	}}
	for range 2 { // further looks change nothing
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}
		if _, err := reconciler.Reconcile(ctx, request); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, prime, there)
	eventually(t, fill, there)
	if after := []string{prime.ResourceVersion, fill.ResourceVersion}; !slices.Equal(after, before) {
		t.Errorf("%v, before %v", after, before)
	}
	if n := len(recorder.Events); n > 0 {
		t.Errorf("%d events, the first %q", n, <-recorder.Events)
	}
	counted(t, registry, populateplan.StatePopulating)
	if err := cluster.Client.Delete(ctx, claim); err != nil {
		t.Fatal(err)
	}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}
	if _, err := reconciler.Reconcile(ctx, request); err != nil {
		t.Fatal(err)
	}
	counted(t, registry, "")
}

// counted checks that one claim is counted, in that state; empty: none is.
func counted(t *testing.T, registry *prometheus.Registry, state string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "state" {
					got += label.GetValue()
				}
			}
		}
	}
	if got != state {
		t.Errorf("claims in state %q are counted, want %q", got, state)
	}
}
