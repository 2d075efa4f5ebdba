// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"encoding/json"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ApplyNetworkPolicy is for interceptors of fake clients, which cannot merge NetworkPolicies: what is applied takes the
// place of what there is.
func ApplyNetworkPolicy(
	ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, _ ...client.ApplyOption,
) error {
	policy := &networkingv1.NetworkPolicy{}
	encoded, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(encoded, policy)
	}
	if err != nil {
		return fmt.Errorf("reading an applied NetworkPolicy: %w", err)
	}
	if err := c.Delete(ctx, policy.DeepCopy()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("replacing NetworkPolicy %s: %w", client.ObjectKeyFromObject(policy), err)
	}
	return c.Create(ctx, policy)
}
