// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the name under which the operator writes.
const FieldOwner = "lighterage"

// WriteStatus writes the status of after if it differs from before, which is the object as it was read. A write from a
// stale read is refused by the API server (a conflict), because what follows from a status, such as a Job for a run,
// must not be done twice. It reports whether it wrote.
func WriteStatus(ctx context.Context, c client.Client, before, after client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(before, after) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch, client.FieldOwner(FieldOwner)); err != nil {
		return false, fmt.Errorf("writing the status of %T %s: %w", after, client.ObjectKeyFromObject(after), err)
	}
	return true, nil
}
