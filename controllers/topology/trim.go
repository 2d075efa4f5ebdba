// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Trim returns what removes from objects in a cache what nobody looks at. Of a node that is most of it. Slots are
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
		}
		return object, nil
	}
}

func slotsOf(resources corev1.ResourceList, capped bool) corev1.ResourceList {
	slots, found := resources[v1alpha1.AcceleratorSlotsResource]
	if !found || !capped {
		return nil
	}
	return corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: slots}
}
