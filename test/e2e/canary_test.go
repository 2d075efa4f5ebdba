// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
)

// TestWorseCanaryIsRolledBack: where CPU time is dear, a canary that compresses at level High costs more than not to
// compress, by what the agents of both sides took. It ends before its time, and no object has its settings then.
func TestWorseCanaryIsRolledBack(t *testing.T) {
	for _, c := range []*cluster{east, west} {
		c.profiled(t) // what the network costs is part of what is compared
	}
	t.Parallel()
	const each = 4 // of a side, which is the least that says something
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "", "500Mi")
	// Text without repetitions keeps an engine busy.
	east.sh(t, namespace, "source", "head -c 18000000 /dev/urandom | base64 > /data/file")
	west.sh(t, namespace, "copy", "i=0; while [ $i -lt 64 ]; do mkdir /data/$i; i=$((i+1)); done")
	grant(t, namespace, "copy")
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.CompressionPolicySpec{
			Mode:   v1alpha1.CompressionNever,
			Prices: &v1alpha1.Prices{Currency: "USD", CPUHour: "1000", NetworkGiB: "0.001"},
			Canary: &v1alpha1.CompressionCanary{
				Settings: v1alpha1.CanarySettings{
					Mode: v1alpha1.CompressionAlways, Level: v1alpha1.CompressionHigh,
				},
				SharePercent: 50, Duration: &metav1.Duration{Duration: 15 * time.Minute},
			},
		},
	}
	if err := east.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = east.Delete(ctx, policy) })
	wanted := policy.Spec.DeepCopy()
	state := func(want v1alpha1.CanaryState) func() (bool, string) {
		return func() (bool, string) {
			if err := east.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
				return false, err.Error()
			}
			return policy.Status.Canary != nil && policy.Status.Canary.State == want,
				fmt.Sprintf("%+v, %+v", policy.Status.Canary, policy.Status.Conditions)
		}
	}
	eventually(t, 2*time.Minute, "the canary to begin", state(v1alpha1.CanaryMeasuring))

	// Which side an object is on follows from its UID: as many are made as it takes to have enough on both.
	sides := map[bool][]*v1alpha1.Transfer{}
	for i := 0; len(sides[true]) < each || len(sides[false]) < each; i++ {
		transfer := newTransfer(namespace, fmt.Sprint("ledger-", i))
		transfer.Spec.Suspend = true
		transfer.Spec.Destination.PersistentVolumeClaim.Path = fmt.Sprint("/", i)
		transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: policy.Name}
		if err := east.Create(ctx, transfer); err != nil {
			t.Fatal(err)
		}
		if inside := canary.Of(policy, transfer.UID).Applies; len(sides[inside]) < each {
			sides[inside] = append(sides[inside], transfer)
		} else if err := east.Delete(ctx, transfer); err != nil {
			t.Fatal(err)
		}
	}
	for _, transfers := range sides {
		for _, transfer := range transfers {
			resume(t, transfer)
		}
	}
	for inside, transfers := range sides {
		for _, transfer := range transfers {
			waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
			p, mode := transfer.Status.Policy, v1alpha1.CompressionNever
			if inside {
				mode = v1alpha1.CompressionAlways
			}
			if p.Canary == nil || p.Canary.Applies != inside || p.Mode != mode {
				t.Errorf("%s, in the canary: %v: %+v", transfer.Name, inside, p)
			}
		}
	}
	eventually(t, 6*time.Minute, "the canary to be rolled back", state(v1alpha1.CanaryRolledBack))
	finished := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionCanaryFinished)
	if finished == nil || finished.Status != metav1.ConditionTrue || finished.Reason != v1alpha1.ReasonCanaryRolledBack {
		t.Errorf("%+v", finished)
	}
	s := policy.Status.Canary
	if s.EndTime == nil || s.EndTime.Sub(s.StartTime.Time) >= 15*time.Minute || s.Inside.Objects != each ||
		s.Outside.Objects != each || s.Inside.UncompressedBytes < each*20e6 || s.ChangePercent == "" {
		t.Errorf("%+v", s)
	}
	t.Logf("in the canary a GiB takes %s %% more (%s to %s): %+v and %+v", s.ChangePercent, s.LowPercent, s.HighPercent,
		s.Inside, s.Outside)
	if !reflect.DeepEqual(&policy.Spec, wanted) || policy.Generation != 1 {
		t.Errorf("the spec was written: %+v", policy.Spec)
	}

	// The next run of one that was in the canary is by the policy again.
	again := sides[true][0]
	patch := client.MergeFrom(again.DeepCopy())
	again.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	if err := east.Patch(ctx, again, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "the next run to complete", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(again), again); err != nil {
			return false, err.Error()
		}
		return again.Status.LastRunRequest == "again" && again.Status.Phase == v1alpha1.TransferComplete,
			string(again.Status.Phase)
	})
	if p := again.Status.Policy; p.Canary != nil || p.Mode != v1alpha1.CompressionNever {
		t.Errorf("the next run has %+v", p)
	}
}

// resume lifts the suspension of a Transfer of east.
func resume(t *testing.T, transfer *v1alpha1.Transfer) {
	t.Helper()
	patch := client.MergeFrom(transfer.DeepCopy())
	transfer.Spec.Suspend = false
	if err := east.Patch(context.Background(), transfer, patch); err != nil {
		t.Fatalf("resume Transfer %s: %v", transfer.Name, err)
	}
}
