// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

// sendPlacement is what is wanted for the agent that sends.
func sendPlacement(
	transfer *v1alpha1.Transfer, route v1alpha1.Route, resolved policy.Resolved, image agentpod.Image,
) placement.Request {
	var tolerations []corev1.Toleration
	if transfer.Spec.PodTemplate != nil {
		tolerations = transfer.Spec.PodTemplate.Tolerations
	}
	mode, place, codecs := resolved.Mode, resolved.Placement, resolved.Codecs
	switch form := transfer.Spec.Destination.Form; {
	case form == v1alpha1.RestingGzip:
		codecs = []v1alpha1.Codec{v1alpha1.CodecDeflate}
	case form == v1alpha1.RestingZstd:
		codecs = []v1alpha1.Codec{v1alpha1.CodecZstd}
	case form.Compressed(): // It rests compressed, wherever that is.
	case route == v1alpha1.RouteObjectStore, route == v1alpha1.RoutePod && mode != v1alpha1.CompressionAlways:
		// Nothing is compressed where there is no network, or into an object, so an accelerator has no use.
		mode, place = v1alpha1.CompressionNever, v1alpha1.PlacementAnyNode
	}
	return placement.Request{
		Placement: place,
		Mode:      mode,
		Codecs:    codecs,
		Level:     resolved.Level,
		// In mode Auto the level is a ceiling, and an accelerator is used at the least effort that it has, since it
		// makes no difference to it.
		AnyLevel:         mode == v1alpha1.CompressionAuto,
		SoftwareDisabled: resolved.SoftwareDisabled,
		SoftwareEngines:  resolved.SoftwareEngines,
		Tolerations:      tolerations,
		Architectures:    image.Architectures,
	}
}

// receivePlacement is what is wanted for the agent that receives. Which codec arrives is agreed later.
func receivePlacement(image agentpod.Image) placement.Request {
	return placement.Request{
		Placement: v1alpha1.PlacementPreferHardware, Inflates: true, Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate},
		Architectures: image.Architectures,
	}
}

// hasSlot reports whether the Job's pod asks for a slot of an accelerator.
func hasSlot(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		_, asked := c.Resources.Requests[v1alpha1.AcceleratorSlotsResource]
		return asked
	})
}

// TransferWaitsForNode reports whether an attempt has no node yet, or cannot begin for want of one, so that a change of
// nodes or of a volume may help.
func TransferWaitsForNode(transfer *v1alpha1.Transfer) bool {
	if Pulls(transfer) {
		return false
	}
	switch transfer.Status.Phase {
	case v1alpha1.TransferPending, v1alpha1.TransferQueued, v1alpha1.TransferStarting, v1alpha1.TransferRetrying:
		return attempt.NeedsPlacement(transfer.Status.Run, transfer.Status.Placement)
	}
	return false
}
