// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package security

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// M10: the roles for people allow what tenants need, in their namespace, and neither Deliveries nor kinds of the
// cluster. No controller aggregates roles here, so they are bound themselves; test/chart checks their labels.
func TestTenantsHaveTheRightsOfTheirRole(t *testing.T) {
	cluster := install(t)
	namespace, other := cluster.Namespace(t), cluster.Namespace(t)
	for _, role := range []string{"view", "edit", "admin"} {
		bind(t, cluster, namespace, "lighterage-"+role, role)
	}
	for _, c := range []struct {
		user, verb, resource, namespace string
		want                            bool
	}{
		{"view", "list", "transfers", namespace, true},
		{"view", "watch", "deliveries", namespace, true},
		{"view", "create", "transfers", namespace, false},
		{"view", "list", "transfers", other, false},
		{"edit", "create", "queues", namespace, true},
		{"edit", "delete", "httpendpoints", namespace, true},
		{"edit", "create", "queues", other, false},
		{"view", "list", "localcompressionpolicies", namespace, true},
		{"view", "create", "localcompressionpolicies", namespace, false},
		{"edit", "create", "localcompressionpolicies", namespace, true},
		{"edit", "patch", "localcompressionpolicies/status", namespace, false},
		{"edit", "list", "localcompressionpolicies", other, false},
		{"edit", "create", "peergrants", namespace, false},
		{"edit", "delete", "deliveries", namespace, false},
		{"admin", "patch", "peergrants", namespace, true},
		{"admin", "delete", "deliveries", namespace, true},
		{"admin", "create", "deliveries", namespace, false},
		{"admin", "update", "deliveries/status", namespace, false},
		{"view", "list", "statements", namespace, true},
		{"admin", "create", "statements", namespace, false},
		{"admin", "patch", "statements/status", namespace, false},
		{"admin", "delete", "statements", namespace, false},
		{"admin", "create", "peers", "", false},
		{"admin", "create", "compressionpolicies", "", false},
		{"admin", "create", "tariffs", "", false},
		{"admin", "patch", "tariffs", "", false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: c.user, Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: v1alpha1.GroupVersion.Group, Resource: c.resource, Verb: c.verb, Namespace: c.namespace,
			},
		}}
		controllertest.Eventually(t, func() error {
			asked := review.DeepCopy()
			if err := cluster.Client.Create(ctx, asked); err != nil {
				return err
			}
			if asked.Status.Allowed != c.want {
				return fmt.Errorf("%s may %s %s in %q: %v", c.user, c.verb, c.resource, c.namespace, asked.Status.Allowed)
			}
			return nil
		})
	}
	// What a review says is what happens.
	viewer, editor := as(t, cluster, "view"), as(t, cluster, "edit")
	permitted(t, func() error { return editor.Create(ctx, newTransfer(namespace, "ledger", nil)) })
	permitted(t, func() error {
		return viewer.Get(ctx, key(namespace, "ledger"), &v1alpha1.Transfer{})
	})
	forbidden(t, func() error { return viewer.Create(ctx, newTransfer(namespace, "theirs", nil)) }, nil)
}
