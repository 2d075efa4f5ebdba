// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"slices"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// needsSomebody are the reasons that a further attempt will meet again until somebody, here or in the other cluster,
// has acted.
var needsSomebody = []string{
	v1alpha1.ReasonNotGranted,
	v1alpha1.ReasonSourceNotFound,
	v1alpha1.ReasonDestinationNotFound,
	v1alpha1.ReasonDestinationInUse,
	v1alpha1.ReasonPeerUntrusted,
	v1alpha1.ReasonPeerIncompatible,
	v1alpha1.ReasonReceiptUnsupported,
	v1alpha1.ReasonSnapshotsNotInstalled,
	v1alpha1.ReasonStagingNotAllowed,
	v1alpha1.ReasonSnapshotClassNotFound,
	v1alpha1.ReasonStorageClassNotFound,
	v1alpha1.ReasonClassUnsuitable,
	v1alpha1.ReasonCopyMethodUnsupported,
	v1alpha1.ReasonSourceNotReady,
	v1alpha1.ReasonSnapshotFailed,
	v1alpha1.ReasonStagingTimedOut,
	v1alpha1.ReasonStagedCopyLost,
	v1alpha1.ReasonGroupSnapshotNotFound,
	v1alpha1.ReasonStagingRejected,
	v1alpha1.ReasonCopyTriggerTimedOut,
	v1alpha1.ReasonBeforeHookFailed,
	v1alpha1.ReasonBeforeHookRejected,
	v1alpha1.ReasonHooksNotAllowed,
	v1alpha1.ReasonFormUnsupported,
	v1alpha1.ReasonVolumeModeMismatch,
	v1alpha1.ReasonEncryptionMismatch,
	v1alpha1.ReasonDestinationNotCreated,
}

// NeedsSomebody reports whether attempts that end for this reason do not count against spec.maxAttempts, and are
// repeated slowly.
func NeedsSomebody(reason string) bool {
	return slices.Contains(needsSomebody, reason)
}

// interruptions are the reasons of attempts that would have gone on with what they did.
var interruptions = []string{
	v1alpha1.ReasonEvicted,
	v1alpha1.ReasonAborted,
	v1alpha1.ReasonAgentLost,
	v1alpha1.ReasonConnectionLost,
	v1alpha1.ReasonPeerUnreachable,
}

// endsRun are the reasons that no further attempt of a run can fix: its spec has to change, or what it is to move.
var endsRun = []string{v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonSourceEmpty}

// EndsRun reports whether a run ends with an attempt that ends for this reason.
func EndsRun(reason string) bool { return slices.Contains(endsRun, reason) }

// Interrupted reports whether an attempt that ended for this reason would have gone on with what it did.
func Interrupted(reason string) bool { return slices.Contains(interruptions, reason) }
