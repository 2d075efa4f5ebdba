// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/plan"
)

// judgePulled deletes a Transfer that was made for one of another cluster when no PeerGrant allows that any more, or
// nobody asks for it. The gateway makes it again if that changes. until is when to look again; 0 for never.
func (r *Reconciler) judgePulled(
	ctx context.Context, transfer *v1alpha1.Transfer,
) (until time.Duration, ended bool, err error) {
	of, pulled := plan.PulledFor(transfer)
	switch {
	case !pulled && plan.LooksPulled(transfer):
		return 0, true, r.endPulled(ctx, transfer, v1alpha1.ReasonNotGranted,
			"its name, label, annotation and destination are not those of one Transfer of another cluster, so that no PeerGrant "+
				"allows it")
	case !pulled:
		return 0, false, nil
	}
	now := r.Clock.Now()
	until = plan.PullAbandoned(transfer, now)
	if until == 0 {
		return 0, true, r.endPulled(ctx, transfer, "Abandoned", "the other cluster has not asked for it in a day")
	}
	request, verdict := peergrant.OfPull(transfer, of), peergrant.Verdict{}
	for _, reader := range []client.Reader{r.Client, r.Reader} { // a grant that the cache lacks yet is not revoked
		grants := &v1alpha1.PeerGrantList{}
		err := reader.List(ctx, grants, client.InNamespace(transfer.Namespace), client.UnsafeDisableDeepCopy)
		if err != nil {
			return 0, false, fmt.Errorf("listing PeerGrants in %s: %w", transfer.Namespace, err)
		}
		if verdict = peergrant.Decide(grants.Items, request, now); verdict.Allowed {
			break
		}
	}
	if !verdict.Allowed {
		return 0, true, r.endPulled(ctx, transfer, v1alpha1.ReasonNotGranted, "not granted any more: "+verdict.Refusal)
	}
	if !verdict.Until.IsZero() {
		until = min(until, max(verdict.Until.Sub(now), time.Millisecond))
	}
	return until, false, nil
}

func (r *Reconciler) endPulled(ctx context.Context, transfer *v1alpha1.Transfer, reason, why string) error {
	err := r.Client.Delete(ctx, transfer, client.Preconditions{UID: &transfer.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Transfer %s, which was pulled: %w", client.ObjectKeyFromObject(transfer), err)
	}
	log.FromContext(ctx).Info("Transfer of a pull deleted", "reason", reason)
	r.Recorder.Eventf(transfer, nil, corev1.EventTypeWarning, reason, "Delete", "%s", why)
	return nil
}

// gatherCycle looks whether what another cluster pulls is pulled into here.
func (r *Reconciler) gatherCycle(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if _, pulled := plan.PulledFor(transfer); !pulled {
		return nil
	}
	source := transfer.Spec.Source.PersistentVolumeClaim
	into := &v1alpha1.TransferList{}
	err := r.Client.List(ctx, into, client.InNamespace(transfer.Namespace), client.MatchingFields{
		index.Destination: plan.LocalDestinationKey(transfer.Namespace, source.ClaimName),
	}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing Transfers into claim %s: %w", source.ClaimName, err)
	}
	for i := range into.Items {
		if other := &into.Items[i]; plan.Pulls(other) &&
			plan.Overlap(other.Spec.Destination.PersistentVolumeClaim.Path, source.Path) {
			facts.PullsIntoSource = other.Name
		}
	}
	return nil
}

// pulledBy are the Transfers of a namespace that were made for other clusters, which a PeerGrant there may be about.
func (r *Reconciler) pulledBy(ctx context.Context, grant client.Object) []reconcile.Request {
	return r.requests(ctx, nil, client.InNamespace(grant.GetNamespace()), client.HasLabels{v1alpha1.PulledByLabel})
}
