// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/placement"
)

// makeNode makes a node that is ready, with as many slots of its accelerator as are given, and takes it away at the
// end.
func makeNode(t *testing.T, name, deflate string, slots int64) *corev1.Node {
	t.Helper()
	ctx := context.Background()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.DeflateLabel: deflate}},
	}
	cluster.Create(t, node)
	t.Cleanup(func() {
		if err := cluster.Client.Delete(ctx, node); err != nil {
			t.Error(err)
		}
	})
	// The API server sets a taint that others would take away in a whole cluster.
	node.Spec.Taints = nil
	if err := cluster.Client.Update(ctx, node); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if slots > 0 {
		// What the manager advertises, and a kubelet offers then.
		node.Status.Capacity = corev1.ResourceList{
			v1alpha1.AcceleratorSlotsResource: *resource.NewQuantity(slots, resource.DecimalSI),
		}
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	if err := cluster.Client.Status().Update(ctx, node); err != nil {
		t.Fatal(err)
	}
	return node
}

// asked is how many slots a Job's agent asks for.
func asked(job *batchv1.Job) int64 {
	slots := job.Spec.Template.Spec.Containers[0].Resources.Requests[v1alpha1.AcceleratorSlotsResource]
	return slots.Value()
}

// mayRunOn reports whether a Job's agent may be put on a node.
func mayRunOn(t *testing.T, job *batchv1.Job, node *corev1.Node) bool {
	t.Helper()
	may, err := scheduling.NewRequiredNodeAffinity(nil, job.Spec.Template.Spec.Affinity).Match(node)
	if err != nil {
		t.Fatal(err)
	}
	return may
}

// TestSlotsOfAnAccelerator: one Transfer gets the only slot of an accelerator. Another that prefers it goes on
// elsewhere and says why, one that needs it is left to the scheduler's queue and says what it waits for, and when the
// first has ended the slot is the next one's.
func TestSlotsOfAnAccelerator(t *testing.T) {
	f := prepareSerially(t) // others would be placed by these nodes as well
	plain := makeNode(t, "worker", placement.Software, 0)
	fast := makeNode(t, "z15", placement.Hardware, 1)
	required := &v1alpha1.Compression{Placement: v1alpha1.PlacementRequireHardware}

	// It begins when the manager has heard of the last of what was made above.
	f.transfer.Spec.Compression = required
	f.create()
	job := f.job(1)
	if where := f.transfer.Status.Placement; asked(job) != 1 || where == nil ||
		where.Reason != v1alpha1.PlacementReasonHardware {
		t.Fatalf("the first asks for %d slots: %+v", asked(job), where)
	}
	pod := cluster.RunPod(t, job, fast.Name)
	controllertest.Eventually(t, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		if run := f.transfer.Status.Run; run.Node != fast.Name {
			return fmt.Errorf("the manager has not seen the agent run: %+v", run)
		}
		return nil
	})
	first := f.transfer

	f.transfer = f.make("prefers")
	f.create()
	job = f.job(1)
	if where := f.transfer.Status.Placement; asked(job) != 0 || mayRunOn(t, job, fast) || !mayRunOn(t, job, plain) ||
		where == nil ||
		where.Reason != v1alpha1.PlacementReasonAcceleratorBusy || !strings.Contains(where.Message, fast.Name) {
		t.Errorf("one that prefers the accelerator asks for %d slots: %+v", asked(job), where)
	}

	f.transfer = f.make("needs")
	f.transfer.Spec.Compression = required
	f.create()
	job = f.job(1)
	if where := f.transfer.Status.Placement; asked(job) != 1 || !mayRunOn(t, job, fast) || mayRunOn(t, job, plain) ||
		where == nil ||
		where.Reason != v1alpha1.PlacementReasonAcceleratorBusy {
		t.Errorf("one that needs the accelerator asks for %d slots: %+v", asked(job), where)
	}

	f.transfer = first
	cluster.EndPod(t, pod, 0, encode(t, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	f.transfer = f.make("next")
	f.create()
	if job := f.job(1); asked(job) != 1 || f.transfer.Status.Placement.Reason != v1alpha1.PlacementReasonHardware {
		t.Errorf("after the first has ended another asks for %d slots: %+v", asked(job), f.transfer.Status.Placement)
	}
}
