// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dataquota_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/dataquota"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/metrics"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "bank", Name: name, UID: types.UID(name)}
}

// shown are the values of a gauge, by its labels.
func shown(t *testing.T, registry *prometheus.Registry, gauge string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if label := metric.GetLabel(); family.GetName() == gauge { // sorted by their names
				values[label[0].GetValue()+"/"+label[1].GetValue()+"/"+label[2].GetValue()] = metric.GetGauge().GetValue()
			}
		}
	}
	return values
}

// TestStatus: what runs and exists in the namespace is counted, written once, and shown as metrics until the DataQuota
// is gone.
func TestStatus(t *testing.T) {
	at := metav1.NewTime(now)
	object := &v1alpha1.DataQuota{ObjectMeta: named("team"),
		Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{
			RunningTransfers: ptr.To[int32](1), RunningDeliveries: ptr.To[int32](10),
			Bandwidth:  ptr.To(resource.MustParse("200Mi")),
			QueueBytes: ptr.To(resource.MustParse("100Gi")),
		}}}
	object.Generation = 3
	runs := func(name, bandwidth string) *v1alpha1.Transfer {
		return &v1alpha1.Transfer{ObjectMeta: named(name), Status: v1alpha1.TransferStatus{
			Run: &v1alpha1.RunStatus{
				ID: "abcde", Attempt: 1, Route: v1alpha1.RouteGateway, BandwidthLimit: ptr.To(resource.MustParse(bandwidth)),
			},
		}}
	}
	ended := runs("ended", "1Gi")
	ended.Status.Run.CompletionTime = &at
	elsewhere := runs("elsewhere", "1Gi")
	elsewhere.Namespace = "shop"
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writes := 0
	c := indextest.In(fake.NewClientBuilder().WithScheme(scheme), &v1alpha1.Transfer{}).
		WithStatusSubresource(object).WithObjects(
		object, runs("a", "30Mi"), runs("b", "50Mi"), ended, elsewhere,
		&v1alpha1.Delivery{ObjectMeta: named("d"), Status: v1alpha1.DeliveryStatus{Run: &v1alpha1.RunStatus{ID: "abcde"}}},
		&v1alpha1.Queue{
			ObjectMeta: named("q"), Spec: v1alpha1.QueueSpec{Replicas: 3},
			Status: v1alpha1.QueueStatus{StorageSize: ptr.To(resource.MustParse("10Gi"))},
		},
	).WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch,
		options ...client.SubResourcePatchOption,
	) error {
		writes++
		return c.SubResource(name).Patch(ctx, object, patch, options...)
	}}).Build()
	registry := prometheus.NewRegistry()
	r := dataquota.NewReconciler(
		dataquota.Options{Client: c, Metrics: metrics.NewQuotas(registry), Clock: clocktesting.NewFakePassiveClock(now)},
	)
	reconcile := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	reconcile()
	if writes != 1 {
		t.Errorf("two looks wrote %d times", writes)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	used := object.Status.Used
	if *used.RunningTransfers != 2 || *used.RunningDeliveries != 1 || used.Bandwidth.String() != "80Mi" ||
		used.QueueBytes.String() != "30Gi" ||
		object.Status.ObservedGeneration != 3 || object.Status.Hard.QueueBytes.String() != "100Gi" {
		t.Errorf("%+v", object.Status)
	}
	if got := shown(t, registry, "lighterage_quota_used"); !maps.Equal(got, map[string]float64{
		"bank/team/bandwidth": 80 << 20, "bank/team/queueBytes": 30 << 30, "bank/team/runningDeliveries": 1,
		"bank/team/runningTransfers": 2,
	}) {
		t.Errorf("%v", got)
	}
	if got := shown(t, registry, "lighterage_quota_hard"); len(got) != 4 || got["bank/team/runningTransfers"] != 1 {
		t.Errorf("%v", got)
	}
	// A limit that is taken away, and the object.
	object.Spec.Hard.Bandwidth = nil
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if got := shown(t, registry, "lighterage_quota_used"); len(got) != 3 {
		t.Errorf("%v", got)
	}
	if err := c.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if got := shown(t, registry, "lighterage_quota_hard"); len(got) != 0 {
		t.Errorf("of a DataQuota that is gone: %v", got)
	}
}
