// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/plan"
)

// IssuedAnnotation is of package peergrant.
const IssuedAnnotation = peergrant.IssuedAnnotation

// newDelivery is the object that admits the request.
func newDelivery(r request) *v1alpha1.Delivery {
	delivery := plan.NewDelivery(r.namespace, v1alpha1.DeliverySpec{
		Peer:     r.peer,
		Transfer: r.transfer,
		Destination: v1alpha1.DeliveryDestination{
			PersistentVolumeClaim: r.claim, Template: r.template, Snapshot: r.snapshot,
		},
		Privilege: r.privilege,
		Delete:    r.mirror,

		SourceVolumeMode: r.volumeMode,
	})
	delivery.Annotations = map[string]string{IssuedAnnotation: r.issued.UTC().Format(time.RFC3339)}
	return delivery
}

// issuedOf returns when the certificate was issued with which a Delivery was opened; long ago if that is not known.
func issuedOf(delivery *v1alpha1.Delivery, now time.Time) time.Time {
	return peergrant.Issued(delivery, now)
}
