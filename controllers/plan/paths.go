// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
)

const maxPathBytes = 4096

// relative is a path of the API as agents want it: relative to the volume, "." for its root.
func relative(p string) string {
	cleaned := strings.TrimPrefix(path.Clean("/"+p), "/")
	if cleaned == "" {
		return "."
	}
	return cleaned
}

// overlap reports whether one of two directories is in the other, or both are the same.
func overlap(a, b string) bool {
	a, b = relative(a), relative(b)
	within := func(inner, outer string) bool {
		return outer == "." || inner == outer || strings.HasPrefix(inner, outer+"/")
	}
	return within(a, b) || within(b, a)
}

func validatePath(field, p string) error {
	switch {
	case p == "":
		return nil
	case len(p) > maxPathBytes:
		return &policy.InvalidError{Field: field, Fix: fmt.Sprintf("must be at most %d bytes long", maxPathBytes)}
	case !strings.HasPrefix(p, "/"):
		return &policy.InvalidError{
			Field: field, Fix: fmt.Sprintf("must be absolute, from the root of the volume, not %q; write for example /data", p),
		}
	case strings.ContainsRune(p, 0):
		return &policy.InvalidError{Field: field, Fix: "must not contain a NUL"}
	}
	if elements := strings.Split(p, "/"); slices.Contains(elements, "..") || slices.Contains(elements, ".") {
		return &policy.InvalidError{Field: field, Fix: "must not contain . or .. elements; name the directory itself"}
	}
	return nil
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

// maxPatterns of spec.include and of spec.exclude. Whether a pattern is well formed the agent says, which reads it.
const maxPatterns = 128

// ValidateTransfer checks again what the API server checks. The error is a *policy.InvalidError.
func ValidateTransfer(spec v1alpha1.TransferSpec) error {
	if err := validatePath("spec.source.persistentVolumeClaim.path", spec.Source.PersistentVolumeClaim.Path); err != nil {
		return err
	}
	if err := validatePath(
		"spec.destination.persistentVolumeClaim.path", spec.Destination.PersistentVolumeClaim.Path,
	); err != nil {
		return err
	}
	switch {
	case spec.Source.PersistentVolumeClaim.ClaimName == "":
		return &policy.InvalidError{Field: "spec.source.persistentVolumeClaim.claimName", Fix: "must name a claim"}
	case spec.Destination.PersistentVolumeClaim.ClaimName == "":
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
	case len(spec.Include) > maxPatterns || len(spec.Exclude) > maxPatterns:
		return &policy.InvalidError{
			Field: "spec.include and spec.exclude",
			Fix:   fmt.Sprintf("must have at most %d patterns each; put some together with * or **", maxPatterns),
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

// DestinationKey is the same for two Transfers if and only if they write into the same claim.
func DestinationKey(transfer *v1alpha1.Transfer) string {
	return transfer.Spec.Destination.Peer + LocalDestinationKey(
		DestinationNamespace(transfer), transfer.Spec.Destination.PersistentVolumeClaim.ClaimName,
	)
}

// LocalDestinationKey is the DestinationKey of the Transfers within this cluster into a claim.
func LocalDestinationKey(namespace, claim string) string {
	return "/" + namespace + "/" + claim
}
