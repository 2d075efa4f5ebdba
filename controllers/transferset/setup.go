// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transferset

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/wake"
)

// Setup adds the controller to the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(o)
	changed := predicate.GenerationChangedPredicate{}
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.TransferSet{}, builder.WithPredicates(predicate.Or(changed, asked()))).
		// Which set has a claim depends on the others.
		Watches(
			&v1alpha1.TransferSet{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(wake.Later(), changed),
		).
		Watches(
			&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(wake.Later(), relabelled()),
		).
		Watches(
			&v1alpha1.Transfer{}, handler.EnqueueRequestsFromMapFunc(r.ofMember),
			builder.WithPredicates(wake.Later(), moved()),
		).
		Watches(
			&v1alpha1.TransferSet{}, handler.EnqueueRequestsFromMapFunc(r.ofPart),
			builder.WithPredicates(wake.Later(), partMoved()),
		).
		WatchesMetadata(
			&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofSeveral),
			builder.WithPredicates(wake.Later(), relabelled()),
		).
		WithOptions(refusal.ControllerOptions(o.Concurrency)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("registering the TransferSet controller: %w", err)
	}
	return nil
}

// ofNamespace are the sets of an object's namespace.
func (r *Reconciler) ofNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return wake.Requests[*v1alpha1.TransferSet](
		ctx, r.Client, &v1alpha1.TransferSetList{}, nil, client.InNamespace(object.GetNamespace()),
	)
}

// ofMember is the set whose label a Transfer has. One without may have the name of a member of any.
func (r *Reconciler) ofMember(ctx context.Context, transfer client.Object) []reconcile.Request {
	if set := transfer.GetLabels()[v1alpha1.TransferSetLabel]; set != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: transfer.GetNamespace(), Name: set}}}
	}
	return r.ofNamespace(ctx, transfer)
}

// asked lets pass what asks for another VolumeGroupSnapshot.
func asked() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[v1alpha1.RunAnnotation] != e.ObjectNew.GetAnnotations()[v1alpha1.RunAnnotation]
	}}
}

// relabelled lets pass what changes which claims or namespaces are selected.
func relabelled() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return before.GetUID() != after.GetUID() || !maps.Equal(before.GetLabels(), after.GetLabels()) ||
			(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
	}}
}

// moved lets pass what changes the state of a member, and not how far a run has come. Of Transfers without the label of
// a set only their coming and going is of interest.
func moved() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isBefore := e.ObjectOld.(*v1alpha1.Transfer)
		after, isAfter := e.ObjectNew.(*v1alpha1.Transfer)
		if !isBefore || !isAfter {
			return false
		}
		was, is := before.Labels[v1alpha1.TransferSetLabel], after.Labels[v1alpha1.TransferSetLabel]
		return was != is || before.UID != after.UID || is != "" && !equality.Semantic.DeepEqual(look(before), look(after))
	}}
}

// looked is what matters of a member.
type looked struct {
	Generation int64
	Deleted    bool
	Hash       string
	Owners     []metav1.OwnerReference
	Phase      v1alpha1.TransferPhase
	Failed     bool
	// Reason and Message are shown of members that failed.
	Reason, Message string
	RecoveryPoint   *metav1.Time
	// Seen and Run say whether a run that was asked for has begun and ended.
	Seen int64
	Run  string
}

func look(t *v1alpha1.Transfer) looked {
	l := looked{
		Generation: t.Generation, Deleted: t.DeletionTimestamp != nil, Hash: t.Annotations[v1alpha1.TemplateHashAnnotation],
		Owners: t.OwnerReferences, Phase: t.Status.Phase, RecoveryPoint: t.Status.RecoveryPoint,
		Failed: meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionStalled) ||
			meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionFailed),
	}
	if t.Spec.Source.VolumeGroupSnapshotName != "" {
		l.Seen, l.Run = t.Status.ObservedGeneration, t.Status.LastRunRequest
	}
	if ready := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady); ready != nil && l.Failed {
		l.Reason, l.Message = ready.Reason, ready.Message
	}
	return l
}
