// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

const (
	// The volumes of claims with archives, and where they are mounted.
	archiveVolume    = "archive"
	restoreVolume    = "restore"
	archiveDirectory = "/var/lib/lighterage-archive"
	restoreDirectory = "/var/lib/lighterage-restore"
)

// archiveOf is what the members are told of the archive; nil without spec.archive.
func archiveOf(archive *v1alpha1.QueueArchive) *wirev1.QueueArchiveConfig {
	if archive == nil {
		return nil
	}
	config := &wirev1.QueueArchiveConfig{}
	if archive.PersistentVolumeClaim.ClaimName != "" {
		config.Directory = archiveDirectory
	}
	if archive.Interval != nil {
		config.Interval = durationpb.New(archive.Interval.Duration)
	}
	if archive.MaxRangeSize != nil {
		config.MaxRangeBytes = uint64(max(archive.MaxRangeSize.Value(), 0))
	}
	if archive.Retention != nil {
		config.Retention = durationpb.New(archive.Retention.Duration)
	}
	return config
}

// restoreOf is what the members are told to restore; nil without spec.restore.
func restoreOf(restore *v1alpha1.QueueRestore) *wirev1.QueueRestoreConfig {
	if restore == nil {
		return nil
	}
	config := &wirev1.QueueRestoreConfig{
		Queue: restore.Queue, Path: restore.Path, Everything: restore.Messages == v1alpha1.QueueRestoreAll,
	}
	if restore.PersistentVolumeClaim.ClaimName != "" {
		config.Directory = restoreDirectory
	}
	return config
}

// claimNames are the claims of archives that a Queue names.
func claimNames(spec v1alpha1.QueueSpec) []string {
	var names []string
	if spec.Archive != nil && spec.Archive.PersistentVolumeClaim.ClaimName != "" {
		names = append(names, spec.Archive.PersistentVolumeClaim.ClaimName)
	}
	if spec.Restore != nil && spec.Restore.PersistentVolumeClaim.ClaimName != "" {
		names = append(names, spec.Restore.PersistentVolumeClaim.ClaimName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkArchiveClaims is why claims of archives cannot be used by all members.
func checkArchiveClaims(queue *v1alpha1.Queue, claims []corev1.PersistentVolumeClaim) *agentpod.Problem {
	find := func(name string) *corev1.PersistentVolumeClaim {
		i := slices.IndexFunc(claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
		if i < 0 {
			return nil
		}
		return &claims[i]
	}
	spec := queue.Spec
	if spec.Archive != nil && spec.Archive.PersistentVolumeClaim.ClaimName != "" {
		name := spec.Archive.PersistentVolumeClaim.ClaimName
		claim := find(name)
		if claim == nil {
			return &agentpod.Problem{
				Reason: v1alpha1.ReasonDestinationNotFound,
				Message: fmt.Sprintf("PersistentVolumeClaim %q, "+
					"which spec.archive names, does not exist in namespace %q; create it, or name another", name, queue.Namespace),
			}
		}
		if problem := shared(queue, claim, "spec.archive", corev1.ReadWriteMany); problem != nil {
			return problem
		}
		if !slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
			return mode != corev1.ReadOnlyMany
		}) {
			return &agentpod.Problem{
				Reason: v1alpha1.ReasonClaimNotShared,
				Message: fmt.Sprintf("PersistentVolumeClaim %q, which "+
					"spec.archive names, is %s, and an archive is written; name one that is ReadWriteOnce or ReadWriteMany", name,
					corev1.ReadOnlyMany),
			}
		}
	}
	if spec.Restore != nil && spec.Restore.PersistentVolumeClaim.ClaimName != "" {
		name := spec.Restore.PersistentVolumeClaim.ClaimName
		claim := find(name)
		if claim == nil {
			return &agentpod.Problem{
				Reason: v1alpha1.ReasonSourceNotFound,
				Message: fmt.Sprintf("PersistentVolumeClaim %q, which "+
					"spec.restore names, does not exist in namespace %q; create it, or remove spec.restore if the Queue is to start "+
					"without the archived messages", name, queue.Namespace),
			}
		}
		return shared(queue, claim, "spec.restore", corev1.ReadWriteMany, corev1.ReadOnlyMany)
	}
	return nil
}

// shared is why the members, if they are several, cannot all have a claim.
func shared(
	queue *v1alpha1.Queue, claim *corev1.PersistentVolumeClaim, field string, modes ...corev1.PersistentVolumeAccessMode,
) *agentpod.Problem {
	if memberCount(queue.Spec) == 1 ||
		slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
			return slices.Contains(modes, mode)
		}) {
		return nil
	}
	return &agentpod.Problem{
		Reason: v1alpha1.ReasonClaimNotShared,
		Message: fmt.Sprintf("PersistentVolumeClaim %q, which "+
			"%s names, is %v, and the Queue has %d members on several nodes, any of which may come to lead and use it; name a "+
			"claim that is %v", claim.Name, field, claim.Spec.AccessModes, memberCount(queue.Spec), modes[0]),
	}
}

// archiveVolumes are those of archives, and where they are mounted. A claim that is for both is one volume.
func archiveVolumes(spec v1alpha1.QueueSpec) ([]corev1.Volume, []corev1.VolumeMount) {
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	add := func(name, claim string, readOnly bool) {
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: readOnly},
		}})
	}
	written := ""
	if spec.Archive != nil && spec.Archive.PersistentVolumeClaim.ClaimName != "" {
		written = spec.Archive.PersistentVolumeClaim.ClaimName
		add(archiveVolume, written, false)
		mounts = append(mounts, corev1.VolumeMount{Name: archiveVolume, MountPath: archiveDirectory})
	}
	if spec.Restore == nil || spec.Restore.PersistentVolumeClaim.ClaimName == "" {
		return volumes, mounts
	}
	volume := archiveVolume
	if claim := spec.Restore.PersistentVolumeClaim.ClaimName; claim != written {
		volume = restoreVolume
		add(volume, claim, true)
	}
	return volumes, append(mounts, corev1.VolumeMount{Name: volume, MountPath: restoreDirectory, ReadOnly: true})
}
