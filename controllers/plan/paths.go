// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/policy"
)

// Overlap reports whether one of two directories is in the other, or both are the same.
func Overlap(a, b string) bool {
	a, b = attempt.RelativePath(a), attempt.RelativePath(b)
	within := func(inner, outer string) bool {
		return outer == "." || inner == outer || strings.HasPrefix(inner, outer+"/")
	}
	return within(a, b) || within(b, a)
}

// Bounds of spec.checkpointInterval, in bytes.
const (
	minCheckpointInterval     = 1 << 20
	maxCheckpointInterval     = 16 << 30
	defaultCheckpointInterval = 64 << 20
)

// Bounds of spec.bandwidthLimit, in bytes per second, and of spec.streams.
const (
	minBandwidthLimit = 256 << 10
	maxBandwidthLimit = 1 << 50
	maxStreams        = 16
)

// ValidateTransfer checks again what the API server checks. The error is a *policy.InvalidError.
func ValidateTransfer(spec v1alpha1.TransferSpec) error {
	if err := attempt.ValidatePath("spec.source.persistentVolumeClaim.path",
		spec.Source.PersistentVolumeClaim.Path); err != nil {
		return err
	}
	if err := attempt.ValidatePath(
		"spec.destination.persistentVolumeClaim.path", spec.Destination.PersistentVolumeClaim.Path,
	); err != nil {
		return err
	}
	if err := validateStores(spec); err != nil {
		return err
	}
	if err := validateStaging(spec.Source); err != nil {
		return err
	}
	if err := validateTemplate(spec); err != nil {
		return err
	}
	if err := validateDestinations(spec); err != nil {
		return err
	}
	if err := validatePull(spec); err != nil {
		return err
	}
	if err := validateDeadline(spec); err != nil {
		return err
	}
	switch {
	case spec.Source.ObjectStore == nil && spec.Source.PersistentVolumeClaim.ClaimName == "":
		return &policy.InvalidError{Field: "spec.source.persistentVolumeClaim.claimName", Fix: "must name a claim"}
	case len(spec.Destinations) == 0 && spec.Destination.ObjectStore == nil &&
		spec.Destination.Ephemeral == nil && spec.Destination.Scrub == "" &&
		spec.Destination.PersistentVolumeClaim.ClaimName == "":
		return &policy.InvalidError{Field: "spec.destination.persistentVolumeClaim.claimName", Fix: "must name a claim"}
	case spec.CheckpointInterval != nil && (spec.CheckpointInterval.Value() < minCheckpointInterval ||
		spec.CheckpointInterval.Value() > maxCheckpointInterval):
		return &policy.InvalidError{
			Field: "spec.checkpointInterval", Fix: fmt.Sprintf("must be between 1Mi and 16Gi, not %s", spec.CheckpointInterval),
		}
	case spec.BandwidthLimit != nil && (spec.BandwidthLimit.Value() < minBandwidthLimit ||
		spec.BandwidthLimit.Value() > maxBandwidthLimit):
		return &policy.InvalidError{
			Field: "spec.bandwidthLimit",
			Fix:   fmt.Sprintf("must be between 256Ki and 1Pi bytes per second, not %s", spec.BandwidthLimit),
		}
	case spec.Streams < 0 || spec.Streams > maxStreams:
		return &policy.InvalidError{
			Field: "spec.streams",
			Fix:   fmt.Sprintf("must be between 0, which is one for each core, and %d, not %d", maxStreams, spec.Streams),
		}
	case len(spec.Include) > attempt.MaxPatterns || len(spec.Exclude) > attempt.MaxPatterns:
		return &policy.InvalidError{
			Field: "spec.include and spec.exclude",
			Fix:   fmt.Sprintf("must have at most %d patterns each; put some together with * or **", attempt.MaxPatterns),
		}
	case spec.AllowEmptySource && !spec.Delete:
		return &policy.InvalidError{
			Field: "spec.allowEmptySource", Fix: "means something only with spec.delete: true; add that, or remove it",
		}
	case spec.MaxAttempts < 0 || spec.MaxAttempts > 100:
		return &policy.InvalidError{
			Field: "spec.maxAttempts", Fix: fmt.Sprintf("must be between 1 and 100, not %d", spec.MaxAttempts),
		}
	}
	return nil
}

// DestinationNamespace is where the Transfer writes.
func DestinationNamespace(transfer *v1alpha1.Transfer) string {
	if transfer.Spec.Destination.Namespace != "" {
		return transfer.Spec.Destination.Namespace
	}
	return transfer.Namespace
}

// DestinationKey is the same for two Transfers if and only if they write into the same claim or object store.
func DestinationKey(transfer *v1alpha1.Transfer) string {
	if HasLegs(transfer) {
		return "" // it writes by its legs
	}
	if at := transfer.Spec.Destination.ObjectStore; at != nil {
		return LocalDestinationKey(transfer.Namespace, "objectstores/"+at.Name) // no claim has a slash in its name
	}
	if transfer.Spec.Destination.Ephemeral != nil {
		return LocalDestinationKey(transfer.Namespace, "ephemeral/"+transfer.Name) // nobody else's
	}
	if Scrubs(transfer) {
		return LocalDestinationKey(transfer.Namespace, "scrub/"+transfer.Name) // likewise
	}
	return transfer.Spec.Destination.Peer + LocalDestinationKey(
		DestinationNamespace(transfer), transfer.Spec.Destination.PersistentVolumeClaim.ClaimName,
	)
}

// LocalDestinationKey is the DestinationKey of the Transfers within this cluster into a claim.
func LocalDestinationKey(namespace, claim string) string {
	return "/" + namespace + "/" + claim
}
