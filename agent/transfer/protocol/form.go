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

// RecordsOf returns the records of which files in a form consist; the zero value: none are known. Those that this
// release does not know, or that go with no form, are an error with a reason.
func RecordsOf(w *wirev1.Records, form cargo.Form) (cargo.Records, error) {
	if w == nil {
		return cargo.Records{}, nil
	}
	r := cargo.Records{Layout: cargo.Layout(w.GetLayout()), Length: int(w.GetLength())}
	switch {
	case w.GetLayout() < 0 || w.GetLayout() > wirev1.RecordLayout_RECORD_LAYOUT_RDW:
		return cargo.Records{}, failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
			"this agent (%s) does not know record layout %d, in which files are: upgrade its cluster, or make a Transfer "+
				"without spec.destination.records", wirev1.Version, int32(w.GetLayout()))
	case r.Layout == cargo.NoRecords || !r.Valid():
		return cargo.Records{}, Invalid("there are no records of layout %d and length %d", w.GetLayout(), w.GetLength())
	case form == 0:
		return cargo.Records{}, Invalid("records %v of files that rest in no form", r)
	}
	return r, nil
}

// RecordsToWire are the records as they travel.
func RecordsToWire(r cargo.Records) *wirev1.Records {
	if r.Layout == cargo.NoRecords {
		return nil
	}
	return &wirev1.Records{Layout: wirev1.RecordLayout(r.Layout), Length: uint32(r.Length)}
}
