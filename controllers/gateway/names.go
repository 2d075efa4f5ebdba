// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// IssuedAnnotation on a Delivery is when the sender's certificate was issued, in RFC 3339. Of two runs of a Transfer the one with the
// later certificate is the newer.
const IssuedAnnotation = "lighterage.dev/sender-certificate-issued"

// newDelivery is the object that admits the request.
func newDelivery(r request) *v1alpha1.Delivery {
	delivery := plan.NewDelivery(r.namespace, v1alpha1.DeliverySpec{
		Peer:        r.peer,
		Transfer:    r.transfer,
		Destination: v1alpha1.DeliveryDestination{PersistentVolumeClaim: r.claim},
		Privilege:   r.privilege,
		Delete:      r.mirror,
	})
	delivery.Annotations = map[string]string{IssuedAnnotation: r.issued.UTC().Format(time.RFC3339)}
	return delivery
}

// issuedOf returns when the certificate was issued with which a Delivery was opened; long ago if that is not known. No certificate is
// accepted that was issued further in the future than pki.ClockSkew, so an annotation that says so was written by somebody else.
func issuedOf(delivery *v1alpha1.Delivery, now time.Time) time.Time {
	issued, err := time.Parse(time.RFC3339, delivery.Annotations[IssuedAnnotation])
	if err != nil || issued.After(now.Add(pki.ClockSkew)) {
		return time.Time{}
	}
	return issued
}
