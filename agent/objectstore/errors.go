// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// What errors are, beside ErrCredentials, ErrName and ErrOptions.
var (
	// ErrNotFound: there is no such object.
	ErrNotFound = errors.New("the object does not exist")
	// ErrNoUpload: there is no such multipart upload, or none any more.
	ErrNoUpload = errors.New("the upload does not exist")
	// ErrExists: a conditional write found an object, which somebody else wrote.
	ErrExists = errors.New("the object exists already")
	// ErrChanged: the object is not the one that was asked for.
	ErrChanged = errors.New("the object has changed")
	// ErrInvalid: the server rejects the request itself, for example a part with another ETag.
	ErrInvalid = errors.New("the server rejects the request")

	// ErrOccupied: the server keeps objects as files, and one is in the place of a directory or the other way round. It is
	// an ErrInvalid.
	ErrOccupied = fmt.Errorf("%w: an object above or below it is in its place", ErrInvalid)

	ErrNoBucket     = errors.New("the bucket does not exist")
	ErrAccessDenied = errors.New("the server denies access")
	ErrRegion       = errors.New("the bucket is in another region or at another endpoint")
	ErrFull         = errors.New("the store is full or its quota is used up")
	ErrClock        = errors.New("the clocks of this node and of the server differ")
	ErrNotS3        = errors.New("the server does not answer as an S3 store does")
	ErrTLS          = errors.New("TLS with the server fails")
	// ErrUnavailable: there was no usable answer, and there may be one later.
	ErrUnavailable = errors.New("the server does not answer, or asks to come back later")
)

// Error is why a request failed.
type Error struct {
	failure error
	// Code is the server's error code, for example NoSuchBucket; empty if it sent none.
	Code string
	// Detail is what the network or the server said, at most maxDetail bytes without control characters. It is for
	// logs: the server is of a tenant's choice.
	Detail string
}

func (e *Error) Error() string { return e.failure.Error() }

func (e *Error) Unwrap() error { return e.failure }

const maxDetail = 512

// badKey reports whether a server's code says that the credentials are no longer valid, whatever was asked for.
func badKey(code string) bool {
	return code == "ExpiredToken" || code == "InvalidToken" || code == "InvalidAccessKeyId"
}

func shorten(s string) string { return failure.Shorten(s, 256) }

// operation is what is done to which object; the name is empty where it is about the prefix.
type operation struct{ verb, name string }

func (o operation) String() string {
	if o.name == "" {
		return o.verb
	}
	return fmt.Sprintf("%s %q", o.verb, shorten(o.name))
}

// explain returns what an error of the client library comes down to.
func (s *Store) explain(ctx context.Context, c *call, what operation, err error) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%v in bucket %s: %w", what, s.options.Bucket, context.Cause(ctx))
	}
	e := &Error{Detail: failure.Shorten(err.Error(), maxDetail)}
	found := s.judge(c, e, err)
	if found.reason == wirev1.FailureReason_FAILURE_REASON_UNSPECIFIED {
		e.failure = fmt.Errorf("%v in bucket %s: %w%s", what, s.options.Bucket, found.kind, e.code())
	} else {
		e.failure = failure.New(found.reason, "%v in bucket %s at %s: %w%s: %s",
			what, s.options.Bucket, s.options.Endpoint, found.kind, e.code(), found.fix)
	}
	return e
}

// Reasons that errors have.
const (
	unreachable = wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE
	untrusted   = wirev1.FailureReason_FAILURE_REASON_STORE_UNTRUSTED
	denied      = wirev1.FailureReason_FAILURE_REASON_STORE_DENIED
	noBucket    = wirev1.FailureReason_FAILURE_REASON_STORE_NOT_FOUND
	unfit       = wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT
	clockSkew   = wirev1.FailureReason_FAILURE_REASON_STORE_CLOCK_SKEW
	full        = wirev1.FailureReason_FAILURE_REASON_STORE_FULL
)

// cause is what an error is, and how it is fixed where users can: then it has a reason.
type cause struct {
	kind   error
	reason wirev1.FailureReason
	fix    string
}

// code is the code for messages, if it looks like one.
func (e *Error) code() string {
	if e.Code == "" {
		return ""
	}
	return " (" + e.Code + ")"
}

var plausibleCode = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.]{0,63}$`)

// judge finds out what an error is and how it is fixed.
func (s *Store) judge(c *call, e *Error, err error) cause {
	switch {
	case errors.Is(err, ErrCredentials):
		return cause{err, denied, "complete the Secret that spec.credentials names"}
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrChanged):
		return cause{err, 0, ""}
	case errors.Is(err, ErrNotS3):
		return s.notS3()
	}
	response := minio.ToErrorResponse(err)
	if plausibleCode.MatchString(response.Code) {
		e.Code = response.Code
	}
	if c.network != nil {
		return s.judgeNetwork(c.network)
	}
	if c.status == 0 {
		return cause{fmt.Errorf("%w: %s", ErrInvalid, e.Detail), 0, ""} // the library did not send it
	}
	if c.status < http.StatusMultipleChoices && response.StatusCode == 0 {
		return s.notS3() // what the library says of an answer that it does not understand
	}
	return s.judgeAnswer(c, e)
}

func (s *Store) notS3() cause {
	return cause{ErrNotS3, unfit,
		"check that spec.endpoint is that of the S3 interface, without a path, and spec.addressing"}
}

func (s *Store) judgeNetwork(err error) cause {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, egress.ErrBlocked):
		return cause{egress.ErrBlocked, unreachable,
			"use an address outside of the cluster, or a Service that this namespace may use"}
	case errors.As(err, &certificate), errors.As(err, &authority):
		return cause{ErrTLS, untrusted,
			"the certificate is not valid: " + certificateProblem(err) + "; spec.caBundle must hold the CA that signed it"}
	case errors.As(err, &record), errors.As(err, &alert):
		return cause{ErrTLS, untrusted,
			"no common version, or the port is not one of TLS; use that of https"}
	case errors.Is(err, errTooLong), errors.Is(err, errNoProgress):
		return s.notS3()
	}
	return cause{ErrUnavailable, unreachable,
		"check spec.endpoint, and that firewalls and NetworkPolicies permit the connection"}
}

// certificateProblem is what is wrong with a certificate, in words that hold nothing of it.
func certificateProblem(err error) string {
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host):
		return "it is for another name than that in spec.endpoint"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired or is not valid yet, or the clock of this node is wrong"
	}
	return "no CA that is trusted has signed it"
}

// judgeAnswer judges what a server said by its code, and where there is none, or none that is known, by its status.
func (s *Store) judgeAnswer(c *call, e *Error) cause {
	skew, skewed := s.skew(c.header)
	switch e.Code {
	case "RequestTimeTooSkewed":
		return cause{ErrClock, clockSkew, clockFix(skew)}
	case "NoSuchBucket":
		return cause{ErrNoBucket, noBucket, "create it, or correct spec.bucket"}
	case "NoSuchKey":
		return cause{ErrNotFound, 0, ""}
	case "NoSuchUpload":
		return cause{ErrNoUpload, 0, ""}
	case "ObjectParentIsFile", "ExistingObjectIsDirectory", "XMinioParentIsObject", "XMinioObjectExistsAsDirectory":
		return cause{ErrOccupied, 0, ""}
	case "ConditionalRequestConflict", "OperationAborted":
		return cause{ErrUnavailable, unreachable, "somebody else writes the same object"}
	case "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull", "InsufficientCapacity":
		return cause{ErrFull, full, fullFix}
	case "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException", "InvalidRegion",
		"AuthorizationHeaderMalformed":
		return cause{ErrRegion, unfit, "correct spec.region and spec.endpoint"}
	case "SlowDown", "SlowDownWrite", "SlowDownRead", "Throttling", "ThrottlingException", "RequestLimitExceeded",
		"RequestTimeout", "InternalError", "ServiceUnavailable", "BadDigest", "IncompleteBody":
		return cause{ErrUnavailable, unreachable, "see the server's log"}
	}
	switch {
	case c.status == http.StatusPreconditionFailed:
		return cause{ErrExists, 0, ""}
	case c.status == http.StatusForbidden && skewed:
		return cause{ErrClock, clockSkew, clockFix(skew)}
	case c.status == http.StatusForbidden || c.status == http.StatusUnauthorized || strings.HasPrefix(e.Code, "KMS."),
		badKey(e.Code):
		return cause{ErrAccessDenied, denied, accessFix(e.Code, s.options.CredentialsDirectory != "")}
	case c.status == http.StatusNotFound:
		return cause{ErrNotFound, 0, ""}
	case c.status == http.StatusInsufficientStorage:
		return cause{ErrFull, full, fullFix}
	case c.status == http.StatusNotImplemented, c.status == http.StatusMethodNotAllowed:
		return s.notS3()
	case c.status >= http.StatusInternalServerError, c.status == http.StatusTooManyRequests,
		c.status == http.StatusRequestTimeout, c.status == http.StatusConflict:
		return cause{ErrUnavailable, unreachable, "see the server's log"}
	case c.status >= http.StatusMultipleChoices && c.status < http.StatusBadRequest:
		return cause{ErrRegion, unfit,
			"the server redirects, which is not followed; correct spec.endpoint and spec.region"}
	}
	return cause{ErrInvalid, unfit, "check spec.storageClass, spec.encryption and spec.region"}
}

// clockTolerance is by how much S3 lets the clocks of client and server differ.
const clockTolerance = 15 * time.Minute

const fullFix = "free space or raise the quota"

func clockFix(skew time.Duration) string {
	return fmt.Sprintf("the server's is %v away; correct the one that is wrong, for example with NTP",
		skew.Round(time.Second))
}

// skew is by how much the server's clock is ahead, and whether that is more than S3 tolerates.
func (s *Store) skew(header http.Header) (time.Duration, bool) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0, false
	}
	skew := date.Sub(s.options.Now())
	return skew, skew.Abs() > clockTolerance
}

func accessFix(code string, signed bool) string {
	switch {
	case !signed:
		return "name a Secret in spec.credentials, or permit anonymous requests"
	case badKey(code), code == "SignatureDoesNotMatch":
		return "correct or renew the keys of the Secret that spec.credentials names"
	}
	return "permit these credentials to put, get, list and delete objects and to list and abort uploads under the " +
		"prefix, and see that no retention or legal hold protects the objects there"
}
