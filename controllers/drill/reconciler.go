// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drill reconciles Drills: it has a Transfer restore the copy and shows what that proved. Package drillplan
// decides.
package drill

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/drillplan"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/wake"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=drills,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=drills/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=transfers,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// createdPause is how soon to look again after the API server has a Transfer that the cache has not.
const createdPause = time.Second

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Concurrency is how many Drills are looked after at once.
	Concurrency int
}

// Reconciler reconciles Drills.
type Reconciler struct {
	Options
	refusals *refusal.Shower
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{Options: o, refusals: &refusal.Shower{Client: o.Client, Clock: o.Clock, Recorder: o.Recorder}}
}

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	// Writing a status is no reason to look again.
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Drill{}, builder.WithPredicates(specOrAnnotations)).
		Owns(&v1alpha1.Transfer{}).
		WithOptions(refusal.ControllerOptions(o.Concurrency)).
		Complete(wake.Again(NewReconciler(o)))
	if err != nil {
		return fmt.Errorf("registering the Drill controller: %w", err)
	}
	return nil
}

// Reconcile looks after one Drill. Its Transfer is its own, so that it goes when the Drill is deleted.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	drill := &v1alpha1.Drill{}
	return result, r.refusals.Show(ctx, request.NamespacedName, drill, &drill.Status.Conditions, err)
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	drill := &v1alpha1.Drill{}
	found, err := lookup.Get(ctx, r.Client, request.NamespacedName, drill)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !found || drill.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	facts := drillplan.Facts{Now: r.Clock.Now().Truncate(time.Second), NewID: strings.ToLower(rand.Text()[:5])}
	transfer := &v1alpha1.Transfer{}
	key := client.ObjectKey{Namespace: drill.Namespace, Name: drillplan.TransferName(drill)}
	if found, err = lookup.Get(ctx, r.Client, key, transfer); err != nil {
		return ctrl.Result{}, err
	}
	if found {
		facts.Transfer = transfer
	}
	decision := drillplan.Decide(drill, facts)
	before := drill.DeepCopy()
	drill.Status = decision.Status
	if _, err := conditions.WriteStatus(ctx, r.Client, before, drill); err != nil {
		return ctrl.Result{}, err
	}
	conditions.Tell(r.Recorder, drill, before.Status.Conditions, drill.Status.Conditions)
	if decision.Remove != nil {
		if err := r.remove(ctx, decision.Remove); err != nil {
			return ctrl.Result{}, err
		}
	}
	if decision.Create != nil {
		err := r.Client.Create(ctx, decision.Create, client.FieldOwner(conditions.FieldOwner))
		if apierrors.IsAlreadyExists(err) {
			return ctrl.Result{RequeueAfter: createdPause}, nil
		}
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("creating Transfer %s: %w", key, err)
		}
	}
	return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
}

// remove deletes the Transfer that was looked at, and none of its name that was made since.
func (r *Reconciler) remove(ctx context.Context, transfer *v1alpha1.Transfer) error {
	err := r.Client.Delete(ctx, transfer, client.Preconditions{UID: &transfer.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Transfer %s: %w", client.ObjectKeyFromObject(transfer), err)
	}
	return nil
}
