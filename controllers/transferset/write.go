// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transferset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
)

// object of a kind that is written.
type object[T any] interface {
	client.Object
	DeepCopy() T
}

// write does what was decided, and joins the errors of deletions and what note returns of those of other writes. After
// so many of the latter, at most, the rest is left for the next time.
func write[T object[T]](
	ctx context.Context, c client.Client, w transfersetplan.Writes[T], note func(T, error) error, most int,
	deletion ...client.DeleteOption,
) error {
	var failed []error
	for _, o := range w.Delete {
		failed = append(failed, remove(ctx, c, o.DeepCopy(), deletion...))
	}
	troubles := 0
	goesOn := func(o T, err error) bool {
		if err != nil {
			failed = append(failed, note(o, err))
			troubles++
		}
		return troubles < most
	}
	for _, u := range w.Update {
		if !goesOn(u.After, update(ctx, c, u.Before, u.After)) {
			return errors.Join(failed...)
		}
	}
	for _, o := range w.Create {
		if !goesOn(o, create(ctx, c, o)) {
			break
		}
	}
	return errors.Join(failed...)
}

// noteMember tells a decision of what the API server rejects for good.
func noteMember(d *transfersetplan.Decision) func(*v1alpha1.Transfer, error) error {
	return func(member *v1alpha1.Transfer, err error) error {
		if words, final := refusal.Final(err); final {
			d.Reject(member, words)
			return nil
		}
		return err
	}
}

// notePart tells a decision of what the API server rejects. What it rejects for now is an error as well.
func notePart(d *transfersetplan.Parts) func(*v1alpha1.TransferSet, error) error {
	return func(part *v1alpha1.TransferSet, err error) error {
		if words, final := refusal.Final(err); final {
			d.Reject(part, words)
			return nil
		}
		if words, rejected := refusal.Words(err); rejected {
			d.Refuse(part, words)
		}
		return err
	}
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
