// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"
)

func TestOutdated(t *testing.T) {
	for reason, want := range map[x509.InvalidReason]bool{x509.Expired: true, x509.NotAuthorizedToSign: false} {
		err := fmt.Errorf(
			"handshake: %w", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: reason}},
		)
		if got := outdated(err); got != want {
			t.Errorf("reason %d: outdated is %t", reason, got)
		}
	}
	if outdated(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}) {
		t.Error("a CA that is not known is no matter of clocks")
	}
}
