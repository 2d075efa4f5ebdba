// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// PeerLabel on a Delivery names its Peer.
	PeerLabel = "lighterage.dev/peer"
	// SenderLabel on a Delivery is the same for every attempt of one Transfer of one Peer.
	SenderLabel = "lighterage.dev/sender"
	// IssuedAnnotation on a Delivery is when the sender's certificate was issued, in RFC 3339. Of two runs of a Transfer the one with the
	// later certificate is the newer.
	IssuedAnnotation = "lighterage.dev/sender-certificate-issued"
)

// nameLength is what is kept of a Transfer's name in the names of what is made for it.
const nameLength = 40

// DeliveryName is the name of the Delivery of an attempt. It is at most 63 characters long, so that a Job may have it too.
func DeliveryName(peer string, transfer v1alpha1.TransferReference) string {
	name := strings.ReplaceAll(transfer.Name, ".", "-")
	name = strings.TrimRight(name[:min(len(name), nameLength)], "-")
	return fmt.Sprintf("%s-%s-%d-%s", name, transfer.Run, transfer.Attempt, senderHash(peer, transfer.Namespace, transfer.Name)[:8])
}

// senderHash is hexadecimal. None of the parts can contain a slash.
func senderHash(peer, namespace, name string) string {
	sum := sha256.Sum256([]byte(peer + "/" + namespace + "/" + name))
	return hex.EncodeToString(sum[:16])
}

// newDelivery is the object that admits the request.
func newDelivery(r request) *v1alpha1.Delivery {
	return &v1alpha1.Delivery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.namespace,
			Name:      DeliveryName(r.peer, r.transfer),
			Labels: map[string]string{
				PeerLabel:         r.peer,
				SenderLabel:       senderHash(r.peer, r.transfer.Namespace, r.transfer.Name),
				v1alpha1.RunLabel: r.transfer.Run,
			},
			Annotations: map[string]string{IssuedAnnotation: r.issued.UTC().Format(time.RFC3339)},
		},
		Spec: v1alpha1.DeliverySpec{
			Peer:        r.peer,
			Transfer:    r.transfer,
			Destination: v1alpha1.DeliveryDestination{PersistentVolumeClaim: r.claim},
			Privilege:   r.privilege,
		},
	}
}

// issuedOf returns when the certificate was issued with which a Delivery was opened; long ago if that is not known.
func issuedOf(delivery *v1alpha1.Delivery) time.Time {
	issued, err := time.Parse(time.RFC3339, delivery.Annotations[IssuedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return issued
}
