// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receiptkey

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/refusal"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create

// Keep makes the ConfigMap of a receipt. One that exists has the same receipt, as its name has its digest.
func Keep(ctx context.Context, c client.Client, kept *corev1.ConfigMap) error {
	err := c.Create(ctx, kept, client.FieldOwner(conditions.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return refusal.Elsewhere(fmt.Errorf("keeping the receipt as ConfigMap %s: %w", client.ObjectKeyFromObject(kept), err))
	}
	return nil
}
