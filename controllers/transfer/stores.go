// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"slices"

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
	get := func(name string) (*v1alpha1.ObjectStore, error) {
		if name == "" {
			return nil, nil
		}
		store := &v1alpha1.ObjectStore{}
		found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: transfer.Namespace, Name: name}, store)
		if !found || err != nil {
			return nil, err
		}
		host, _ := attempt.StoreHost(store.Spec)
		uses = append(uses, egress.Use{Field: "spec.endpoint of ObjectStore " + name, Written: host, Host: host})
		return store, nil
	}
	source, destination, via := storesOf(transfer)
	var err error
	if facts.Stores.Source, err = get(source); err != nil {
		return err
	}
	if facts.Stores.Destination, err = get(destination); err != nil {
		return err
	}
	if facts.Stores.Via, err = get(via); err != nil {
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

// storesOf are the names of the ObjectStores that a Transfer names, empty where there is none.
func storesOf(transfer *v1alpha1.Transfer) (source, destination, via string) {
	if at := transfer.Spec.Source.ObjectStore; at != nil {
		source = at.Name
	}
	if at := transfer.Spec.Destination.ObjectStore; at != nil {
		destination = at.Name
	}
	if way := transfer.Spec.Destination.Via; way != nil {
		via = way.ObjectStore.Name
	}
	return source, destination, via
}

// ofStore wakes the Transfers that name an ObjectStore.
func (r *Reconciler) ofStore(ctx context.Context, store client.Object) []reconcile.Request {
	return r.requests(ctx, func(t *v1alpha1.Transfer) bool {
		source, destination, via := storesOf(t)
		return slices.Contains([]string{source, destination, via}, store.GetName())
	}, client.InNamespace(store.GetNamespace()))
}
