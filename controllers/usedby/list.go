// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package usedby

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// List fills lists with the objects of a namespace, empty for all, that have a value in a field of package index. They
// must not be changed.
func List(
	ctx context.Context, reader client.Reader, namespace, field, value string, lists ...client.ObjectList,
) error {
	for _, list := range lists {
		err := reader.List(
			ctx, list, client.InNamespace(namespace), client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy,
		)
		if err != nil {
			return fmt.Errorf("listing %T by %s %s: %w", list, field, value, err)
		}
	}
	return nil
}
