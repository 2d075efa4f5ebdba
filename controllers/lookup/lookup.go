// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lookup reads what a controller can go on without.
package lookup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
)

// Get reads an object and reports whether it exists. One that does not is no error.
func Get(ctx context.Context, reader client.Reader, key client.ObjectKey, object client.Object) (bool, error) {
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", object, key, err)
	}
	return true, nil
}

// Namespace is the metadata of a namespace; empty of one that does not exist.
func Namespace(ctx context.Context, reader client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	_, err := Get(ctx, reader, client.ObjectKey{Name: name}, namespace)
	return namespace, err
}

// DataQuotas are those of a namespace; it may have none. They are the cache's own and must not be changed.
func DataQuotas(ctx context.Context, reader client.Reader, namespace string) ([]v1alpha1.DataQuota, error) {
	list := &v1alpha1.DataQuotaList{}
	if err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing DataQuotas in %s: %w", namespace, err)
	}
	return list.Items, nil
}

// Policies are those among which an object of a namespace finds the one that it names; of the default one the name is
// empty. They are the cache's own and must not be changed.
func Policies(
	ctx context.Context, reader client.Reader, namespace, name string,
) ([]v1alpha1.CompressionPolicy, error) {
	list := &v1alpha1.CompressionPolicyList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing CompressionPolicies: %w", err)
	}
	if name == "" {
		return list.Items, nil
	}
	local := &v1alpha1.LocalCompressionPolicy{}
	found, err := Get(ctx, reader, client.ObjectKey{Namespace: namespace, Name: name}, local)
	if err != nil || !found {
		return list.Items, err
	}
	return append([]v1alpha1.CompressionPolicy{policy.Local(local)}, list.Items...), nil
}
