// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// connectionLog remembers why the last connection was not made, until one is: gRPC passes on the text alone.
type connectionLog struct{ err atomic.Pointer[error] }

func (l *connectionLog) record(err error) { l.err.Store(&err) }

func (l *connectionLog) last() error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}

// loggedTLS is TLS whose failures are remembered.
type loggedTLS struct {
	credentials.TransportCredentials
	log *connectionLog
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *loggedTLS) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	c.log.record(err)
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (c *loggedTLS) Clone() credentials.TransportCredentials {
	return &loggedTLS{c.TransportCredentials.Clone(), c.log}
}

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
		if connection := s.log.last(); connection != nil {
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
