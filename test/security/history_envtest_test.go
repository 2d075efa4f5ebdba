// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package security

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestHistoryIsOfTheOwnNamespaceOrAPeer: no Transfer asks for snapshots in another namespace of this cluster, or for
// none or too many; whether a peer takes any is its to say.
func TestHistoryIsOfTheOwnNamespaceOrAPeer(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	tenant := as(t, cluster, "history@bank")
	bind(t, cluster, namespace, "lighterage-edit", "history@bank")
	keeping := func(change func(*v1alpha1.TransferDestination)) *v1alpha1.Transfer {
		object := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-", Namespace: namespace}}
		object.Spec.Source.PersistentVolumeClaim.ClaimName = "ledger"
		d := &object.Spec.Destination
		d.PersistentVolumeClaim.ClaimName = "copy"
		d.Snapshot = &v1alpha1.DestinationSnapshot{Retention: v1alpha1.SnapshotRetention{Last: 1, Daily: 7}}
		change(d)
		return object
	}
	permitted(t, func() error { return tenant.Create(ctx, keeping(func(*v1alpha1.TransferDestination) {})) })
	of := func(r v1alpha1.SnapshotRetention) func(*v1alpha1.TransferDestination) {
		return func(d *v1alpha1.TransferDestination) { d.Snapshot.Retention = r }
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.TransferDestination)
		want   string
	}{
		"another cluster":   {func(d *v1alpha1.TransferDestination) { d.Peer, d.Namespace = "west", "vault" }, ""},
		"another namespace": {func(d *v1alpha1.TransferDestination) { d.Namespace = "vault" }, "remove namespace or via"},
		"through a store": {func(d *v1alpha1.TransferDestination) {
			d.Peer, d.Via = "west", &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "post"}}
		}, "remove namespace or via"},
		"object store": {func(d *v1alpha1.TransferDestination) {
			d.PersistentVolumeClaim = v1alpha1.DestinationClaim{}
			d.ObjectStore = &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}
		}, "remove namespace or via"},
		"too much":          {of(v1alpha1.SnapshotRetention{Hourly: 60, Yearly: 41}), "more than 100 in all"},
		"as much as may be": {of(v1alpha1.SnapshotRetention{Hourly: 60, Yearly: 40}), ""},
		"less than none":    {of(v1alpha1.SnapshotRetention{Last: 2, Weekly: -1}), "weekly"},
	} {
		object := keeping(test.change)
		err := tenant.Create(ctx, object)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v", name, err)
		}
	}
	// What the Go types cannot say.
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(keeping(func(*v1alpha1.TransferDestination) {}))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Transfer"))
	for _, retention := range []map[string]any{{}, {"last": int64(0), "daily": int64(0)}} {
		if err := unstructured.SetNestedMap(
			object.Object, retention, "spec", "destination", "snapshot", "retention",
		); err != nil {
			t.Fatal(err)
		}
		err := tenant.Create(ctx, object.DeepCopy())
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must keep at least one") {
			t.Errorf("%v: %v", retention, err)
		}
	}
}
