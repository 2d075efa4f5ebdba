// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// open looks again and again at what is there, does what decide says and tells the sender, until there is an answer.
func (s *service) open(
	from caller, in *wirev1.OpenRequest, stream grpc.ServerStreamingServer[wirev1.OpenResponse],
) error {
	r, err := newRequest(from, in)
	if err != nil {
		return err
	}
	done, err := s.limits.open(from.peer, tenantOf(from.identity))
	if err != nil {
		return err
	}
	defer done()
	// Only here, not with every stream: a caller that sends nothing keeps its connection from nobody.
	defer connectionOf(stream.Context()).conn.Use()()
	waiting := s.metrics.opens.WithLabelValues(from.peer)
	waiting.Inc()
	defer waiting.Dec()

	ctx := stream.Context()
	changed, leave := s.waiters.join(plan.SenderHash(r.peer, r.transfer.Namespace, r.transfer.Name))
	defer leave()
	tick := time.NewTicker(s.options.PollInterval)
	defer tick.Stop()
	seen, told := false, ""
	for {
		next, err := s.advance(ctx, r, seen)
		switch {
		case err != nil:
			return err
		case next.refuse != nil:
			return next.refuse
		case next.ready != "":
			s.log.V(1).Info("Run is ready", "peer", r.peer, "transfer", r.transfer, "serverName", next.ready)
			return stream.Send(
				&wirev1.OpenResponse{State: &wirev1.OpenResponse_Ready{Ready: &wirev1.OpenReady{ServerName: next.ready}}},
			)
		case next.pending != told:
			told = next.pending
			pending := &wirev1.OpenResponse{State: &wirev1.OpenResponse_Pending{Pending: &wirev1.OpenPending{Message: told}}}
			if err := stream.Send(pending); err != nil {
				return err
			}
		}
		seen = seen || next.present || next.create
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.stopping.Done():
			return unavailable("this gateway is being stopped; trying again reaches another")
		}
	}
}

// advance does the next step. What is in the cache may be old, so before anything is changed the API server is asked.
func (s *service) advance(ctx context.Context, r request, seen bool) (step, error) {
	now, err := s.view(ctx, s.cached, r, seen)
	if err != nil {
		return step{}, err
	}
	next := decide(r, now)
	if !next.acts() {
		return next, nil
	}
	if now, err = s.view(ctx, s.currentIn(r.namespace), r, seen); err != nil {
		return step{}, err
	}
	next = decide(r, now)
	for i := range next.remove {
		if err := s.remove(ctx, &next.remove[i], "A newer attempt takes its place"); err != nil {
			s.log.Error(err, "Delivery cannot be deleted")
			return step{}, unavailable("the gateway cannot reach its API server now")
		}
	}
	if next.create {
		return next, s.create(ctx, r)
	}
	return next, nil
}

// view collects what decide needs. Grants come from the cache: they change rarely, and Deliveries that no grant allows
// any more are ended by the manager.
func (s *service) view(ctx context.Context, attempts attemptsOf, r request, seen bool) (view, error) {
	v := view{now: s.options.Clock.Now(), limit: s.options.DeliveriesPerNamespace, seen: seen}
	var grants v1alpha1.PeerGrantList
	err := s.options.Client.List(ctx, &grants, client.InNamespace(r.namespace), client.UnsafeDisableDeepCopy)
	if err == nil {
		v.grants = grants.Items
		v.attempts, err = attempts(ctx, r.peer, r.transfer.Namespace, r.transfer.Name)
	}
	here := func(d v1alpha1.Delivery) bool { return d.Namespace == r.namespace }
	if err == nil && !slices.ContainsFunc(v.attempts, here) {
		var neighbours v1alpha1.DeliveryList
		err = s.options.Client.List(
			ctx, &neighbours, client.InNamespace(r.namespace), client.MatchingLabels{plan.PeerLabel: r.peer},
			client.UnsafeDisableDeepCopy,
		)
		v.neighbours = neighbours.Items
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error(err, "PeerGrants and Deliveries cannot be listed")
		return view{}, unavailable("the gateway cannot reach its API server now")
	}
	return v, status.FromContextError(ctx.Err()).Err()
}

// attemptsOf returns the Deliveries of a Transfer. They must not be changed.
type attemptsOf func(ctx context.Context, peer, namespace, name string) ([]v1alpha1.Delivery, error)

// cached are those in the cache.
func (s *service) cached(ctx context.Context, peer, namespace, name string) ([]v1alpha1.Delivery, error) {
	by := client.MatchingFields{SenderIndex: plan.SenderHash(peer, namespace, name)}
	return attempts(ctx, s.options.Client, peer, namespace, name, by, client.UnsafeDisableDeepCopy)
}

// currentIn returns those that the API server has now in a namespace, and those in other namespaces from the cache: a
// list of all namespaces would cost the API server as much as there are Deliveries. One elsewhere is only ever deleted,
// by its UID, and not waited for; if the cache does not have it yet, it is deleted when the cache does.
func (s *service) currentIn(where string) attemptsOf {
	return func(ctx context.Context, peer, namespace, name string) ([]v1alpha1.Delivery, error) {
		here, err := attempts(
			ctx, s.options.Reader, peer, namespace, name, client.InNamespace(where), senderLabel(peer, namespace, name),
		)
		if err != nil {
			return nil, err
		}
		all, err := s.cached(ctx, peer, namespace, name)
		if err != nil {
			return nil, err
		}
		return append(here, slices.DeleteFunc(all, func(d v1alpha1.Delivery) bool { return d.Namespace == where })...), nil
	}
}

// current are those that the API server has now in all namespaces.
func (s *service) current(ctx context.Context, peer, namespace, name string) ([]v1alpha1.Delivery, error) {
	return attempts(ctx, s.options.Reader, peer, namespace, name, senderLabel(peer, namespace, name))
}

func senderLabel(peer, namespace, name string) client.MatchingLabels {
	return client.MatchingLabels{plan.SenderLabel: plan.SenderHash(peer, namespace, name)}
}

func attempts(
	ctx context.Context, reader client.Reader, peer, namespace, name string, by ...client.ListOption,
) ([]v1alpha1.Delivery, error) {
	var found v1alpha1.DeliveryList
	if err := reader.List(ctx, &found, by...); err != nil {
		return nil, fmt.Errorf("listing the Deliveries of Transfer %s/%s of peer %s: %w", namespace, name, peer, err)
	}
	return ofTransfer(found.Items, peer, namespace, name), nil
}

func (s *service) create(ctx context.Context, r request) error {
	delivery := newDelivery(r)
	err := s.options.Client.Create(ctx, delivery)
	switch {
	case err == nil:
		s.log.Info("Run admitted", "peer", r.peer, "transfer", r.transfer, "delivery", keyOf(delivery))
		return nil
	case apierrors.IsAlreadyExists(err): // another gateway, or a stream that broke, was faster
		return nil
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return refuse(codes.NotFound, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND,
			"namespace %s of the receiving cluster is being deleted; create it again there, with its claim and PeerGrant",
			r.namespace)
	case apierrors.IsInvalid(err):
		s.log.Error(err, "Delivery is invalid", "delivery", keyOf(delivery))
		return invalid("the receiving cluster's API server does not accept the run; its gateway's log says why")
	default:
		s.log.Error(err, "Delivery cannot be created", "delivery", keyOf(delivery))
		return unavailable("the receiving cluster's API server does not take a Delivery now; its gateway's log says why")
	}
}

// remove deletes a Delivery, which its finalizer keeps until its agent is gone.
func (s *service) remove(ctx context.Context, delivery *v1alpha1.Delivery, why string) error {
	err := s.options.Client.Delete(ctx, delivery, client.Preconditions{UID: &delivery.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or gone and made again
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting Delivery %s: %w", keyOf(delivery), err)
	}
	s.log.Info("Delivery deleted", "delivery", keyOf(delivery), "cause", why)
	return nil
}
