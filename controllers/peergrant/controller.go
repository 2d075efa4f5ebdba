// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/usedby"
	"github.com/lighterage/lighterage/controllers/wake"
)

// Options of Setup.
type Options struct {
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=lighterage.dev,resources=peergrants;peers,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=peergrants/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=queues,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch

// Setup adds to the manager the controller of PeerGrants and the one that ends Deliveries that are not granted any
// more.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(mgr.GetClient(), o)
	comesOrGoes := wake.LaterIf(predicate.Funcs{UpdateFunc: neverOnUpdate})
	err := ctrl.NewControllerManagedBy(mgr).Named("peergrant").
		For(&v1alpha1.PeerGrant{}). // own writes too: what followed from an older status is looked at again
		Watches(&v1alpha1.Peer{}, handler.EnqueueRequestsFromMapFunc(r.grantsNamingPeer), comesOrGoes).
		Watches(
			granted(v1alpha1.GrantedPersistentVolumeClaim),
			handler.EnqueueRequestsFromMapFunc(r.grantsNaming(v1alpha1.GrantedPersistentVolumeClaim)), comesOrGoes,
		).
		Watches(
			granted(v1alpha1.GrantedQueue), handler.EnqueueRequestsFromMapFunc(r.grantsNaming(v1alpha1.GrantedQueue)),
			comesOrGoes,
		).
		WithOptions(refusal.ControllerOptions(1)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("adding the controller of PeerGrants: %w", err)
	}
	return setupRevocation(mgr, o)
}

// Reconciler is made by NewReconciler.
type Reconciler struct {
	client  client.Client
	options Options
}

// NewReconciler returns the reconciler of PeerGrants.
func NewReconciler(c client.Client, o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{client: c, options: o}
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var grant v1alpha1.PeerGrant
	if err := r.client.Get(ctx, request.NamespacedName, &grant); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	missing, err := r.missing(ctx, &grant)
	if err != nil {
		return ctrl.Result{}, err
	}
	wanted := conditions.Ready(v1alpha1.ReasonReferencesResolved, "Every peer and object that is named exists")
	if len(missing) > 0 {
		wanted = conditions.Reconciling(v1alpha1.ReasonReferenceNotFound, fmt.Sprintf("%s: create what is missing or "+
			"correct the name; the grant holds as soon as it exists",
			strings.Join(missing, ", ")))
	}
	now := r.options.Clock.Now()
	next := usedby.Interval
	switch {
	case Expired(&grant, now):
		next = 0 // nothing uses it any more
		wanted = conditions.Stalled(v1alpha1.ReasonGrantExpired, fmt.Sprintf(
			"the grant expired at %s and allows nothing any more; set a later spec.expirationTime, remove it, or delete the "+
				"grant",
			grant.Spec.ExpirationTime.UTC().Format(time.RFC3339)))
	case grant.Spec.ExpirationTime != nil:
		next = min(untilExpiry(grant.Spec.ExpirationTime.Time, now), usedby.Interval)
	}
	uses, err := r.uses(ctx, &grant)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := grant.DeepCopy()
	grant.Status.Conditions = conditions.Merge(grant.Status.Conditions, wanted, grant.Generation, now)
	grant.Status.ObservedGeneration = grant.Generation
	grant.Status.UsedBy = usedby.Sum(grant.Status.UsedBy, uses, now)
	wrote, err := conditions.WriteStatus(ctx, r.client, before, &grant)
	if wrote {
		log.FromContext(ctx).Info("PeerGrant changed", "reason", wanted[0].Reason, "message", wanted[0].Message)
	}
	return ctrl.Result{RequeueAfter: next}, err
}

// untilExpiry is when to look at a grant again. A clock that is set is noticed within an hour.
func untilExpiry(at, now time.Time) time.Duration {
	return min(max(at.Sub(now), time.Millisecond), time.Hour)
}

// missing says what the grant names that does not exist.
func (r *Reconciler) missing(ctx context.Context, grant *v1alpha1.PeerGrant) ([]string, error) {
	var missing []string
	note := func(kind, name string, err error) error {
		if apierrors.IsNotFound(err) {
			if sentence := fmt.Sprintf("%s %q does not exist", kind, name); !slices.Contains(missing, sentence) {
				missing = append(missing, sentence)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("looking for %s %q: %w", kind, name, err)
		}
		return nil
	}
	for _, from := range grant.Spec.From {
		if from.Peer == "" { // this cluster
			continue
		}
		err := r.client.Get(ctx, client.ObjectKey{Name: from.Peer}, &v1alpha1.Peer{})
		if err := note("Peer", from.Peer, err); err != nil {
			return nil, err
		}
	}
	for _, to := range grant.Spec.To {
		if to.Name == "" || to.Create != nil { // what may be created need not exist
			continue
		}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: grant.Namespace, Name: to.Name}, granted(to.Kind))
		if err := note(string(to.Kind), to.Name, err); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

func (r *Reconciler) grantsNamingPeer(ctx context.Context, peer client.Object) []reconcile.Request {
	return r.grants(ctx, "", func(grant *v1alpha1.PeerGrant) bool {
		return slices.ContainsFunc(grant.Spec.From, func(from v1alpha1.PeerGrantFrom) bool {
			return from.Peer == peer.GetName()
		})
	})
}

// grantsNaming is for objects of a kind that may be granted.
func (r *Reconciler) grantsNaming(kind v1alpha1.GrantedKind) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		return r.grants(ctx, object.GetNamespace(), func(grant *v1alpha1.PeerGrant) bool {
			return slices.ContainsFunc(grant.Spec.To, func(to v1alpha1.PeerGrantTo) bool {
				return to.Kind == kind && to.Name == object.GetName()
			})
		})
	}
}

// grants returns requests for the grants in a namespace, or in all, that a condition holds for.
func (r *Reconciler) grants(
	ctx context.Context, namespace string, holds func(*v1alpha1.PeerGrant) bool,
) []reconcile.Request {
	return wake.Requests(ctx, r.client, &v1alpha1.PeerGrantList{}, holds, client.InNamespace(namespace))
}

// granted is an empty object of a kind.
func granted(kind v1alpha1.GrantedKind) client.Object {
	if kind == v1alpha1.GrantedQueue {
		return &v1alpha1.Queue{}
	}
	return &corev1.PersistentVolumeClaim{}
}
