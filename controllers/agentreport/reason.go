// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport

import (
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// reasons are the condition reasons of what agents and gateways say on the wire.
var reasons = map[wirev1.FailureReason]string{
	wirev1.FailureReason_FAILURE_REASON_INTERNAL:                 v1alpha1.ReasonInternal,
	wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND:         v1alpha1.ReasonSourceNotFound,
	wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE:      v1alpha1.ReasonSourceNotReadable,
	wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED:           v1alpha1.ReasonSourceChanged,
	wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND:    v1alpha1.ReasonDestinationNotFound,
	wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE:       v1alpha1.ReasonDestinationInUse,
	wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL:         v1alpha1.ReasonDestinationFull,
	wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE: v1alpha1.ReasonDestinationNotWritable,
	wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED:      v1alpha1.ReasonVerificationFailed,
	wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE:         v1alpha1.ReasonPeerUnreachable,
	wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED:           v1alpha1.ReasonPeerUntrusted,
	wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE:        v1alpha1.ReasonPeerIncompatible,
	wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED:              v1alpha1.ReasonNotGranted,
	wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST:          v1alpha1.ReasonConnectionLost,
	wirev1.FailureReason_FAILURE_REASON_INVALID_DATA:             v1alpha1.ReasonInvalidData,
	wirev1.FailureReason_FAILURE_REASON_ABORTED:                  v1alpha1.ReasonAborted,
	wirev1.FailureReason_FAILURE_REASON_UNSCHEDULABLE:            v1alpha1.ReasonUnschedulable,
	wirev1.FailureReason_FAILURE_REASON_AGENT_NOT_STARTED:        v1alpha1.ReasonAgentNotStarted,
	wirev1.FailureReason_FAILURE_REASON_AGENT_LOST:               v1alpha1.ReasonAgentLost,
	wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER:           v1alpha1.ReasonInvalidSpec,
	wirev1.FailureReason_FAILURE_REASON_DESTINATION_CHANGED:      v1alpha1.ReasonDestinationChanged,
	wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY:             v1alpha1.ReasonSourceEmpty,
	wirev1.FailureReason_FAILURE_REASON_SOURCE_IN_USE:            v1alpha1.ReasonSourceInUse,
	wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE:     v1alpha1.ReasonExternalUnreachable,
	wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNTRUSTED:       v1alpha1.ReasonExternalUntrusted,
	wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED:         v1alpha1.ReasonExternalRefused,
	wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT:           v1alpha1.ReasonExternalUnfit,
	wirev1.FailureReason_FAILURE_REASON_EXTERNAL_IN_USE:          v1alpha1.ReasonExternalInUse,
	wirev1.FailureReason_FAILURE_REASON_SUPERSEDED:               v1alpha1.ReasonSuperseded,
	wirev1.FailureReason_FAILURE_REASON_STORAGE_FULL:             v1alpha1.ReasonStorageFull,
	wirev1.FailureReason_FAILURE_REASON_STORAGE_FAILED:           v1alpha1.ReasonStorageFailed,
	wirev1.FailureReason_FAILURE_REASON_EVICTED:                  v1alpha1.ReasonEvicted,
	wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE:        v1alpha1.ReasonStoreUnreachable,
	wirev1.FailureReason_FAILURE_REASON_STORE_UNTRUSTED:          v1alpha1.ReasonStoreUntrusted,
	wirev1.FailureReason_FAILURE_REASON_STORE_DENIED:             v1alpha1.ReasonStoreDenied,
	wirev1.FailureReason_FAILURE_REASON_STORE_NOT_FOUND:          v1alpha1.ReasonBucketNotFound,
	wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT:              v1alpha1.ReasonStoreUnfit,
	wirev1.FailureReason_FAILURE_REASON_STORE_CLOCK_SKEW:         v1alpha1.ReasonClockSkew,
	wirev1.FailureReason_FAILURE_REASON_STORE_FULL:               v1alpha1.ReasonStoreFull,
	wirev1.FailureReason_FAILURE_REASON_RECEIPT_UNSUPPORTED:      v1alpha1.ReasonReceiptUnsupported,
	wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED:         v1alpha1.ReasonFormUnsupported,
	wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_CREATED:  v1alpha1.ReasonDestinationNotCreated,
	wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH:     v1alpha1.ReasonVolumeModeMismatch,
	wirev1.FailureReason_FAILURE_REASON_ENCRYPTION_MISMATCH:      v1alpha1.ReasonEncryptionMismatch,
	wirev1.FailureReason_FAILURE_REASON_PAUSED:                   v1alpha1.ReasonPaused,
}

// FailureReason is the condition reason of a wire reason; one that this version does not know is Internal.
func FailureReason(reason wirev1.FailureReason) string {
	if known, ok := reasons[reason]; ok {
		return known
	}
	return v1alpha1.ReasonInternal
}

// WireReason is the inverse of FailureReason, for reasons that have one.
func WireReason(reason string) wirev1.FailureReason {
	for wire, known := range reasons {
		if known == reason {
			return wire
		}
	}
	return wirev1.FailureReason_FAILURE_REASON_INTERNAL
}
