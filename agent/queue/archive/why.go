// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// full reports whether there was no space on the volume or in the store.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, objectstore.ErrFull)
}

// why gives an error of writing a reason that says what to do.
func why(err error) error {
	var known *failure.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, objectstore.ErrExists):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"another member has written what this one was about to write (%w); the archive is read again", err)
	case full(err):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
			"the archive's claim is full (%w): make it larger, or set spec.archive.retention, after which files are deleted "+
				"whose messages have all left the queue", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"the archive's claim cannot be written to (%w): let user 65532 or group 65532 write there", err)
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrGap), errors.Is(err, ErrOther), errors.Is(err, ErrVersion):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, "the archive cannot be continued: %w", err)
	case errors.Is(err, fs.ErrNotExist):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND,
			"a file or directory of the archive was deleted (%w); the archive is read again", err)
	default:
		return err
	}
}
