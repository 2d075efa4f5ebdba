// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transferset reconciles TransferSets: it makes, changes and deletes the Transfers that they are to have, or,
// for those of several namespaces, the TransferSets there, and sums them up. What moves data are these Transfers, which
// this package does not run. Package transfersetplan decides.
package transferset

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/staging"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
	"github.com/lighterage/lighterage/controllers/watched"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=transfersets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=lighterage.dev,resources=transfersets/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=transfers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of Setup.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Reader reads without a cache.
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// OperatorNamespace is the only one in which sets of several namespaces are accepted.
	OperatorNamespace string
	// Watched are the namespaces in which objects can be seen and made.
	Watched watched.Namespaces
	// Concurrency is how many sets are looked after at once.
	Concurrency int
}

// Reconciler is made by NewReconciler.
type Reconciler struct {
	Options
	refusals *refusal.Shower
	staging  staging.Cluster
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{
		o, &refusal.Shower{Client: o.Client, Clock: o.Clock, Recorder: o.Recorder},
		staging.Cluster{Client: o.Client, Reader: o.Reader},
	}
}

// Reconcile looks after one set. Members that are deleted with it have it as their owner.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	set := &v1alpha1.TransferSet{}
	return result, r.refusals.Show(ctx, request.NamespacedName, set, &set.Status.Conditions, err)
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	set := &v1alpha1.TransferSet{}
	found, err := lookup.Get(ctx, r.Client, request.NamespacedName, set)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case !found:
		return ctrl.Result{}, nil
	case set.DeletionTimestamp != nil:
		return ctrl.Result{}, r.finish(ctx, set)
	case set.Spec.NamespaceSelector != nil:
		return r.reconcileParts(ctx, set)
	}
	decision, err := r.decide(ctx, set)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.doGroup(ctx, set, decision); err != nil {
		return ctrl.Result{}, err
	}
	err = write(ctx, r.Client, decision.Writes, noteMember(decision), transfersetplan.MaxRejections)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: decision.RequeueAfter()}, r.show(ctx, set, decision.Status())
}

// show writes a status that differs.
func (r *Reconciler) show(ctx context.Context, set *v1alpha1.TransferSet, status v1alpha1.TransferSetStatus) error {
	before := set.DeepCopy()
	set.Status = status
	if _, err := conditions.WriteStatus(ctx, r.Client, before, set); err != nil {
		return err
	}
	conditions.Tell(r.Recorder, set, before.Status.Conditions, set.Status.Conditions)
	return nil
}

// decide gathers what can be seen and has it decided upon.
func (r *Reconciler) decide(ctx context.Context, set *v1alpha1.TransferSet) (*transfersetplan.Decision, error) {
	claims, sets := &corev1.PersistentVolumeClaimList{}, &v1alpha1.TransferSetList{}
	for _, list := range []client.ObjectList{claims, sets} {
		err := r.Client.List(ctx, list, client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing %T in %s: %w", list, set.Namespace, err)
		}
	}
	selection := transfersetplan.Select(set, claims.Items, sets.Items)
	facts := transfersetplan.Facts{Now: r.Clock.Now().Truncate(time.Second), Taken: map[string]bool{}}
	members := &v1alpha1.TransferList{}
	err := r.Client.List(ctx, members, client.InNamespace(set.Namespace),
		client.MatchingFields{index.TransferSet: set.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the members of TransferSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	facts.Transfers = members.Items
	labelled := make(map[string]bool, len(members.Items))
	for i := range members.Items {
		labelled[members.Items[i].Name] = true
	}
	for _, member := range selection.Members {
		if labelled[member.Name] {
			continue
		}
		key := client.ObjectKey{Namespace: set.Namespace, Name: member.Name}
		if facts.Taken[member.Name], err = lookup.Get(ctx, r.Client, key, &v1alpha1.Transfer{}); err != nil {
			return nil, err
		}
	}
	decision, err := transfersetplan.Decide(set, selection, facts)
	if err != nil || !decision.Group.Look {
		return decision, err
	}
	if facts.Group, err = r.staging.LookAtGroup(ctx, set, decision.Group.Begin); err != nil {
		return nil, err
	}
	return transfersetplan.Decide(set, selection, facts)
}

// doGroup removes and makes VolumeGroupSnapshots. That of the status as it is now is made, once all others are gone;
// one that is begun is named there first.
func (r *Reconciler) doGroup(ctx context.Context, set *v1alpha1.TransferSet, decision *transfersetplan.Decision) error {
	step, left := decision.Group, false
	if step.Remove {
		keep := ""
		if step.Make {
			keep = set.Status.Group.Name
		}
		var err error
		if left, err = r.staging.RemoveGroups(ctx, set, keep); err != nil {
			return err
		}
	}
	if !step.Make || left {
		return nil
	}
	problem, err := r.staging.MakeGroup(ctx, set)
	if problem != nil {
		decision.RefuseGroup(*problem)
	}
	return err
}
