// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/wake"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=deliveries,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Revoker ends what was admitted and is not granted any more: it deletes the Delivery, whose finalizer ends the agent.
// The gateways then close its connections, and refuse the sender, with what to do about it, when it comes back.
type Revoker struct {
	client client.Client
	// reader reads without a cache: a grant that this manager has not seen yet must not look like one that was revoked.
	reader   client.Reader
	recorder recorder.EventRecorder
	clock    clock.PassiveClock
}

// NewRevoker returns the reconciler of Deliveries that revokes.
func NewRevoker(c client.Client, reader client.Reader, r recorder.EventRecorder, o Options) *Revoker {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Revoker{client: c, reader: reader, recorder: r, clock: o.Clock}
}

func setupRevocation(mgr ctrl.Manager, o Options) error {
	r := NewRevoker(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("peergrant"), o)
	changes := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: predicate.GenerationChangedPredicate{}.Update,
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("peergrant-revocation").
		For(&v1alpha1.Delivery{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(
			&v1alpha1.PeerGrant{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false },
				UpdateFunc: predicate.GenerationChangedPredicate{}.Update,
			}),
		).
		Watches(&v1alpha1.Peer{}, handler.EnqueueRequestsFromMapFunc(r.ofPeer), changes).
		WithOptions(refusal.ControllerOptions(1)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("adding the controller that revokes: %w", err)
	}
	return nil
}

func neverOnUpdate(event.UpdateEvent) bool { return false }

// Reconcile is of reconcile.Reconciler.
func (r *Revoker) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var delivery v1alpha1.Delivery
	if err := r.client.Get(ctx, request.NamespacedName, &delivery); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if delivery.Status.Phase == v1alpha1.DeliveryComplete || delivery.Status.Phase == v1alpha1.DeliveryFailed ||
		!delivery.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	now := r.clock.Now()
	var verdict Verdict
	for _, reader := range []client.Reader{r.client, r.reader} {
		var err error
		if verdict, err = Judge(ctx, reader, &delivery, now); err != nil {
			return ctrl.Result{}, err
		}
		if !verdict.Allowed {
			continue
		}
		if verdict.Until.IsZero() {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{RequeueAfter: untilExpiry(verdict.Until, now)}, nil
	}
	if err := r.client.Delete(ctx, &delivery, client.Preconditions{UID: &delivery.UID}); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf(
			"deleting Delivery %s, which is not granted any more: %w", request.NamespacedName, err,
		)
	}
	log.FromContext(ctx).Info("Delivery deleted because it is not granted any more")
	r.recorder.Eventf(
		&delivery, nil, corev1.EventTypeWarning, v1alpha1.ReasonNotGranted, "Delete", "Not granted any more: %s",
		verdict.Refusal,
	)
	return ctrl.Result{}, nil
}

// Judge returns what the PeerGrants that a reader sees say to a Delivery; nothing is allowed to one whose Peer does
// not exist.
func Judge(ctx context.Context, reader client.Reader, delivery *v1alpha1.Delivery, now time.Time) (Verdict, error) {
	return judge(ctx, reader, delivery, OfDelivery(delivery), now)
}

// JudgeClaim is Judge for creating the claim of a Delivery with a template, or making it larger.
func JudgeClaim(
	ctx context.Context, reader client.Reader, delivery *v1alpha1.Delivery, now time.Time,
) (Verdict, error) {
	return judge(ctx, reader, delivery, OfClaim(delivery), now)
}

func judge(
	ctx context.Context, reader client.Reader, delivery *v1alpha1.Delivery, request Request, now time.Time,
) (Verdict, error) {
	if peer := delivery.Spec.Peer; peer != "" {
		var found v1alpha1.Peer
		err := reader.Get(ctx, client.ObjectKey{Name: peer}, &found)
		if apierrors.IsNotFound(err) {
			return Verdict{Refusal: fmt.Sprintf("Peer %q does not exist any more", peer)}, nil
		}
		if err != nil {
			return Verdict{}, fmt.Errorf("looking for Peer %s: %w", peer, err)
		}
		if revoked := found.Spec.RevokedBefore; revoked != nil && Issued(delivery, now).Before(revoked.Time) {
			return Verdict{Refusal: fmt.Sprintf("the sender's certificate was issued before %s, and Peer %q revokes those in "+
				"spec.revokedBefore",
				revoked.UTC().Format(time.RFC3339), peer)}, nil
		}
	}
	var grants v1alpha1.PeerGrantList
	if err := reader.List(ctx, &grants, client.InNamespace(delivery.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return Verdict{}, fmt.Errorf("listing PeerGrants in namespace %s: %w", delivery.Namespace, err)
	}
	return Decide(grants.Items, request, now), nil
}

func (r *Revoker) inNamespace(ctx context.Context, grant client.Object) []reconcile.Request {
	return r.deliveries(ctx, grant.GetNamespace(), func(*v1alpha1.Delivery) bool { return true })
}

func (r *Revoker) ofPeer(ctx context.Context, peer client.Object) []reconcile.Request {
	return r.deliveries(ctx, "", func(delivery *v1alpha1.Delivery) bool { return delivery.Spec.Peer == peer.GetName() })
}

func (r *Revoker) deliveries(
	ctx context.Context, namespace string, holds func(*v1alpha1.Delivery) bool,
) []reconcile.Request {
	return wake.Requests(ctx, r.client, &v1alpha1.DeliveryList{}, holds, client.InNamespace(namespace))
}
