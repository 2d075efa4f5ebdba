// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watched makes clients for an operator that has rights in some namespaces only. What is in any other one does
// not exist for it: reading there would fail, and every caller would have to know. The zero Namespaces stand for all.
package watched

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Namespaces that are watched; empty: all.
type Namespaces []string

// Parse reads a list with commas, of which empty means all, and adds the operator's own namespace.
func Parse(text, operator string) (Namespaces, error) {
	if text == "" {
		return nil, nil
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, fmt.Errorf("%q is no name of a namespace; write for example bank,shop", name)
		}
	}
	if operator != "" {
		names = append(names, operator)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Cache is for cache.Options.DefaultNamespaces.
func (n Namespaces) Cache() map[string]cache.Config {
	if len(n) == 0 {
		return nil
	}
	all := make(map[string]cache.Config, len(n))
	for _, name := range n {
		all[name] = cache.Config{}
	}
	return all
}

// Watches reports whether objects of a namespace can be seen.
func (n Namespaces) Watches(namespace string) bool { return !n.hide(namespace) }

func (n Namespaces) hide(namespace string) bool {
	return len(n) > 0 && namespace != "" && !slices.Contains(n, namespace)
}

// NewClient is for ctrl.Options.NewClient.
func (n Namespaces) NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if err != nil || len(n) == 0 {
		return c, err
	}
	return hiding{Client: c, namespaces: n}, nil
}

// hiding reads from a cache of the watched namespaces.
type hiding struct {
	client.Client
	namespaces Namespaces
}

// Get finds nothing in a namespace that is not watched.
func (h hiding) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if h.namespaces.hide(key.Namespace) {
		return notFound(object, h.Scheme(), key)
	}
	return h.Client.Get(ctx, key, object, options...)
}

// List finds nothing in a namespace that is not watched.
func (h hiding) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if h.namespaces.hide((&client.ListOptions{}).ApplyOptions(options).Namespace) {
		return meta.SetList(list, nil)
	}
	return h.Client.List(ctx, list, options...)
}

// Reader reads past the cache; c is a client that knows which kinds are namespaced.
func (n Namespaces) Reader(reader client.Reader, c client.Client) client.Reader {
	if len(n) == 0 {
		return reader
	}
	return each{reader: reader, client: c, namespaces: n}
}

// each lists the watched namespaces one after the other, because there is no right to list them all.
type each struct {
	reader     client.Reader
	client     client.Client
	namespaces Namespaces
}

// Get finds nothing in a namespace that is not watched.
func (e each) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if e.namespaces.hide(key.Namespace) {
		return notFound(object, e.client.Scheme(), key)
	}
	return e.reader.Get(ctx, key, object, options...)
}

// List of all namespaces is that of the watched ones.
func (e each) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	applied := (&client.ListOptions{}).ApplyOptions(options)
	if e.namespaces.hide(applied.Namespace) {
		return meta.SetList(list, nil)
	}
	if applied.Namespace != "" {
		return e.reader.List(ctx, list, options...)
	}
	kind, err := e.client.GroupVersionKindFor(list)
	if err != nil {
		return fmt.Errorf("looking for the kind of %T: %w", list, err)
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	namespaced, err := apiutil.IsGVKNamespaced(kind, e.client.RESTMapper())
	if err != nil {
		return fmt.Errorf("looking whether %T is of a namespace: %w", list, err)
	}
	if !namespaced {
		return e.reader.List(ctx, list, options...)
	}
	var all []runtime.Object
	for _, namespace := range e.namespaces {
		if err := e.reader.List(ctx, list, append(slices.Clone(options), client.InNamespace(namespace))...); err != nil {
			return fmt.Errorf("listing %T in namespace %s: %w", list, namespace, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return fmt.Errorf("reading %T: %w", list, err)
		}
		all = append(all, items...)
	}
	return meta.SetList(list, all)
}

func notFound(object client.Object, scheme *runtime.Scheme, key client.ObjectKey) error {
	resource := schema.GroupResource{Resource: fmt.Sprintf("%T", object)}
	if kind, _, err := scheme.ObjectKinds(object); err == nil && len(kind) > 0 {
		resource = schema.GroupResource{Group: kind[0].Group, Resource: strings.ToLower(kind[0].Kind)}
	}
	return apierrors.NewNotFound(resource, key.String())
}
