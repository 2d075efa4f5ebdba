// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
)

// sourceIsBlock reports whether what a Transfer's agent reads is a block volume. A copy is of the mode of its source,
// which may be gone.
func sourceIsBlock(transfer *v1alpha1.Transfer, facts TransferFacts) bool {
	if transfer.Spec.Source.ObjectStore != nil {
		return false
	}
	kept := KeptCopy(transfer)
	i := slices.IndexFunc(facts.Staging.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == kept })
	if i >= 0 {
		return attempt.IsBlock(&facts.Staging.Claims[i])
	}
	return attempt.IsBlock(facts.Claim)
}

// destinationIsBlock is the same for the claim that is written, as far as it is known: of another cluster's only that
// cluster knows.
func destinationIsBlock(transfer *v1alpha1.Transfer, facts TransferFacts) bool {
	return IsLocal(transfer) && IntoClaim(transfer) && attempt.IsBlock(facts.Local.Claim)
}

// forgetOverwritten notes that the destination has no state of the source any more, from when a run into a block volume
// begins until one is complete: a device is written in its place, so that an attempt that ends early leaves it partly
// of one state and partly of another.
func (d *transferDecision) forgetOverwritten() {
	into := intoClaims(d.transfer) && sourceIsBlock(d.transfer, d.facts) || destinationIsBlock(d.transfer, d.facts)
	if UnderWay(d.transfer) && into {
		d.transfer.Status.RecoveryPoint = nil
	}
}

// checkVolumeModes looks for what keeps a block volume from being moved.
func checkVolumeModes(transfer *v1alpha1.Transfer, facts TransferFacts) *agentpod.Problem {
	from, to := sourceIsBlock(transfer, facts), destinationIsBlock(transfer, facts)
	spec := transfer.Spec
	mismatch := func(format string, args ...any) *agentpod.Problem {
		return &agentpod.Problem{Reason: v1alpha1.ReasonVolumeModeMismatch, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !from && !to:
		return nil
	case to && spec.Source.ObjectStore != nil, from && spec.Destination.ObjectStore != nil:
		return checkImage(transfer)
	case !from:
		return mismatch("the destination claim %q has volumeMode: Block and the source has files; use a destination with "+
			"volumeMode: Filesystem", spec.Destination.PersistentVolumeClaim.ClaimName)
	case !IntoClaim(transfer) && !HasLegs(transfer):
		return mismatch("the source claim %q has volumeMode: Block, which goes into an ObjectStore or a claim of the same "+
			"volumeMode only; name one in spec.destination", spec.Source.PersistentVolumeClaim.ClaimName)
	case templateOf(transfer) != nil:
		return mismatch("the source claim %q has volumeMode: Block, and templates create claims with volumeMode: Filesystem; "+
			"create the destination claim with volumeMode: Block and remove the template",
			spec.Source.PersistentVolumeClaim.ClaimName)
	case IsLocal(transfer) && !HasLegs(transfer) && facts.Local.Claim != nil && !to:
		return mismatch("the source claim %q has volumeMode: Block and the destination claim %q volumeMode: Filesystem; use "+
			"a destination with volumeMode: Block", spec.Source.PersistentVolumeClaim.ClaimName,
			spec.Destination.PersistentVolumeClaim.ClaimName)
	}
	return checkNoFiles(transfer, spec.Source.PersistentVolumeClaim.ClaimName)
}

// checkImage looks for what keeps a block volume from being an image in an object store, or from being made of one.
// What the store holds the agent finds out.
func checkImage(transfer *v1alpha1.Transfer) *agentpod.Problem {
	spec := transfer.Spec
	if spec.Destination.ObjectStore == nil {
		return checkNoFiles(transfer, spec.Destination.PersistentVolumeClaim.ClaimName)
	}
	claim := spec.Source.PersistentVolumeClaim.ClaimName
	if spec.Destination.Form.Archived() {
		return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
			"the source claim %q has volumeMode: Block, which has no files to archive; set spec.destination.form to Gzip, Zstd "+
				"or Files, and remove spec.destination.encryption", claim)}
	}
	return checkNoFiles(transfer, claim)
}

// checkNoFiles looks for what only a claim with files can have, of a Transfer with a block volume.
func checkNoFiles(transfer *v1alpha1.Transfer, claim string) *agentpod.Problem {
	spec := transfer.Spec
	var field string
	switch {
	case attempt.RelativePath(spec.Source.PersistentVolumeClaim.Path) != ".":
		field = "spec.source.persistentVolumeClaim.path"
	case attempt.RelativePath(spec.Destination.PersistentVolumeClaim.Path) != ".":
		field = "spec.destination.persistentVolumeClaim.path"
	case len(spec.Include) > 0:
		field = "spec.include"
	case len(spec.Exclude) > 0:
		field = "spec.exclude"
	case spec.Delete:
		field = "spec.delete"
	case spec.Source.Form.Compressed() && spec.Source.ObjectStore == nil:
		field = "spec.source.form"
	case spec.Destination.Form.Compressed() && spec.Destination.ObjectStore == nil:
		field = "spec.destination.form"
	case spec.Source.Encryption != nil:
		field = "spec.source.encryption"
	default:
		return nil
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
		"the claim %q has volumeMode: Block, which has no files; remove %s", claim, field)}
}

// imageOf is what an agent is told of a block volume that is an image in an object store; nil: there is none.
func imageOf(transfer *v1alpha1.Transfer, facts TransferFacts) *wirev1.Image {
	if transfer.Spec.Source.ObjectStore != nil && destinationIsBlock(transfer, facts) {
		return &wirev1.Image{}
	}
	if transfer.Spec.Destination.ObjectStore == nil || !sourceIsBlock(transfer, facts) {
		return nil
	}
	kept := facts.Staging.claim(KeptCopy(transfer))
	if kept == nil {
		return &wirev1.Image{} // Somebody may write to the source between two attempts.
	}
	image := &wirev1.Image{Version: string(kept.UID)}
	if made := transfer.Status.Staged.PointInTime; made != nil {
		image.Modified = made.UnixNano()
	}
	return image
}

// checkReceivedMode says what keeps what a Delivery receives from being written, and what to do; empty if nothing does.
// Of senders that do not tell the mode of their source the agents find out.
func checkReceivedMode(delivery *v1alpha1.Delivery, claim *corev1.PersistentVolumeClaim) string {
	name, from := delivery.Spec.Destination.PersistentVolumeClaim.ClaimName, delivery.Spec.SourceVolumeMode
	switch {
	case from == "" || claim == nil && from != corev1.PersistentVolumeBlock:
	case claim == nil:
		return fmt.Sprintf("the source has volumeMode: Block, and PersistentVolumeClaim %q would be created with "+
			"volumeMode: Filesystem; create it with volumeMode: Block in the receiving cluster, and remove the template", name)
	case attempt.IsBlock(claim) && from != corev1.PersistentVolumeBlock:
		return fmt.Sprintf("PersistentVolumeClaim %q of the receiving cluster has volumeMode: Block and the source has "+
			"files; use a destination with volumeMode: Filesystem", name)
	case !attempt.IsBlock(claim) && from == corev1.PersistentVolumeBlock:
		return fmt.Sprintf("the source has volumeMode: Block and PersistentVolumeClaim %q of the receiving cluster "+
			"volumeMode: Filesystem; use a destination with volumeMode: Block", name)
	}
	return ""
}
