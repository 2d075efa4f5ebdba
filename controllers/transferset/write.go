// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transferset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
)

// object of a kind that is written.
type object[T any] interface {
	client.Object
	DeepCopy() T
}

// write does what was decided. What the API server rejects for good is given to reject with its words; after
// transfersetplan.MaxRejections the rest is left for the next time.
func write[T object[T]](
	ctx context.Context, c client.Client, w transfersetplan.Writes[T], reject func(T, string),
	deletion ...client.DeleteOption,
) error {
	for _, o := range w.Delete {
		if err := remove(ctx, c, o.DeepCopy(), deletion...); err != nil {
			return err
		}
	}
	rejections := 0
	note := func(o T, err error) error {
		words, final := refusal.Final(err)
		if !final {
			return err
		}
		reject(o, words)
		rejections++
		return nil
	}
	for _, u := range w.Update {
		if rejections >= transfersetplan.MaxRejections {
			return nil
		}
		if err := note(u.After, update(ctx, c, u.Before, u.After)); err != nil {
			return err
		}
	}
	for _, o := range w.Create {
		if rejections >= transfersetplan.MaxRejections {
			return nil
		}
		if err := note(o, create(ctx, c, o)); err != nil {
			return err
		}
	}
	return nil
}

// create makes an object. One that is there already will be seen.
func create(ctx context.Context, c client.Client, o client.Object) error {
	err := c.Create(ctx, o, client.FieldOwner(conditions.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// update changes an object. A write from a stale read is rejected as a conflict. One that is gone will not be seen.
func update(ctx context.Context, c client.Client, before, after client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.Patch(ctx, after, patch, client.FieldOwner(conditions.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing %T %s: %w", before, client.ObjectKeyFromObject(before), err)
	}
	return nil
}

// remove deletes an object unless another one has its name by now.
func remove(ctx context.Context, c client.Client, o client.Object, options ...client.DeleteOption) error {
	uid := o.GetUID()
	err := c.Delete(ctx, o, append(options, client.Preconditions{UID: &uid})...)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}
