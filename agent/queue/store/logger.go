// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
)

// logger writes what the server says to a log, notices as details.
type logger struct {
	log    *slog.Logger
	failed atomic.Pointer[string]
	// unwritten is the first error of the volume that kept something from being written, or the server from starting.
	unwritten atomic.Pointer[error]
}

func newLogger(log *slog.Logger) *logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &logger{log: log}
}

// fatal is what the server could not go on after.
func (l *logger) fatal() error {
	if text := l.failed.Load(); text != nil {
		if err := l.unwritten.Load(); err != nil {
			return fmt.Errorf("%s: %w", *text, *err)
		}
		return errors.New(*text)
	}
	return nil
}

// ofVolume reports whether an error is one of those that come from a volume that is full or
// broken.
func ofVolume(err error) bool {
	for _, number := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS} {
		if errors.Is(err, number) {
			return true
		}
	}
	return false
}

const subject = "Queue's server reports"

// Noticef implements server.Logger.
func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug(subject, "report", fmt.Sprintf(format, v...))
}

// Warnf implements server.Logger.
func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn(subject, "report", fmt.Sprintf(format, v...))
}

// Fatalf implements server.Logger. The server does not go on after it.
func (l *logger) Fatalf(format string, v ...any) {
	l.noteUnwritten(v)
	text := fmt.Sprintf(format, v...)
	l.failed.CompareAndSwap(nil, &text)
}

// Errorf implements server.Logger. It is how the server tells that it could not write.
func (l *logger) Errorf(format string, v ...any) {
	l.noteUnwritten(v)
	l.log.Error(subject, "report", fmt.Sprintf(format, v...))
}

// noteUnwritten notes the first error of the volume among what the server reports.
func (l *logger) noteUnwritten(v []any) {
	for _, argument := range v {
		if err, ok := argument.(error); ok && ofVolume(err) {
			l.unwritten.CompareAndSwap(nil, &err)
		}
	}
}

// Debugf implements server.Logger.
func (l *logger) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (l *logger) Tracef(string, ...any) {}
