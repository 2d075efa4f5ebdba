// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// FormOf returns the form of files that rest at the destination; 0: as they are. One that this release does not know is
// an error with a reason.
func FormOf(w wirev1.Form) (cargo.Form, error) {
	switch w {
	case wirev1.Form_FORM_UNSPECIFIED:
		return 0, nil
	case wirev1.Form_FORM_GZIP:
		return cargo.Gzip, nil
	case wirev1.Form_FORM_ZSTD:
		return cargo.Zstd, nil
	default:
		return 0, failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
			"this agent (%s) does not know form %d, in which files are to rest: upgrade its cluster, or make a Transfer with "+
				"another spec.destination.form", wirev1.Version, int32(w))
	}
}

// FormToWire is the form as it travels.
func FormToWire(f cargo.Form) wirev1.Form {
	switch f {
	case cargo.Gzip:
		return wirev1.Form_FORM_GZIP
	case cargo.Zstd:
		return wirev1.Form_FORM_ZSTD
	default:
		return wirev1.Form_FORM_UNSPECIFIED
	}
}
