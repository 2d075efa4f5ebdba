// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
)

// validateScrub checks again what the API server checks of Transfers that verify their source.
func validateScrub(spec v1alpha1.TransferSpec) error {
	to, from := spec.Destination, spec.Source
	switch {
	case to.Scrub == "":
		return nil
	case to.Scrub != v1alpha1.ScrubChecksums && to.Scrub != v1alpha1.ScrubInflate:
		return &policy.InvalidError{Field: "spec.destination.scrub", Fix: "must be Checksums or Inflate"}
	case to.ObjectStore != nil || to.Ephemeral != nil || to.PersistentVolumeClaim.ClaimName != "":
		return &policy.InvalidError{
			Field: "spec.destination",
			Fix:   "must have exactly one of persistentVolumeClaim, objectStore, ephemeral and scrub",
		}
	case to.Peer != "" || to.Namespace != "" || to.Form != "":
		return &policy.InvalidError{
			Field: "spec.destination", Fix: "must have neither peer, namespace nor form with scrub, which writes nothing",
		}
	case from.ObjectStore == nil && !from.Form.Compressed():
		return &policy.InvalidError{
			Field: "spec.source.form", Fix: "must be Gzip, Zstd or Archive with scrub: plain files have no checksums",
		}
	case len(spec.Include)+len(spec.Exclude) > 0 || spec.Delete || spec.Receipt || from.Hooks != nil ||
		from.CopyMethod != "" && from.CopyMethod != v1alpha1.CopyDirect:
		return &policy.InvalidError{
			Field: "spec.destination.scrub", Fix: "verifies everything where it rests and writes nothing; remove include, " +
				"exclude, delete, receipt, source.copyMethod and source.hooks",
		}
	}
	return nil
}

// scrubConfig is how the agent verifies; nil: it moves data.
func scrubConfig(transfer *v1alpha1.Transfer) *wirev1.Scrub {
	if !Scrubs(transfer) {
		return nil
	}
	return &wirev1.Scrub{Inflate: transfer.Spec.Destination.Scrub == v1alpha1.ScrubInflate}
}
