// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

const (
	// maxName of a Transfer.
	maxName = 253
	// digestDigits of the hexadecimal digests in names and annotations.
	digestDigits = 16
	// firstRun is what members with a schedule are annotated with, so that they do not wait for its time.
	firstRun = "first"
)

// MemberName is the name of the Transfer that a set makes for a claim: both names, or, where that is too long, the
// beginning of them and a digest.
func MemberName(set, claim string) string {
	name := set + "-" + claim
	if len(name) <= maxName {
		return name
	}
	return strings.TrimRight(name[:maxName-digestDigits-1], "-.") + "-" + digest([]byte(name))
}

func digest(of []byte) string {
	sum := sha256.Sum256(of)
	return hex.EncodeToString(sum[:])[:digestDigits]
}

// memberSpec is the spec of the Transfer of a claim, and of the group that it reads, if it reads one.
func memberSpec(set *v1alpha1.TransferSet, claim, group string) v1alpha1.TransferSpec {
	template := set.Spec.Template.DeepCopy()
	source := v1alpha1.TransferSource{
		PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: claim, Path: "/"},
	}
	if template.Source != nil {
		source.PersistentVolumeClaim.Path = cmp.Or(template.Source.Path, "/")
		source.SourceCopy, source.Form = template.Source.SourceCopy, template.Source.Form
		source.Encryption = template.Source.Encryption
	}
	source.VolumeGroupSnapshotName = group
	schedule := template.Schedule
	if set.Spec.Group != nil && schedule != nil {
		// The set starts the runs.
		schedule = &v1alpha1.TransferSchedule{TimeZone: schedule.TimeZone, Windows: schedule.Windows}
		if len(schedule.Windows) == 0 {
			schedule = nil
		}
	}
	to := template.Destination
	destination := v1alpha1.TransferDestination{
		Peer: to.Peer, Via: to.Via, Namespace: to.Namespace, Form: to.Form, Records: to.Records, Encryption: to.Encryption,
	}
	if to.ObjectStore != nil {
		destination.ObjectStore = &v1alpha1.ObjectStorePath{
			Name: to.ObjectStore.Name, Path: path.Join("/", to.ObjectStore.Path, claim),
		}
	} else {
		into := claimOf(to)
		destination.PersistentVolumeClaim = v1alpha1.DestinationClaim{
			PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{
				ClaimName: into.NamePrefix + claim, Path: into.Path,
			},
			Template: into.Template,
		}
	}
	return v1alpha1.TransferSpec{
		Source: source, Destination: destination,
		Include: template.Include, Exclude: template.Exclude,
		Delete: template.Delete, AllowEmptySource: template.AllowEmptySource,
		Compression: template.Compression, Verify: template.Verify, Receipt: template.Receipt,
		CheckpointInterval: template.CheckpointInterval, Streams: template.Streams,
		BandwidthLimit: template.BandwidthLimit, MaxAttempts: template.MaxAttempts,
		Schedule: schedule, Suspend: set.Spec.Suspend, Objective: template.Objective,
		Deadline:    template.Deadline,
		PodTemplate: template.PodTemplate,
	}
}

// hashOf a spec. The API server adds defaults to specs, so they are compared by what they were made of.
func hashOf(spec any) (string, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("encoding %T of a member: %w", spec, err)
	}
	return digest(text), nil
}

// newMember is the Transfer of a claim.
func newMember(set *v1alpha1.TransferSet, member Member, spec v1alpha1.TransferSpec, hash string) *v1alpha1.Transfer {
	transfer := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: member.Name,
			Labels: map[string]string{
				v1alpha1.TransferSetLabel: set.Name, agentpod.ManagedByLabel: agentpod.ManagedBy,
			},
			Annotations:     map[string]string{v1alpha1.TemplateHashAnnotation: hash},
			OwnerReferences: owners(set, nil),
		},
		Spec: spec,
	}
	switch group := spec.Source.VolumeGroupSnapshotName; {
	case group != "":
		transfer.Annotations[v1alpha1.RunAnnotation] = group
	case spec.Schedule != nil:
		transfer.Annotations[v1alpha1.RunAnnotation] = firstRun
	}
	return transfer
}

// owners are the owner references of a member that has those given: with the set's where members are deleted with it.
func owners(set *v1alpha1.TransferSet, given []metav1.OwnerReference) []metav1.OwnerReference {
	var wanted []metav1.OwnerReference
	for _, reference := range given {
		if reference.UID != set.UID {
			wanted = append(wanted, reference)
		}
	}
	if set.Spec.MemberPolicy != v1alpha1.MembersRetain {
		wanted = append(wanted, agentpod.OwnerReference("TransferSet", set))
	}
	return wanted
}

// made reports whether a Transfer is one that the set made, or a set of its name before it, such as the one that a
// backup has. Somebody may have copied it, label and all, to another name.
func made(set *v1alpha1.TransferSet, transfer *v1alpha1.Transfer) bool {
	owner := metav1.GetControllerOf(transfer)
	return transfer.Labels[v1alpha1.TransferSetLabel] == set.Name &&
		transfer.Labels[agentpod.ManagedByLabel] == agentpod.ManagedBy && // or admission rejects all writes
		transfer.Annotations[v1alpha1.TemplateHashAnnotation] != "" &&
		transfer.Name == MemberName(set.Name, transfer.Spec.Source.PersistentVolumeClaim.ClaimName) &&
		(owner == nil || owner.UID == set.UID)
}
