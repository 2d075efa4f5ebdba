// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// explain says why a call failed, and what to do.
func (s *service) explain(doing string, err error) error {
	failed := status.Convert(err)
	switch failed.Code() {
	case codes.Unauthenticated, codes.PermissionDenied:
		if s.token {
			return fmt.Errorf(
				"%s: the service rejects this token; members take up to two minutes to read a changed Secret (%s)", doing,
				failed.Message(),
			)
		}
		return fmt.Errorf(
			"%s: the service rejects this client certificate; it must be issued by a CA in "+
				"spec.authentication.clientCertificates (%s)",
			doing, failed.Message(),
		)
	case codes.Unimplemented:
		return fmt.Errorf(
			"%s: %s does not serve put and get; check that it is port 8443 of the Queue, and that the version of the operator "+
				"has it (%s)",
			doing, s.where, failed.Message(),
		)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%s: %s did not answer in time: %w", doing, s.where, err)
	case codes.Canceled:
		return fmt.Errorf("%s: interrupted: %w", doing, err)
	case codes.Unavailable:
		if connection := s.ConnectionError(); connection != nil {
			return fmt.Errorf("%s: %w", doing, unconnected(s.where, connection))
		}
		return fmt.Errorf("%s: %s is not available; try again (%s)", doing, s.where, failed.Message())
	}
	return fmt.Errorf("%s: %s", doing, failed.Message())
}

// unconnected says why there is no connection.
func unconnected(where string, err error) error {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var expired x509.CertificateInvalidError
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is not for %q but for %s; if that is the Queue, give its name with "+
			"--server-name: %w",
			where, name.Host, strings.Join(name.Certificate.DNSNames, ", "), err)
	case errors.As(err, &authority):
		return fmt.Errorf("the certificate of %s is issued by an unknown CA; give its CA with --ca-file: %w", where, err)
	case errors.As(err, &expired), errors.As(err, &unverified):
		return fmt.Errorf(
			"the certificate of %s is not valid; kubectl describe queue tells which it is, --ca-file gives another CA: %w",
			where, err,
		)
	}
	return fmt.Errorf("%s cannot be reached: %w", where, err)
}
