// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/route"
	"github.com/lighterage/lighterage/controllers/usedby"
	"github.com/lighterage/lighterage/controllers/wake"
)

const (
	// readyInterval is how often a peer that answers is asked again.
	readyInterval = time.Minute
	// retryFirst and retryMost bound the pause after a peer that does not. In between it is as long as the peer has
	// been away.
	retryFirst, retryMost = 2 * time.Second, 2 * time.Minute
	// workers is how many peers are asked at the same time: one that does not answer takes 10 seconds.
	workers = 8
)

// Options of Setup.
type Options struct {
	// Gateways of other clusters.
	Gateways agentclient.PeerGateway
	// Tunnels is the endpoint of this cluster's own gateways, see package route.
	Tunnels string
	// Controls of this cluster's gateways.
	Controls Controls
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=lighterage.dev,resources=peers,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=peers/status,verbs=patch

// Setup adds the controller to the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(mgr.GetClient(), o)
	// What is written to status is no reason to look again; a fixed bundle is, for those that shared a certificate
	// with it.
	return ctrl.NewControllerManagedBy(mgr).Named("peer").
		For(&v1alpha1.Peer{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Peer{}, handler.EnqueueRequestsFromMapFunc(r.sharersOf),
			builder.WithPredicates(wake.Later(), predicate.GenerationChangedPredicate{})).
		WithOptions(refusal.ControllerOptions(workers)).
		Complete(wake.Again(r))
}

// Reconciler is made by NewReconciler.
type Reconciler struct {
	client  client.Client
	options Options
}

// NewReconciler returns the reconciler of the controller.
func NewReconciler(c client.Client, o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{client: c, options: o}
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var peer v1alpha1.Peer
	if err := r.client.Get(ctx, request.NamespacedName, &peer); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := peer.DeepCopy()
	wanted, err := r.observe(ctx, &peer)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.options.Clock.Now()
	if control := r.observeControl(ctx, &peer); len(control) > 0 {
		wanted = append(wanted, control...)
	} else {
		meta.RemoveStatusCondition(&peer.Status.Conditions, v1alpha1.ConditionConnected)
	}
	peer.Status.Conditions = conditions.Merge(peer.Status.Conditions, wanted, peer.Generation, now)
	peer.Status.ObservedGeneration = peer.Generation
	sent, received, err := r.uses(ctx, peer.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	peer.Status.Sent, peer.Status.Received = usedby.Sum(peer.Status.Sent, sent, now),
		usedby.Sum(peer.Status.Received, received, now)
	wrote, err := conditions.WriteStatus(ctx, r.client, before, &peer)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wrote {
		ready := meta.FindStatusCondition(peer.Status.Conditions, v1alpha1.ConditionReady)
		log.FromContext(ctx).Info("Peer changed", "ready", ready.Status, "reason", ready.Reason, "message", ready.Message)
	}
	return ctrl.Result{RequeueAfter: pause(&peer, now)}, nil
}

// observe returns the conditions of the Peer and sets the rest of its status.
func (r *Reconciler) observe(ctx context.Context, peer *v1alpha1.Peer) ([]metav1.Condition, error) {
	if peer.Status.ObservedGeneration != peer.Generation {
		// What was learnt of another endpoint, or from who held another CA, says nothing of this one.
		peer.Status.Version, peer.Status.KnownAs = "", ""
	}
	now := r.options.Clock.Now()
	held, err := readBundle(peer, now)
	peer.Status.CAFingerprints, peer.Status.CAExpirationTime = held.fingerprints, nil
	if !held.expires.IsZero() {
		peer.Status.CAExpirationTime = &metav1.Time{Time: held.expires}
	}
	if err != nil {
		return conditions.Stalled(v1alpha1.ReasonInvalidCABundle, err.Error()), nil
	}
	var peers v1alpha1.PeerList
	if err := r.client.List(ctx, &peers, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Peers: %w", err)
	}
	if names := sharers(peer, held.fingerprints, peers.Items); len(names) > 0 {
		return conditions.Stalled(v1alpha1.ReasonDuplicateCA, duplicateMessage(names)), nil
	}
	to, ok := route.To(peer, r.options.Tunnels)
	if !ok {
		return conditions.Ready(
			v1alpha1.ReasonReceiveOnly, "Runs from this peer are accepted; set spec.endpoint to send to it"+notice(held, now),
		), nil
	}
	hello, err := r.options.Gateways.Hello(
		ctx, agentclient.Gateway{Endpoint: to.Endpoint, Tunnel: to.Tunnel, CABundle: peer.Spec.CABundle},
	)
	return reached(peer, hello, err, notice(held, now)), nil
}

// reached turns what the peer's gateway answered into conditions.
func reached(peer *v1alpha1.Peer, hello *wirev1.HelloResponse, err error, notice string) []metav1.Condition {
	switch {
	case err == nil:
		peer.Status.Version, peer.Status.KnownAs = conditions.Shorten(hello.GetVersion()),
			conditions.Shorten(hello.GetKnownAs())
		return conditions.Ready(
			v1alpha1.ReasonReachable,
			fmt.Sprintf("The gateway answers and knows this cluster as %s%s", peer.Status.KnownAs, notice),
		)
	case errors.Is(err, agentclient.ErrUntrusted):
		return conditions.Stalled(v1alpha1.ReasonPeerUntrusted, err.Error())
	case errors.Is(err, agentclient.ErrIncompatible):
		return conditions.Stalled(v1alpha1.ReasonPeerIncompatible, err.Error())
	default:
		refused, _ := tunnel.ReasonOf(err)
		return conditions.Reconciling(reasonOf(refused, v1alpha1.ReasonPeerUnreachable), err.Error())
	}
}

// notice says that the CA expires soon, when it does.
func notice(held bundle, now time.Time) string {
	if now.Before(held.expires.Add(-expiryNotice)) {
		return ""
	}
	return fmt.Sprintf("; the last certificate in spec.caBundle expires on %s, add the cluster's next one beside it "+
		"before",
		held.expires.UTC().Format(time.DateOnly))
}

// pause is how long until the peer is asked again. Bundles are looked at then too, for certificates that expire.
func pause(peer *v1alpha1.Peer, now time.Time) time.Duration {
	next := readyInterval
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionConnected} {
		state := meta.FindStatusCondition(peer.Status.Conditions, kind)
		if state == nil || state.Status == metav1.ConditionTrue {
			continue
		}
		again := min(max(now.Sub(state.LastTransitionTime.Time), retryFirst), retryMost)
		if kind == v1alpha1.ConditionReady {
			return again
		}
		next = min(next, again)
	}
	return next
}

// sharersOf are the Peers that hold a certificate of the one that changed.
func (r *Reconciler) sharersOf(ctx context.Context, changed client.Object) []reconcile.Request {
	peer, ok := changed.(*v1alpha1.Peer)
	if !ok {
		return nil
	}
	certificates, err := pki.ParseBundle(peer.Spec.CABundle)
	if err != nil {
		return nil
	}
	var peers v1alpha1.PeerList
	if err := r.client.List(ctx, &peers, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Peers cannot be listed")
		return nil
	}
	var requests []reconcile.Request
	for _, name := range sharers(peer, fingerprints(certificates), peers.Items) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}
