// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// DataKey is the key of the receipt in its ConfigMap.
	DataKey = "receipt.json"
	// namePrefix is longer than what follows it is short: names of Transfers are cut to maxName bytes.
	namePrefix = "lighterage-receipt-"
	maxName    = 150
	hashDigits = 20
)

// ConfigMap is the object that keeps a receipt with both signatures. It has no owner, so it outlives Transfer and
// Delivery, and its name follows from the receipt, so making it again changes nothing.
func ConfigMap(namespace string, run Run, envelope []byte) *corev1.ConfigMap {
	name := strings.TrimRight(run.Transfer[:min(len(run.Transfer), maxName)], ".-") // no name has ".-" in it
	hash := sha256.Sum256(envelope)
	immutable := true
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: namePrefix + name + "-" + hex.EncodeToString(hash[:])[:hashDigits],
			Labels: map[string]string{
				"app.kubernetes.io/name": "lighterage-receipt", "app.kubernetes.io/managed-by": "lighterage-manager",
				v1alpha1.ReceiptLabel: "true", v1alpha1.RunLabel: run.ID,
			},
		},
		Immutable: &immutable,
		Data:      map[string]string{DataKey: string(envelope)},
	}
}
