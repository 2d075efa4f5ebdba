// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=objectstores,verbs=get;list;watch

// gatherStores looks at the object stores that a Transfer names, and whether its agent may dial them.
func (r *Reconciler) gatherStores(
	ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts,
) error {
	var uses []egress.Use
	get := func(at *v1alpha1.ObjectStorePath) (*v1alpha1.ObjectStore, error) {
		if at == nil {
			return nil, nil
		}
		store := &v1alpha1.ObjectStore{}
		found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: transfer.Namespace, Name: at.Name}, store)
		if !found || err != nil {
			return nil, err
		}
		host, _ := attempt.StoreHost(store.Spec)
		uses = append(uses, egress.Use{Field: "spec.endpoint of ObjectStore " + at.Name, Written: host, Host: host})
		return store, nil
	}
	var err error
	if facts.Stores.Source, err = get(transfer.Spec.Source.ObjectStore); err != nil {
		return err
	}
	if facts.Stores.Destination, err = get(transfer.Spec.Destination.ObjectStore); err != nil {
		return err
	}
	if len(uses) == 0 {
		return nil
	}
	permission, err := r.Egress.Permission(ctx, transfer.Namespace, uses)
	if err != nil {
		return err
	}
	facts.Stores.Dial, facts.Stores.Services, facts.Stores.Problem = permission.Policy, permission.Services,
		permission.Problem
	return nil
}

// ofStore wakes the Transfers that name an ObjectStore.
func (r *Reconciler) ofStore(ctx context.Context, store client.Object) []reconcile.Request {
	names := func(at *v1alpha1.ObjectStorePath) bool { return at != nil && at.Name == store.GetName() }
	return r.requests(ctx, func(t *v1alpha1.Transfer) bool {
		return names(t.Spec.Source.ObjectStore) || names(t.Spec.Destination.ObjectStore)
	}, client.InNamespace(store.GetNamespace()))
}
