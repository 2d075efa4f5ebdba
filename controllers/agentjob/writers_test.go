// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
)

func TestWriters(t *testing.T) {
	transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "transfer"}}
	now := time.Now()
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		writes bool
	}{
		"running":     {func(*corev1.Pod) {}, true},
		"ended":       {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"being ended": {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }, true},
		// As it seems to a manager whose clock is ahead.
		"just being ended": {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.AddDate(0, 0, -1)} }, true},
		"only sends":       {func(p *corev1.Pod) { p.Labels[agentpod.ComponentLabel] = "send" }, false},
		"of another":       {func(p *corev1.Pod) { p.Labels[v1alpha1.TransferLabel] = "another" }, false},
		"only labelled":    {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"of another Job":   {func(p *corev1.Pod) { p.OwnerReferences = controlledBy("Job", "ledger", "job") }, true},
		"of no attempt":    {func(p *corev1.Pod) { p.OwnerReferences = controlledBy("Job", "other", "job") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("pod", controlledBy("Job", "ledger-abcde-1", "job"))
			p.Finalizers = []string{"example.com/kept"} // so that it can be one that is being deleted
			p.Labels[v1alpha1.TransferLabel], p.Labels[agentpod.ComponentLabel] = "transfer", attempt.LocalMode
			test.change(p)
			c := newBuilder().WithObjects(p).Build()
			got, err := cluster(c).Writers(context.Background(), transfer, now)
			if err != nil || (len(got) == 1) != test.writes {
				t.Error(got, err)
			}
			if test.writes && !slices.Equal(got, []string{metav1.GetControllerOf(p).Name}) {
				t.Error(got)
			}
		})
	}
}

// TestWriterWhoseNodeIsGone: after some time nobody waits for it any more, whatever the API server's clock says.
func TestWriterWhoseNodeIsGone(t *testing.T) {
	transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "transfer"}}
	now := time.Now()
	p := pod("pod", controlledBy("Job", "ledger-abcde-1", "job"))
	p.Finalizers, p.DeletionTimestamp = []string{"example.com/kept"}, &metav1.Time{Time: now.AddDate(0, 0, 1)}
	p.Labels[v1alpha1.TransferLabel], p.Labels[agentpod.ComponentLabel] = "transfer", attempt.LocalMode
	c := cluster(newBuilder().WithObjects(p).Build())
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Minute, 1}, {3 * time.Minute, 0}} {
		if got, err := c.Writers(context.Background(), transfer, now.Add(step.after)); err != nil || len(got) != step.want {
			t.Errorf("after %s: %v, %v", step.after, got, err)
		}
	}
}
