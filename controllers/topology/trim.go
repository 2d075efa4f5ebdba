// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Trim returns what removes from objects in a cache what nobody looks at, which is most of them. Slots are
// looked at only where agents are capped: a node goes on advertising those that it has from when there was a cap, which
// nobody may take from it any more.
func Trim(capped bool) func(object any) (any, error) {
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *corev1.Node:
			o.ManagedFields = nil
			o.Annotations = nil
			o.Status = corev1.NodeStatus{
				Conditions: slices.DeleteFunc(o.Status.Conditions, func(c corev1.NodeCondition) bool {
					return c.Type != corev1.NodeReady
				}),
				Addresses:   o.Status.Addresses,
				NodeInfo:    corev1.NodeSystemInfo{Architecture: o.Status.NodeInfo.Architecture},
				Capacity:    slotsOf(o.Status.Capacity, capped),
				Allocatable: slotsOf(o.Status.Allocatable, capped),
			}
		case *corev1.PersistentVolume:
			o.ManagedFields, o.Annotations, o.Labels = nil, nil, nil
			o.Spec = corev1.PersistentVolumeSpec{
				ClaimRef: o.Spec.ClaimRef, AccessModes: o.Spec.AccessModes, NodeAffinity: o.Spec.NodeAffinity,
			}
			o.Status = corev1.PersistentVolumeStatus{Phase: o.Status.Phase}
		case *storagev1.VolumeAttachment:
			o.ManagedFields, o.Annotations = nil, nil
			o.Status = storagev1.VolumeAttachmentStatus{Attached: o.Status.Attached}
		case *corev1.PersistentVolumeClaim:
			o.ManagedFields, o.Annotations = nil, nil
			o.Spec = corev1.PersistentVolumeClaimSpec{
				AccessModes: o.Spec.AccessModes, VolumeMode: o.Spec.VolumeMode,
				Resources:     corev1.VolumeResourceRequirements{Requests: o.Spec.Resources.Requests},
				DataSourceRef: ofOurs(o.Spec.DataSourceRef),
			}
			o.Status = corev1.PersistentVolumeClaimStatus{Phase: o.Status.Phase}
		case *corev1.Pod:
			o.ManagedFields, o.Annotations = nil, nil
			o.Spec = trimPod(o.Spec)
			o.Status.InitContainerStatuses, o.Status.HostIPs, o.Status.PodIPs = nil, nil, nil
		case *batchv1.Job:
			o.ManagedFields, o.Annotations = nil, nil
			o.Spec = batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: trimPod(o.Spec.Template.Spec)}}
		}
		return object, nil
	}
}

// ofOurs is a reference to a kind of this API group, which claims are populated from; nil of another one.
func ofOurs(ref *corev1.TypedObjectReference) *corev1.TypedObjectReference {
	if ref == nil || ref.APIGroup == nil || *ref.APIGroup != v1alpha1.GroupVersion.Group {
		return nil
	}
	return ref
}

// trimPod leaves where a pod is to run, until it does, and what its containers ask of accelerators.
func trimPod(spec corev1.PodSpec) corev1.PodSpec {
	trimmed := corev1.PodSpec{NodeName: spec.NodeName}
	if spec.NodeName == "" && spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		trimmed.Affinity = &corev1.Affinity{NodeAffinity: spec.Affinity.NodeAffinity}
	}
	for _, c := range spec.Containers {
		container := corev1.Container{Name: c.Name, Image: c.Image}
		if slots, asked := c.Resources.Requests[v1alpha1.AcceleratorSlotsResource]; asked {
			container.Resources.Requests = corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: slots}
		}
		trimmed.Containers = append(trimmed.Containers, container)
	}
	return trimmed
}

func slotsOf(resources corev1.ResourceList, capped bool) corev1.ResourceList {
	slots, found := resources[v1alpha1.AcceleratorSlotsResource]
	if !found || !capped {
		return nil
	}
	return corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: slots}
}
