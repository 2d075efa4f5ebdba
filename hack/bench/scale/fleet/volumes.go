// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const driver = "fleet.example"

// zones in which nodes and volumes are.
var zones = []string{"a", "b", "c"}

// provision makes a claim that is bound to a volume of its own, which is attached to one node at a time.
func (f *Fleet) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	claims, volumes := f.typed.CoreV1().PersistentVolumeClaims(claim.Namespace), f.typed.CoreV1().PersistentVolumes()
	claim.Spec.VolumeName = volumeName(claim.Namespace, claim.Name)
	made, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = claims.Get(ctx, claim.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("create claim %s: %w", claim.Name, err)
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	zone := zones[len(claim.Name)%len(zones)]
	volume, err := volumes.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: claim.Spec.VolumeName, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": driver},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "fleet",
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
				UID: made.UID, ResourceVersion: made.ResourceVersion,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: inZone(zone)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driver, VolumeHandle: "volume-" + claim.Spec.VolumeName, FSType: "ext4",
				VolumeAttributes: map[string]string{"csi.storage.k8s.io/pv/name": claim.Spec.VolumeName},
			}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		volume, err = volumes.Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("create volume %s: %w", claim.Spec.VolumeName, err)
	}
	volume.Status.Phase = corev1.VolumeBound
	if _, err := volumes.UpdateStatus(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write the status of volume %s: %w", volume.Name, err)
	}
	made.Status = corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: volume.Spec.AccessModes, Capacity: volume.Spec.Capacity,
	}
	if _, err := claims.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write the status of claim %s: %w", claim.Name, err)
	}
	return nil
}

// inZone selects the nodes of a zone.
func inZone(zone string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
		}},
	}}}
}

func volumeName(namespace, claim string) string { return "pv-" + namespace + "-" + claim }

func newClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "ledger"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("fleet"),
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
}

// attach returns the node for a pod with these claims: where the first of them is attached, or else any, where it is
// attached now.
func (f *Fleet) attach(ctx context.Context, namespace string, claims []string) (string, error) {
	if len(claims) == 0 {
		return f.node(), nil
	}
	volume := volumeName(namespace, claims[0])
	f.mu.Lock()
	node, known := f.attached[volume]
	if !known {
		node = f.node()
		f.attached[volume] = node
	}
	f.mu.Unlock()
	if known {
		return node, nil
	}
	attachments := f.typed.StorageV1().VolumeAttachments()
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-" + strings.TrimPrefix(volume, "pv-")},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
	made, err := attachments.Create(ctx, attachment, metav1.CreateOptions{})
	if err == nil {
		made.Status.Attached = true
		_, err = attachments.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("attach volume %s: %w", volume, err)
	}
	return node, nil
}
