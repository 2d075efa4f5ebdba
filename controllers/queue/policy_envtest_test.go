// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// TestLocalPolicy: members follow a policy of the namespace, which precedes one of the cluster.
func TestLocalPolicy(t *testing.T) {
	namespace := cluster.Namespace(t)
	local := &v1alpha1.LocalCompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace},
		Spec:       v1alpha1.LocalCompressionPolicySpec{Level: v1alpha1.CompressionBalanced},
	}
	shared := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.CompressionPolicySpec{Mode: v1alpha1.CompressionNever},
	}
	cluster.Create(t, shared, local)
	q := create(t, namespace, func(spec *v1alpha1.QueueSpec) {
		spec.Compression = &v1alpha1.QueueCompression{PolicyName: namespace}
	})
	told := func(level wirev1.CompressionLevel, mode wirev1.CompressionMode, local bool) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			config, _ := secret(t, set(t, q))
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
				return err
			}
			if got := config.GetCompression(); got.GetLevel() != level || got.GetMode() != mode ||
				q.Status.Policy.IsLocal() != local {
				return fmt.Errorf("the members are told %v, status has %+v", got, q.Status.Policy)
			}
			return nil
		})
	}
	auto, never := wirev1.CompressionMode_COMPRESSION_MODE_AUTO, wirev1.CompressionMode_COMPRESSION_MODE_NEVER
	told(wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED, auto, true)
	local.Spec.Level = v1alpha1.CompressionHigh
	if err := cluster.Client.Update(ctx, local); err != nil {
		t.Fatal(err)
	}
	told(wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH, auto, true)
	if err := cluster.Client.Delete(ctx, local); err != nil {
		t.Fatal(err)
	}
	told(wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, never, false)
}

// TestPricesAreFollowed: members that decide by money are told another price when the Tariff says it.
func TestPricesAreFollowed(t *testing.T) {
	namespace := cluster.Namespace(t)
	tariff := &v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "4"}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "1"},
		},
	}
	cluster.Create(t, tariff, &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.CompressionPolicySpec{TariffName: namespace},
	})
	q := create(t, namespace, func(spec *v1alpha1.QueueSpec) {
		spec.Compression = &v1alpha1.QueueCompression{PolicyName: namespace}
	})
	told := func(cpuHourNanos uint64) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			config, _ := secret(t, set(t, q))
			if got := config.GetCompression().GetPrices(); got.GetCpuHourNanos() != cpuHourNanos {
				return fmt.Errorf("the members are told %v", got)
			}
			return nil
		})
	}
	told(4_000_000_000)
	tariff.Spec.CPUHour.Price = "3"
	if err := cluster.Client.Update(ctx, tariff); err != nil {
		t.Fatal(err)
	}
	told(3_000_000_000)
}
