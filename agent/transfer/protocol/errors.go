// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"errors"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Invalid returns the error for what the other side may not say.
func Invalid(format string, args ...any) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, format, args...)
}

// Lost turns an error of a connection to the other side into one with a reason. That a context ended stays what it is:
// who ended it knows the reason.
func Lost(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return failure.New(
		wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the other side was lost: %w", err,
	)
}
