// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failure holds errors that say to a user why an attempt ended and what fixes it.
package failure

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// MaxMessage is the most bytes of a message that crosses the wire.
const MaxMessage = 1024

// Error is an error with a reason that programs understand.
type Error struct {
	Reason wirev1.FailureReason
	// NewestAttempt of the same run, where Reason is SUPERSEDED; 0 when it is not known.
	NewestAttempt uint32

	err error
}

// New returns an Error whose message is formatted like that of fmt.Errorf, %w included. The message says what to do.
func New(reason wirev1.FailureReason, format string, args ...any) *Error {
	return &Error{Reason: reason, err: fmt.Errorf(format, args...)}
}

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

// Is reports whether err carries the reason.
func Is(err error, reason wirev1.FailureReason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reason
}

// ToWire returns what to tell of err: nil for nil, ABORTED for a context that ended, INTERNAL for errors without a
// reason.
func ToWire(err error) *wirev1.Failure {
	if err == nil {
		return nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return &wirev1.Failure{Reason: e.Reason, Message: Shorten(e.Error(), MaxMessage), NewestAttempt: e.NewestAttempt}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &wirev1.Failure{Reason: wirev1.FailureReason_FAILURE_REASON_ABORTED, Message: Shorten(err.Error(), MaxMessage)}
	default:
		return &wirev1.Failure{
			Reason: wirev1.FailureReason_FAILURE_REASON_INTERNAL, Message: Shorten(err.Error(), MaxMessage),
		}
	}
}

// FromWire returns the failure that a peer stated as an error. A peer's message is cut to MaxMessage bytes.
func FromWire(f *wirev1.Failure) error {
	e := New(f.GetReason(), "%s", Shorten(f.GetMessage(), MaxMessage))
	e.NewestAttempt = f.GetNewestAttempt()
	return e
}

// Shorten returns s as valid UTF-8 of at most limit bytes that a terminal can show, with an ellipsis where something
// was left out. Names of files, which others choose, are in messages: characters that are not printed are written as in
// Go, line ends too.
func Shorten(s string, limit int) string {
	const ellipsis = "..."
	switch unprintable := func(r rune) bool { return !strconv.IsPrint(r) }; {
	case !utf8.ValidString(s):
		s = fmt.Sprintf("%q", s)
	case strings.ContainsFunc(s, unprintable):
		var escaped strings.Builder
		for _, r := range s {
			if unprintable(r) {
				escaped.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			} else {
				escaped.WriteRune(r)
			}
		}
		s = escaped.String()
	}
	if len(s) <= limit {
		return s
	}
	if limit < len(ellipsis) {
		return ""
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}
