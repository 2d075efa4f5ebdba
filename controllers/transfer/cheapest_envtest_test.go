// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// managerClock is the clock of the manager, which tests that run serially set ahead.
var managerClock aheadClock

type aheadClock struct{ ahead atomic.Int64 }

func (c *aheadClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *aheadClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *aheadClock) set(to time.Time) { c.ahead.Store(int64(time.Until(to))) }

// TestCheapestStart: a run with history and a Tariff waits for the night, writes nothing meanwhile, follows an edit of
// the Tariff, and starts when the price is low. One whose Tariff is gone starts at once.
func TestCheapestStart(t *testing.T) {
	f := prepareSerially(t)
	t.Cleanup(func() { managerClock.ahead.Store(0) })
	tariff := &v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{Name: f.namespace},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
			CPUHour: v1alpha1.CPUHourPrice{Price: "100", Rules: []v1alpha1.CPUHourRule{{
				Price: "25", Windows: []v1alpha1.TariffWindow{{Start: "22:00", End: "06:00"}},
			}}},
		},
	}
	cluster.Create(t, tariff, &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: f.namespace},
		Spec:       v1alpha1.CompressionPolicySpec{TariffName: f.namespace},
	})
	f.transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: f.namespace}
	f.create()
	complete := func() {
		t.Helper()
		cluster.EndPod(t, cluster.RunPod(t, f.job(1), "node-1"), 0, encode(t, succeeded()))
		f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
		controllertest.Eventually(t, func() error {
			if left := f.jobs(); len(left) > 0 {
				return fmt.Errorf("left: %+v", left)
			}
			return nil
		})
	}
	complete()
	first := f.transfer.Status.Run.ID

	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour)
	managerClock.set(noon)
	f.change(func(transfer *v1alpha1.Transfer) {
		transfer.Spec.Deadline = &v1alpha1.TransferDeadline{
			Within: &metav1.Duration{Duration: 20 * time.Hour}, Strategy: v1alpha1.DeadlineCheapest,
		}
		transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	})
	planned := func(start time.Time) {
		t.Helper()
		f.because(v1alpha1.TransferPending, v1alpha1.ReasonWaitingForPrice)
		controllertest.Eventually(t, func() error {
			if err := f.refresh(); err != nil {
				return err
			}
			s := f.transfer.Status.Deadline
			if s == nil || s.Plan == nil || !s.Plan.StartTime.Time.Equal(start) || len(s.Plan.Alternatives) == 0 {
				return fmt.Errorf("%+v, want a start at %s", s, start)
			}
			return nil
		})
	}
	planned(noon.Add(10 * time.Hour))
	look := func(value string) {
		f.change(func(transfer *v1alpha1.Transfer) { transfer.Annotations["example.com/look"] = value })
	}
	look("1")
	version := f.transfer.ResourceVersion
	time.Sleep(time.Second)
	if err := f.refresh(); err != nil || f.transfer.ResourceVersion != version || len(f.jobs()) > 0 {
		t.Fatalf("%v: a second look writes: %+v", err, f.transfer.Status.Deadline)
	}

	patch := client.MergeFrom(tariff.DeepCopy())
	tariff.Spec.CPUHour.Rules[0].Windows[0].Start = "20:00"
	if err := cluster.Client.Patch(context.Background(), tariff, patch); err != nil {
		t.Fatal(err)
	}
	planned(noon.Add(8 * time.Hour))
	managerClock.set(noon.Add(8 * time.Hour))
	look("2")
	complete()
	status := f.transfer.Status
	if status.Run.ID == first || status.Deadline.RunID != status.Run.ID || status.Deadline.Plan == nil ||
		status.Run.StartTime.Time.Before(noon.Add(8*time.Hour)) || status.Policy.Objective != v1alpha1.ObjectiveCost ||
		status.History[0].Objective != v1alpha1.ObjectiveCost {
		t.Fatalf("%+v %+v", status.Run, status.Deadline)
	}

	managerClock.set(noon.Add(24 * time.Hour))
	f.change(func(transfer *v1alpha1.Transfer) { transfer.Annotations[v1alpha1.RunAnnotation] = "and again" })
	planned(noon.Add(32 * time.Hour))
	if err := cluster.Client.Delete(context.Background(), tariff); err != nil {
		t.Fatal(err)
	}
	// There are no prices for the objective Cost, which the policy's tariffName implies.
	f.because(v1alpha1.TransferPending, v1alpha1.ReasonInvalidSpec)
	f.change(func(transfer *v1alpha1.Transfer) { transfer.Spec.Compression.Objective = v1alpha1.ObjectiveElapsed })
	f.job(1)
	if err := f.refresh(); err != nil || f.transfer.Status.Deadline.Plan != nil ||
		f.transfer.Status.Deadline.Message == "" {
		t.Errorf("%v: %+v", err, f.transfer.Status.Deadline)
	}
}
