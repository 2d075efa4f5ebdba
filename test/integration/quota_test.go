// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

func dataQuota(hard v1alpha1.DataQuotaResources) *v1alpha1.DataQuota {
	return &v1alpha1.DataQuota{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "quota-", Namespace: "bank"}, Spec: v1alpha1.DataQuotaSpec{Hard: hard},
	}
}

// TestDataQuotaRefusals says, for what the API must refuse, which words of the message lead to the fix.
func TestDataQuotaRefusals(t *testing.T) {
	bandwidth := func(s string) v1alpha1.DataQuotaResources {
		return v1alpha1.DataQuotaResources{Bandwidth: ptr.To(resource.MustParse(s))}
	}
	for name, c := range map[string]struct {
		hard v1alpha1.DataQuotaResources
		want string // "" is accepted
	}{
		"none":           {v1alpha1.DataQuotaResources{RunningTransfers: ptr.To[int32](0)}, ""},
		"less than none": {v1alpha1.DataQuotaResources{RunningDeliveries: ptr.To[int32](-1)}, "runningDeliveries"},
		"too little":     {bandwidth("1Ki"), "bandwidth must be between 256Ki and 1Pi"},
		"a little":       {bandwidth("256Ki"), ""},
		"too much":       {bandwidth("1Ei"), "bandwidth must be between 256Ki and 1Pi"},
		"negative storage": {
			v1alpha1.DataQuotaResources{QueueBytes: ptr.To(resource.MustParse("-1"))}, "queueBytes must be between 0",
		},
		"no storage": {v1alpha1.DataQuotaResources{QueueBytes: ptr.To(resource.MustParse("0"))}, ""},
	} {
		err := k8s.Create(context.Background(), dataQuota(c.hard), client.DryRunAll)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestDataQuotaLimitsSomething: one without any limit is a mistake. A typed client would leave the whole spec out.
func TestDataQuotaLimitsSomething(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hard": map[string]any{}}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DataQuota"))
	object.SetNamespace("bank")
	object.SetGenerateName("quota-")
	err := k8s.Create(context.Background(), object, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "at least one of runningTransfers") {
		t.Error(err)
	}
}

// TestDataQuotaUnused: nothing is in use of what has a least limit.
func TestDataQuotaUnused(t *testing.T) {
	ctx := context.Background()
	quota := dataQuota(v1alpha1.DataQuotaResources{Bandwidth: ptr.To(resource.MustParse("200Mi"))})
	if err := k8s.Create(ctx, quota); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(ctx, quota) })
	before := quota.DeepCopy()
	quota.Status.Used = &v1alpha1.DataQuotaResources{Bandwidth: ptr.To(resource.MustParse("0"))}
	if err := k8s.Status().Patch(ctx, quota, client.MergeFrom(before)); err != nil {
		t.Error(err)
	}
}

// TestDataQuotaColumns reads what kubectl get dataquotas prints.
func TestDataQuotaColumns(t *testing.T) {
	ctx := context.Background()
	quota := dataQuota(v1alpha1.DataQuotaResources{
		RunningTransfers: ptr.To[int32](5), Bandwidth: ptr.To(resource.MustParse("200Mi")),
	})
	if err := k8s.Create(ctx, quota); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(ctx, quota) })
	before := quota.DeepCopy()
	quota.Status.Used = &v1alpha1.DataQuotaResources{
		RunningTransfers: ptr.To[int32](2), Bandwidth: ptr.To(resource.MustParse("80Mi")),
	}
	if err := k8s.Status().Patch(ctx, quota, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	row := columns(t, "namespaces/bank/dataquotas", quota.Name)
	for column, want := range map[string]string{
		"Transfers": "2", "Max-Transfers": "5", "Bandwidth": "80Mi", "Max-Bandwidth": "200Mi",
	} {
		if got := row[column]; got != want {
			t.Errorf("column %s is %q, want %q; the row: %v", column, got, want, row)
		}
	}
}
