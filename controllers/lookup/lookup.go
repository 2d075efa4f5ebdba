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
