// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/bill"
)

// charged are the kinds whose status has a cost.
var charged = []kind{
	transfers, {"Delivery", []string{"deliveries", "delivery"}, false},
	{"HTTPEndpoint", []string{"httpendpoints", "httpendpoint"}, false}, {"Queue", queues.words, false},
}

// named finds the kind that a word such as transfer/ledger begins with; -1 if there is none.
func named(word string) int {
	before, _, _ := strings.Cut(word, "/")
	return slices.IndexFunc(charged, func(k kind) bool { return k.is(before) })
}

// argument reads the object that is named, if one is.
func (c *costing) argument(cmd *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	i := named(arguments[0])
	if i < 0 {
		var forms []string
		for _, k := range charged {
			forms = append(forms, k.words[1]+"/NAME")
		}
		return fmt.Errorf("name one of %s, or nothing, not %q", strings.Join(forms, ", "), strings.Join(arguments, " "))
	}
	c.kind = charged[i]
	return c.kind.argument(&c.name)(cmd, arguments)
}

// complete completes the kind, then the name.
func (c *costing) complete(cmd *cobra.Command, arguments []string, typed string) (
	[]cobra.Completion, cobra.ShellCompDirective,
) {
	if i := named(strings.Join(append(arguments[:len(arguments):len(arguments)], typed), "/")); i >= 0 {
		return c.plugin.complete(charged[i])(cmd, arguments, typed)
	}
	var forms []cobra.Completion
	for _, k := range charged {
		forms = append(forms, k.words[1]+"/")
	}
	return forms, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
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
