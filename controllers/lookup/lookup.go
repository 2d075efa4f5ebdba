// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lookup reads what a controller can go on without.
package lookup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
