// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// agentpod.Labels of Deliveries.
const (
	// PeerLabel on a Delivery names its Peer; one of this cluster has none.
	PeerLabel = "lighterage.dev/peer"
	// SenderLabel on a Delivery is the same for every attempt of one Transfer of one Peer.
	SenderLabel = "lighterage.dev/sender"
)

// nameLength is what is kept of a Transfer's name in the names of Deliveries.
const nameLength = 40

// DeliveryName is the name of the Delivery of an attempt. It is at most 63 characters long, so that a Job may have it
// too. The peer is empty for a Transfer of this cluster.
func DeliveryName(peer string, transfer v1alpha1.TransferReference) string {
	name := strings.ReplaceAll(transfer.Name, ".", "-")
	name = strings.TrimRight(name[:min(len(name), nameLength)], "-")
	return fmt.Sprintf(
		"%s-%s-%d-%s", name, transfer.Run, transfer.Attempt, SenderHash(peer, transfer.Namespace, transfer.Name)[:8],
	)
}

// SenderHash is the value of SenderLabel, in hexadecimal. None of the parts can contain a slash.
func SenderHash(peer, namespace, name string) string {
	sum := sha256.Sum256([]byte(peer + "/" + namespace + "/" + name))
	return hex.EncodeToString(sum[:16])
}

// NewDelivery is the Delivery that admits what its spec says.
func NewDelivery(namespace string, spec v1alpha1.DeliverySpec) *v1alpha1.Delivery {
	transfer := spec.Transfer
	delivery := &v1alpha1.Delivery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      DeliveryName(spec.Peer, transfer),
			Labels: map[string]string{
				SenderLabel:       SenderHash(spec.Peer, transfer.Namespace, transfer.Name),
				v1alpha1.RunLabel: transfer.Run,
			},
		},
		Spec: spec,
	}
	if spec.Peer != "" {
		delivery.Labels[PeerLabel] = spec.Peer
	}
	return delivery
}

// IsGenuine reports whether a Delivery has the name and the labels that NewDelivery gives to what its spec says. One
// that has not was made or changed by hand, and is no attempt of the Transfer that it names.
func IsGenuine(delivery *v1alpha1.Delivery) bool {
	made := NewDelivery(delivery.Namespace, delivery.Spec)
	for key := range made.Labels {
		if delivery.Labels[key] != made.Labels[key] {
			return false
		}
	}
	return delivery.Name == made.Name && delivery.Labels[PeerLabel] == delivery.Spec.Peer
}

// peerOf is what status shows of where a Transfer sends to.
func peerOf(transfer *v1alpha1.Transfer) string {
	if HasLegs(transfer) {
		return fmt.Sprintf("(%d destinations)", len(transfer.Spec.Destinations))
	}
	return peerName(transfer.Spec.Destination.Peer)
}

// peerName is what status shows for a Peer that may be this cluster.
func peerName(peer string) string {
	if peer == "" {
		return v1alpha1.ThisCluster
	}
	return peer
}
