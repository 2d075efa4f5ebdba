// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// prepareTemplate is prepareLocal with a template, and without a claim.
func prepareTemplate(t *testing.T, class string) *fixture {
	f := prepareLocal(t)
	f.transfer.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{
		StorageClassName: class, HeadroomPercent: ptr.To[int32](50),
	}
	return f
}

// claimed is the claim of the destination, as soon as there is one.
func (f *fixture) claimed() *corev1.PersistentVolumeClaim {
	f.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	controllertest.Eventually(f, func() error {
		return cluster.Client.Get(context.Background(), client.ObjectKey{Namespace: f.namespace, Name: "copy"}, claim)
	})
	return claim
}

func requested(claim *corev1.PersistentVolumeClaim) int64 {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return size.Value()
}

// provisioned does what a driver of a class does for a claim.
func provisioned(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        claim.Namespace + "-" + claim.Name,
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "example.com/driver"},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			StorageClassName: ptr.Deref(claim.Spec.StorageClassName, ""),
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: claim.Namespace},
			},
		},
	}
	cluster.Create(t, volume)
	patch := client.MergeFrom(claim.DeepCopy())
	claim.Spec.VolumeName = volume.Name
	if err := cluster.Client.Patch(context.Background(), claim, patch); err != nil {
		t.Fatal(err)
	}
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, volume.Spec.Capacity
	if err := cluster.Client.Status().Update(context.Background(), claim); err != nil {
		t.Fatal(err)
	}
}

// again asks for another run and has it begin.
func (f *fixture) again(value string) {
	f.Helper()
	f.change(func(t *v1alpha1.Transfer) { t.Annotations = map[string]string{v1alpha1.RunAnnotation: value} })
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		if f.transfer.Status.LastRunRequest != value || f.transfer.Status.Phase != v1alpha1.TransferStarting {
			return fmt.Errorf("%+v", f.transfer.Status)
		}
		return nil
	})
}

func (f *fixture) complete() {
	f.Helper()
	cluster.EndPod(f, cluster.RunPod(f, f.job(1), f.namespace), 0, encode(f, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
}

// TestDestinationIsCreated: once, and it stays; it is enlarged when the source was, if its class allows that.
func TestDestinationIsCreated(t *testing.T) {
	for name, expands := range map[string]bool{"grows": true, "stays": false} {
		t.Run(name, func(t *testing.T) {
			class := "template-" + name
			cluster.Create(t, &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "example.com/driver", AllowVolumeExpansion: &expands,
			})
			destinationIsCreated(prepareTemplate(t, class), expands)
		})
	}
}

func destinationIsCreated(f *fixture, expands bool) {
	source := &corev1.PersistentVolumeClaim{}
	if err := cluster.Client.Get(
		context.Background(), client.ObjectKey{Namespace: f.namespace, Name: "ledger"}, source,
	); err != nil {
		f.Fatal(err)
	}
	f.create()
	claim := f.claimed()
	if want := requested(source) / 2 * 3; requested(claim) < want || requested(claim) > want+1<<20 ||
		claim.Annotations[v1alpha1.CreatedForAnnotation] != f.namespace+"/ledger" || len(claim.OwnerReferences) != 0 {
		f.Errorf("%+v", claim)
	}
	provisioned(f.T, claim)
	f.job(1)
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	if !meta.IsStatusConditionTrue(f.transfer.Status.Conditions, v1alpha1.ConditionDestinationFits) ||
		f.transfer.Status.Run.ClaimSize.Value() != requested(claim) {
		f.Errorf("%+v", f.transfer.Status)
	}
	f.complete()

	// Nothing to do, nothing written.
	version := claim.ResourceVersion
	f.again("same")
	f.complete()
	if claim = f.claimed(); claim.ResourceVersion != version {
		f.Errorf("the claim was written: %+v", claim)
	}

	source.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	source.Status.Phase = corev1.ClaimBound
	if err := cluster.Client.Status().Update(context.Background(), source); err != nil {
		f.Fatal(err)
	}
	before := requested(claim)
	f.again("larger")
	f.job(1)
	want := map[bool]string{true: v1alpha1.ReasonDestinationLargeEnough, false: v1alpha1.ReasonDestinationTooSmall}[expands]
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		fits := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionDestinationFits)
		if fits == nil || fits.Reason != want {
			return fmt.Errorf("%+v", fits)
		}
		return nil
	})
	size := int64(15 << 30)
	if !expands {
		size = before
	}
	if claim = f.claimed(); requested(claim) != size {
		f.Errorf("the claim has %d, want %d", requested(claim), size)
	}
	f.complete()
	if err := cluster.Client.Delete(context.Background(), f.transfer); err != nil {
		f.Fatal(err)
	}
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Transfer is still there: %v", err)
		}
		return nil
	})
	if claim = f.claimed(); claim.DeletionTimestamp != nil {
		f.Error("the claim was deleted with the Transfer")
	}
}

// TestQuotaOfClaims: what the API server rejects is tried again slowly, costs no failure, and is shown.
func TestQuotaOfClaims(t *testing.T) {
	f := prepareTemplate(t, "")
	cluster.Claim(t, f.namespace, "example")
	example := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "one-more"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			},
		},
	}
	quota := cluster.NoneOf(t, corev1.ResourcePersistentVolumeClaims, example)
	f.create()
	f.wait(v1alpha1.TransferRetrying, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationNotCreated)
	message := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionReady).Message
	if !strings.Contains(message, "exceeded quota") || !strings.Contains(message, "claimTemplates.enabled") {
		t.Error(message)
	}
	version := f.transfer.ResourceVersion
	time.Sleep(3 * time.Second)
	if err := f.refresh(); err != nil {
		t.Fatal(err)
	}
	if f.transfer.ResourceVersion != version || f.transfer.Status.Run.Failures != 0 || len(f.jobs()) != 0 {
		t.Errorf("%+v", f.transfer.Status)
	}
	if err := cluster.Client.Delete(context.Background(), quota); err != nil {
		t.Fatal(err)
	}
	f.due()
	f.claimed()
	f.job(f.transfer.Status.Run.Attempt + 1)
}

// due makes the next attempt due now.
func (f *fixture) due() {
	f.Helper()
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		f.transfer.Status.Run.NextAttemptTime = &metav1.Time{Time: time.Now()}
		return cluster.Client.Status().Update(context.Background(), f.transfer)
	})
	f.change(func(t *v1alpha1.Transfer) { t.Annotations = map[string]string{"example.com/look": "now"} })
}

// TestClaimThatIsDeletedHalfway: the run that had written into it does not go on in an empty one; another run does.
func TestClaimThatIsDeletedHalfway(t *testing.T) {
	f := prepareTemplate(t, "")
	f.create()
	f.claimed()
	pod := cluster.RunPod(t, f.job(1), f.namespace)
	report := transferring()
	report.State = wirev1.AgentState_AGENT_STATE_FAILED
	report.Failure = &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND, Message: "the volume is gone",
	}
	cluster.EndPod(t, pod, 1, encode(t, report))
	f.wait(v1alpha1.TransferRetrying, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationNotFound)
	claim := f.claimed()
	first := claim.UID
	patch := client.MergeFrom(claim.DeepCopy())
	claim.Finalizers = nil // nobody here takes that of the protection away
	if err := cluster.Client.Patch(context.Background(), claim, patch); err != nil {
		t.Fatal(err)
	}
	if err := client.IgnoreNotFound(cluster.Client.Delete(context.Background(), claim)); err != nil {
		t.Fatal(err)
	}
	f.due()
	controllertest.Eventually(t, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionReady)
		if ready.Reason != v1alpha1.ReasonDestinationNotFound || !strings.Contains(ready.Message, "had written into it") {
			return fmt.Errorf("%+v", ready)
		}
		return nil
	})
	err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(claim), claim)
	if !apierrors.IsNotFound(err) {
		t.Errorf("the claim was created again: %v", err)
	}
	run := f.transfer.Status.Run.ID
	f.change(func(t *v1alpha1.Transfer) { t.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"} })
	if again := f.claimed(); again.UID == first {
		t.Error("it is the same claim")
	}
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	if f.transfer.Status.Run.ID == run {
		t.Errorf("%+v", f.transfer.Status.Run)
	}
}
