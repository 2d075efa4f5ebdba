// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/policy"
)

const (
	// StagedComponent is the value of agentpod.ComponentLabel of the copies of sources.
	StagedComponent = "staged"
	// SnapshotGroup is the API group of VolumeSnapshots.
	SnapshotGroup = "snapshot.storage.k8s.io"
	// maxRestoreFactor is how many times the size of its source a snapshot may need at most.
	maxRestoreFactor = 10
)

// StagedLabels are those of the copies of a Transfer's source.
func StagedLabels(transfer *v1alpha1.Transfer, run string) map[string]string {
	return attempt.Labels(StagedComponent, v1alpha1.TransferLabel, transfer, run)
}

// checkStaging looks for what would keep a copy from being made. A source of which the snapshot was taken may be on its
// way out.
func checkStaging(transfer *v1alpha1.Transfer, facts StagingFacts, taken bool) *agentpod.Problem {
	source := transfer.Spec.Source
	problem := attempt.CheckSource(transfer.Namespace, source.PersistentVolumeClaim.ClaimName, facts.Source)
	if problem != nil && (facts.Source == nil || !taken) {
		return problem
	}
	switch {
	case facts.Source.Spec.VolumeName == "" || facts.Source.Status.Phase != corev1.ClaimBound:
		return &agentpod.Problem{Reason: v1alpha1.ReasonSourceNotReady, Message: fmt.Sprintf(
			"PersistentVolumeClaim %q has no volume yet, so there is nothing to copy; start the pod that uses it, or set "+
				"spec.source.copyMethod to Direct", facts.Source.Name)}
	case facts.Driver == "":
		return &agentpod.Problem{Reason: v1alpha1.ReasonCopyMethodUnsupported, Message: fmt.Sprintf(
			"the volume of PersistentVolumeClaim %q is not of a CSI driver, which alone can make a %s; set "+
				"spec.source.copyMethod to Direct, or move the data to a claim of a CSI driver", facts.Source.Name,
			source.CopyMethod)}
	}
	if problem := checkStorageClass(facts, StagedClass(transfer, facts.Source)); problem != nil {
		return problem
	}
	switch _, triggered := facts.Source.Annotations[v1alpha1.UseCopyTriggerAnnotation]; {
	case transfer.Status.Staged.VolumeGroupSnapshotName != "" && triggered:
		return &agentpod.Problem{Reason: v1alpha1.ReasonCopyMethodUnsupported, Message: fmt.Sprintf(
			"PersistentVolumeClaim %q has the annotation %s, and a VolumeGroupSnapshot waits for no trigger; remove the "+
				"annotation, or spec.source.volumeGroupSnapshotName", facts.Source.Name, v1alpha1.UseCopyTriggerAnnotation)}
	case transfer.Status.Staged.VolumeGroupSnapshotName != "", transfer.Status.Staged.Method != v1alpha1.CopySnapshot:
		return nil
	}
	return checkSnapshotClass(source.SnapshotClassName, facts)
}

// StagedClass is the name of the StorageClass of the staged claim; empty if there is none.
func StagedClass(transfer *v1alpha1.Transfer, source *corev1.PersistentVolumeClaim) string {
	if name := transfer.Spec.Source.StagedStorageClassName; name != "" || source == nil {
		return name
	}
	return ptr.Deref(source.Spec.StorageClassName, "")
}

func checkStorageClass(facts StagingFacts, name string) *agentpod.Problem {
	class := facts.StorageClass
	switch {
	case class == nil && name == "":
		return &agentpod.Problem{Reason: v1alpha1.ReasonStorageClassNotFound, Message: fmt.Sprintf(
			"PersistentVolumeClaim %q has no StorageClass, so none is known for its copy; set "+
				"spec.source.stagedStorageClassName to one of driver %s", facts.Source.Name, facts.Driver)}
	case class == nil:
		return &agentpod.Problem{Reason: v1alpha1.ReasonStorageClassNotFound, Message: fmt.Sprintf(
			"there is no StorageClass %q for the copy of the source; create it, or set spec.source.stagedStorageClassName to "+
				"one of driver %s", name, facts.Driver)}
	case class.Provisioner != facts.Driver:
		return &agentpod.Problem{Reason: v1alpha1.ReasonClassUnsuitable, Message: fmt.Sprintf(
			"StorageClass %q is of driver %s and the source of %s; set spec.source.stagedStorageClassName to a class of that",
			name, class.Provisioner, facts.Driver)}
	case ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete) != corev1.PersistentVolumeReclaimDelete:
		return &agentpod.Problem{Reason: v1alpha1.ReasonClassUnsuitable, Message: fmt.Sprintf(
			"StorageClass %q keeps volumes whose claims are deleted (reclaimPolicy), so each run would leave one; set "+
				"spec.source.stagedStorageClassName to a class with reclaimPolicy: Delete", name)}
	}
	return nil
}

func checkSnapshotClass(name string, facts StagingFacts) *agentpod.Problem {
	class := facts.SnapshotClass
	switch {
	case class == nil && name == "":
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotClassNotFound, Message: fmt.Sprintf(
			"driver %s has no default VolumeSnapshotClass; set spec.source.snapshotClassName, or annotate a class of that "+
				"driver with snapshot.storage.kubernetes.io/is-default-class: \"true\"", facts.Driver)}
	case class == nil:
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotClassNotFound, Message: fmt.Sprintf(
			"there is no VolumeSnapshotClass %q; create it or correct spec.source.snapshotClassName", name)}
	case class.Driver != facts.Driver:
		return &agentpod.Problem{Reason: v1alpha1.ReasonClassUnsuitable, Message: fmt.Sprintf(
			"VolumeSnapshotClass %q is of driver %s and the source of %s; set spec.source.snapshotClassName to a class of that",
			class.Name, class.Driver, facts.Driver)}
	case class.Retains:
		return &agentpod.Problem{Reason: v1alpha1.ReasonClassUnsuitable, Message: fmt.Sprintf(
			"VolumeSnapshotClass %q keeps snapshots that are deleted (deletionPolicy), so each run would leave one; set "+
				"spec.source.snapshotClassName to a class with deletionPolicy: Delete", class.Name)}
	}
	return nil
}

// stagedClaim is the claim that the run in status reads. Without a snapshot it is a clone, or what a claim from a
// snapshot will be like.
func stagedClaim(
	transfer *v1alpha1.Transfer, facts StagingFacts, snapshot *Snapshot,
) *corev1.PersistentVolumeClaim {
	source, staged := facts.Source, transfer.Status.Staged
	from := &corev1.TypedLocalObjectReference{
		APIGroup: ptr.To(SnapshotGroup), Kind: "VolumeSnapshot", Name: staged.Name,
	}
	switch {
	case snapshot != nil:
		from.Name = snapshot.Name
	case staged.Method == v1alpha1.CopyClone:
		from = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source.Name}
	}
	modes := transfer.Spec.Source.StagedAccessModes
	if len(modes) == 0 {
		modes = source.Spec.AccessModes
	}
	size := stagedSize(source, snapshot)
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: transfer.Namespace, Name: staged.Name, Labels: StagedLabels(transfer, staged.RunID),
			OwnerReferences: []metav1.OwnerReference{agentpod.OwnerReference("Transfer", transfer)},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: slices.Clone(modes), StorageClassName: ptr.To(facts.StorageClass.Name),
			VolumeMode: source.Spec.VolumeMode, DataSource: from,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
}

// stagedSize is at least that of the source and of what the snapshot needs. A driver that tells less of a snapshot does
// not shrink the claim.
func stagedSize(source *corev1.PersistentVolumeClaim, snapshot *Snapshot) resource.Quantity {
	size := source.Spec.Resources.Requests[corev1.ResourceStorage]
	larger := func(other resource.Quantity) {
		if other.Cmp(size) > 0 {
			size = other
		}
	}
	larger(source.Status.Capacity[corev1.ResourceStorage])
	if snapshot != nil && snapshot.RestoreSize != nil {
		larger(*snapshot.RestoreSize)
	}
	return size
}

// checkRestoreSize is what speaks against a claim as large as the driver says that a snapshot needs; nil if nothing
// does. A driver that is wrong there would take a pool or a quota for one copy.
func checkRestoreSize(source *corev1.PersistentVolumeClaim, snapshot *Snapshot) *agentpod.Problem {
	own, wanted := stagedSize(source, nil), stagedSize(source, snapshot)
	if wanted.AsApproximateFloat64() <= maxRestoreFactor*own.AsApproximateFloat64() {
		return nil
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotFailed, Message: fmt.Sprintf(
		"the driver says that VolumeSnapshot %q needs %s (restoreSize), more than %d times the %s of the source, so no "+
			"claim was made of it; look at the log of the CSI driver, or set spec.source.copyMethod to Clone or Direct",
		snapshot.Name, wanted.String(), maxRestoreFactor, own.String())}
}

// validateStaging checks again what the API server checks of copies.
func validateStaging(source v1alpha1.TransferSource) error {
	staged := source.StagedStorageClassName != "" || len(source.StagedAccessModes) > 0 || source.StagingDeadline != nil
	copies := source.CopyMethod == v1alpha1.CopySnapshot || source.CopyMethod == v1alpha1.CopyClone
	switch {
	case copies && source.ObjectStore != nil:
		return &policy.InvalidError{Field: "spec.source.copyMethod", Fix: "must be Direct: an objectStore is read directly"}
	case source.VolumeGroupSnapshotName != "" && (source.CopyMethod != v1alpha1.CopySnapshot || source.Hooks != nil ||
		source.SnapshotClassName != ""):
		return &policy.InvalidError{
			Field: "spec.source.volumeGroupSnapshotName",
			Fix:   "needs copyMethod: Snapshot, without snapshotClassName and hooks: the snapshot is taken already",
		}
	case source.SnapshotClassName != "" && source.CopyMethod != v1alpha1.CopySnapshot:
		return &policy.InvalidError{
			Field: "spec.source.snapshotClassName", Fix: "means something only with copyMethod: Snapshot",
		}
	case staged && !copies:
		return &policy.InvalidError{
			Field: "spec.source.copyMethod", Fix: "must be Snapshot or Clone where stagedStorageClassName, stagedAccessModes " +
				"or stagingDeadline are set",
		}
	case source.StagingDeadline != nil && source.StagingDeadline.Duration <= 0:
		return &policy.InvalidError{Field: "spec.source.stagingDeadline", Fix: "must be positive; write for example 10m"}
	}
	return nil
}
