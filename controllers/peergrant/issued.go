// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant

import (
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// IssuedAnnotation on a Delivery is when the sender's certificate was issued, in RFC 3339. Of two runs of a Transfer
// the one with the later certificate is the newer, and Peer.spec.revokedBefore is compared with it.
const IssuedAnnotation = "lighterage.dev/sender-certificate-issued"

// Issued returns when the certificate was issued with which a Delivery was opened; long ago if that is not known. No
// certificate is accepted that was issued further in the future than it is backdated, so an annotation that says so was
// written by somebody else.
func Issued(delivery *v1alpha1.Delivery, now time.Time) time.Time {
	issued, err := time.Parse(time.RFC3339, delivery.Annotations[IssuedAnnotation])
	if err != nil || issued.After(now.Add(wirev1.CertificateBackdating)) {
		return time.Time{}
	}
	return issued
}
