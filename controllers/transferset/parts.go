// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transferset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
	"github.com/lighterage/lighterage/controllers/wake"
)

// reconcileParts looks after a set of several namespaces, whose parts are the sets of each.
func (r *Reconciler) reconcileParts(ctx context.Context, set *v1alpha1.TransferSet) (ctrl.Result, error) {
	facts := transfersetplan.PartFacts{Now: r.Clock.Now().Truncate(time.Second), Operator: r.OperatorNamespace}
	// Other sets with a selector do nothing but say so, so nothing is to be seen for them.
	if transfersetplan.HasParts(set, r.OperatorNamespace) {
		err := r.finalize(ctx, set, controllerutil.AddFinalizer)
		if err != nil {
			return ctrl.Result{}, err
		}
		if facts.Sets, err = r.named(ctx, set); err != nil {
			return ctrl.Result{}, err
		}
		if facts.Namespaces, err = r.namespaces(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	parts, err := transfersetplan.DecideParts(set, facts)
	if err != nil {
		return ctrl.Result{}, err
	}
	// What one namespace rejects keeps nothing from the others.
	failed := write(ctx, r.Client, parts.Writes, notePart(parts), math.MaxInt, deletionOf(set))
	if err := errors.Join(failed, r.show(ctx, set, parts.Status())); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: parts.RequeueAfter()}, nil
}

// finish has the parts of a set that is being deleted deleted first. Owner references do not reach other namespaces.
// Whoever may edit a set may give it the finalizer, which by itself says nothing about parts.
func (r *Reconciler) finish(ctx context.Context, set *v1alpha1.TransferSet) error {
	if !controllerutil.ContainsFinalizer(set, v1alpha1.Finalizer) {
		return nil
	}
	if transfersetplan.HasParts(set, r.OperatorNamespace) {
		left, err := r.removeParts(ctx, set)
		if err != nil || left {
			return err // the last one to go wakes the set
		}
	}
	return client.IgnoreNotFound(r.finalize(ctx, set, controllerutil.RemoveFinalizer))
}

// removeParts deletes the parts of a set, and reports whether there were any.
func (r *Reconciler) removeParts(ctx context.Context, set *v1alpha1.TransferSet) (left bool, err error) {
	named, err := r.named(ctx, set)
	if err != nil {
		return false, err
	}
	parts := transfersetplan.PartsOf(set, r.OperatorNamespace, named)
	if len(parts) == 0 {
		// The cache may not have seen yet what was made last, and nobody would delete it afterwards.
		made := &v1alpha1.TransferSetList{}
		if err := r.Reader.List(ctx, made, client.MatchingLabels{v1alpha1.TransferSetLabel: set.Name}); err != nil {
			return false, fmt.Errorf("listing the parts of TransferSet %s: %w", client.ObjectKeyFromObject(set), err)
		}
		parts = transfersetplan.PartsOf(set, r.OperatorNamespace, made.Items)
	}
	var failed []error
	for _, part := range parts {
		if part.DeletionTimestamp == nil {
			failed = append(failed, remove(ctx, r.Client, part.DeepCopy(), deletionOf(set)))
		}
	}
	return len(parts) > 0, errors.Join(failed...)
}

// deletionOf is how parts are deleted: without their members where these are retained, whatever owner references they
// have.
func deletionOf(set *v1alpha1.TransferSet) client.DeleteOption {
	if set.Spec.MemberPolicy == v1alpha1.MembersRetain {
		return client.PropagationPolicy(metav1.DeletePropagationOrphan)
	}
	return client.PropagationPolicy(metav1.DeletePropagationBackground)
}

// finalize adds or removes the finalizer. A write from a stale read is rejected as a conflict.
func (r *Reconciler) finalize(
	ctx context.Context, set *v1alpha1.TransferSet, change func(client.Object, string) bool,
) error {
	before := set.DeepCopy()
	if !change(set, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, set, patch, client.FieldOwner(conditions.FieldOwner)); err != nil {
		return fmt.Errorf("changing the finalizer of TransferSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	return nil
}

// named are the sets of other namespaces with the name of a set.
func (r *Reconciler) named(ctx context.Context, set *v1alpha1.TransferSet) ([]v1alpha1.TransferSet, error) {
	sets := &v1alpha1.TransferSetList{}
	named := client.MatchingFields{index.SetName: set.Name}
	if err := r.Client.List(ctx, sets, named, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing TransferSets with the name %s: %w", set.Name, err)
	}
	return slices.DeleteFunc(sets.Items, func(s v1alpha1.TransferSet) bool { return s.Namespace == set.Namespace }), nil
}

// namespaces of the cluster.
func (r *Reconciler) namespaces(ctx context.Context) ([]transfersetplan.Namespace, error) {
	// By the informer of the watch, which may be ahead of one of whole namespaces.
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	all := make([]transfersetplan.Namespace, 0, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		all = append(all, transfersetplan.Namespace{
			Name: n.Name, Labels: n.Labels, Ends: n.DeletionTimestamp != nil, Watched: r.Watched.Watches(n.Name),
		})
	}
	return all, nil
}

// ofPart is the set of several namespaces of which a set is a part, or whose name it has.
func (r *Reconciler) ofPart(ctx context.Context, part client.Object) []reconcile.Request {
	if part.GetNamespace() == r.OperatorNamespace {
		return nil
	}
	return wake.Requests(ctx, r.Client, &v1alpha1.TransferSetList{}, func(s *v1alpha1.TransferSet) bool {
		return s.Name == part.GetName() && several(s)
	}, client.InNamespace(r.OperatorNamespace))
}

// ofSeveral are all sets of several namespaces.
func (r *Reconciler) ofSeveral(ctx context.Context, _ client.Object) []reconcile.Request {
	return wake.Requests(ctx, r.Client, &v1alpha1.TransferSetList{}, several, client.InNamespace(r.OperatorNamespace))
}

// several reports whether a set is one of several namespaces.
func several(set *v1alpha1.TransferSet) bool { return set.Spec.NamespaceSelector != nil }

// partMoved lets pass what changes what a part contributes, and not how far runs have come. Of sets without the label
// only their coming and going is of interest.
func partMoved() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isBefore := e.ObjectOld.(*v1alpha1.TransferSet)
		after, isAfter := e.ObjectNew.(*v1alpha1.TransferSet)
		if !isBefore || !isAfter {
			return false
		}
		was, is := before.Labels[v1alpha1.TransferSetLabel], after.Labels[v1alpha1.TransferSetLabel]
		return was != is || before.UID != after.UID || is != "" && !equality.Semantic.DeepEqual(partOf(before), partOf(after))
	}}
}

// contribution is what matters of a part.
type contribution struct {
	Generation, Observed int64
	// Deleted and Controlled: it ends, or something else controls it.
	Deleted, Controlled bool
	// Set, Manager and Hash are the marks of a part.
	Set, Manager, Hash string
	Conditions         []metav1.Condition
	Members            *v1alpha1.TransferSetMembers
	RecoveryPoint      *metav1.Time
	Failures           []v1alpha1.TransferSetFailure
}

func partOf(s *v1alpha1.TransferSet) contribution {
	return contribution{
		Generation: s.Generation, Observed: s.Status.ObservedGeneration,
		Deleted: s.DeletionTimestamp != nil, Controlled: metav1.GetControllerOf(s) != nil,
		Set: s.Labels[v1alpha1.TransferSetLabel], Manager: s.Labels[agentpod.ManagedByLabel],
		Hash:       s.Annotations[v1alpha1.TemplateHashAnnotation],
		Conditions: s.Status.Conditions, Members: s.Status.Members,
		RecoveryPoint: s.Status.RecoveryPoint, Failures: s.Status.Failures,
	}
}
