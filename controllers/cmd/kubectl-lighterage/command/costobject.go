// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/bill"
)

// charged are the kinds whose status has a cost.
var charged = kinds{transfers, deliveries, endpoints, queues}

// argument reads the object that is named, if one is.
func (c *costing) argument(cmd *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	if err := charged.argument(&c.kind, &c.name)(cmd, arguments); err != nil {
		return fmt.Errorf("with an object, %w", err)
	}
	return nil
}

// object reads the cost in the status of an object: of its run, where it has a cost of all attempts, or else of itself.
// It reads any kind by the same path, since all have the same cost there.
func (p *plugin) object(ctx context.Context, k kind, name string) (bill.Object, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.name))
	if err := p.get(ctx, k, name, found); err != nil {
		return bill.Object{}, err
	}
	o := bill.Object{Object: fmt.Sprintf("%s %s/%s", k.name, found.GetNamespace(), found.GetName())}
	cost, ok, err := unstructured.NestedMap(found.Object, "status", "run", "cost")
	if !ok && err == nil {
		cost, ok, err = unstructured.NestedMap(found.Object, "status", "cost")
	}
	if err == nil && !ok {
		err = errors.New(
			"it has no cost: it has not reported figures yet, or no prices were in force; kubectl get tariffs shows the " +
				"Tariffs",
		)
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(cost, &o.Cost)
	}
	if err != nil {
		return o, fmt.Errorf("%s: %w", o.Object, err)
	}
	o.Run, _, _ = unstructured.NestedString(found.Object, "status", "run", "id")
	return o, nil
}
