// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/console"
	"github.com/lighterage/lighterage/controllers/console/view"
	"github.com/lighterage/lighterage/controllers/explain"
)

// shown is a cluster that the console shows. It implements console.Cluster.
type shown struct {
	*plugin

	name string
}

// Name implements console.Cluster.
func (s *shown) Name() string { return s.name }

// List implements console.Cluster.
func (s *shown) List(
	ctx context.Context, kind console.Kind, namespace string, limit int64, after string,
) (objects []explain.Object, next string, err error) {
	empty, err := s.cluster.Scheme().New(v1alpha1.GroupVersion.WithKind(kind.Name + "List"))
	if err != nil {
		return nil, "", fmt.Errorf("finding the kind %s: %w", kind.Name, err)
	}
	list, ok := empty.(client.ObjectList)
	if !ok {
		return nil, "", fmt.Errorf("%T is no list", empty)
	}
	err = s.cluster.List(ctx, list, client.InNamespace(namespace), client.Limit(limit), client.Continue(after))
	if err != nil {
		return nil, "", fmt.Errorf("listing %s: %w", kind.Resource, err)
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(explain.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		objects = append(objects, object)
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", kind.Resource, err)
	}
	return objects, list.GetContinue(), nil
}

// at is the plugin with another namespace, and the kind.
func (s *shown) at(of console.Kind, key console.Key) (*plugin, kind, error) {
	there := *s.plugin
	there.namespace = key.Namespace
	found, ok := allKinds.named(of.Resource)
	if !ok {
		return nil, kind{}, fmt.Errorf("%s is no kind that this plugin knows", of.Name)
	}
	return &there, found, nil
}

// Explain implements console.Cluster.
func (s *shown) Explain(
	ctx context.Context, of console.Kind, key console.Key,
) (explain.Object, *explain.Report, error) {
	there, found, err := s.at(of, key)
	if err != nil {
		return nil, nil, err
	}
	return there.explain(ctx, found, key.Name)
}

// May implements console.Cluster.
func (s *shown) May(ctx context.Context, of console.Kind, key console.Key) (bool, error) {
	missing, err := s.lacks(ctx, []right{{
		group: v1alpha1.GroupVersion.Group, resource: of.Resource, verb: "patch", namespace: key.Namespace, name: key.Name,
	}})
	if err != nil {
		return false, fmt.Errorf("asking for your rights: %w", err)
	}
	return len(missing) == 0, nil
}

// Act implements console.Cluster.
func (s *shown) Act(ctx context.Context, act string, of console.Kind, key console.Key, uid, value string) error {
	there, found, err := s.at(of, key)
	if err != nil {
		return err
	}
	patch := map[string]map[string]any{
		view.ActRun: anotherRun(value), view.ActSuspend: suspension(), view.ActPause: pausing(),
		view.ActResume: resumption(),
	}[act]
	if patch == nil {
		return fmt.Errorf("there is no act %q", act)
	}
	_, err = there.change(ctx, found, key.Name, ofUID(patch, uid))
	return err
}

var _ console.Cluster = (*shown)(nil)
