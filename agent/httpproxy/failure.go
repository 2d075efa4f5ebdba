// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/lighterage/lighterage/agent/egress"
)

// Failure is why a backend does not pass its health check.
type Failure int

const (
	// FailureNone means: it passes.
	FailureNone Failure = iota
	// FailureBlocked means: Settings.Egress does not permit its address.
	FailureBlocked
	// FailureName means: its name cannot be resolved.
	FailureName
	// FailureRefused means: nobody listens at its port.
	FailureRefused
	// FailureTimeout means: it does not answer in time.
	FailureTimeout
	// FailureTLS means: it does not speak TLS, or its certificate is not what it should be.
	FailureTLS
	// FailureStatus means: the status of its answer is 400 or more.
	FailureStatus
	// FailureConnection means: anything else that happens to a connection.
	FailureConnection
)

// statusError is the status of an answer to a health check.
type statusError struct {
	path   string
	status int
}

// Error implements error.
func (e *statusError) Error() string { return fmt.Sprintf("GET %s answers %d", e.path, e.status) }

// classify says what kind of failure an error of a health check is, and the status of its answer.
func classify(err error) (Failure, int) {
	var status *statusError
	var name *net.DNSError
	var timeout net.Error
	switch {
	case err == nil:
		return FailureNone, 0
	case errors.As(err, &status):
		return FailureStatus, status.status
	case errors.Is(err, egress.ErrBlocked):
		return FailureBlocked, 0
	case errors.As(err, &name):
		return FailureName, 0
	case isTLS(err):
		return FailureTLS, 0
	case errors.Is(err, syscall.ECONNREFUSED):
		return FailureRefused, 0
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return FailureTimeout, 0
	}
	return FailureConnection, 0
}

func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) ||
		errors.As(err, &invalid) ||
		errors.As(err, &header) || errors.As(err, &alert) || errors.Is(err, http.ErrSchemeMismatch)
}
