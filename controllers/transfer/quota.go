// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/quota/line"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=dataquotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=get;list;watch

// gatherQuotas looks at what limits the namespace, the Peer and the cluster.
func (r *Reconciler) gatherQuotas(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	var err error
	if facts.Quota.Quotas, err = lookup.DataQuotas(ctx, r.Client, transfer.Namespace); err != nil {
		return err
	}
	shared, err := r.shared(ctx)
	if err != nil {
		return err
	}
	facts.Quota.Shared = quota.Sharing(shared, transfer)
	if len(facts.Quota.Quotas)+len(facts.Quota.Shared) > 0 {
		if facts.Quota.Priority, err = r.priority(ctx, transfer); err != nil {
			return err
		}
	}
	if _, holds := quota.TransferHolds(transfer); !holds || !quota.ShareBandwidth(facts.Quota.Shared) {
		return nil
	}
	view, err := r.line.Cached(ctx, transfer.Namespace, facts.Quota.Quotas)
	facts.Quota.Share, _ = view.ShareOf(string(transfer.UID))
	return err
}

// shared are the limits of Peers and of the cluster.
func (r *Reconciler) shared(ctx context.Context) ([]quota.Limits, error) {
	peers := &v1alpha1.PeerList{}
	if err := r.Client.List(ctx, peers, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Peers: %w", err)
	}
	shared := make([]quota.Limits, 0, 1)
	if len(r.Limits) > 0 {
		shared = append(shared, quota.OfCluster(r.Limits))
	}
	for i := range peers.Items {
		if limits, limited := quota.OfPeer(&peers.Items[i]); limited {
			shared = append(shared, limits)
		}
	}
	return shared, nil
}

// priority is that of the PriorityClass that the agent's pod has; 0 if that does not exist.
func (r *Reconciler) priority(ctx context.Context, transfer *v1alpha1.Transfer) (int32, error) {
	if transfer.Spec.PodTemplate == nil || transfer.Spec.PodTemplate.PriorityClassName == "" {
		return 0, nil
	}
	class := &schedulingv1.PriorityClass{}
	_, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: transfer.Spec.PodTemplate.PriorityClassName}, class)
	return class.Value, err
}

// newLine is that of Transfers.
func (r *Reconciler) newLine() *line.Line[*v1alpha1.Transfer] {
	return &line.Line[*v1alpha1.Transfer]{
		Client: r.Client, Reader: r.Reader, List: transfers, Holds: quota.TransferHolds, Waits: quota.TransferWaits,
		View: r.view, Limited: client.MatchingFields{index.Limited: index.Yes}, Shared: r.shared,
		Shown: func(t *v1alpha1.Transfer) (place, waiting int32) {
			return t.Status.Queued.Place, t.Status.Queued.Waiting
		},
	}
}

// decide has package plan decide, and the limits admit what it wants started. written is to be called as line.Line says
// when the status that was decided is written, or is not going to be.
func (r *Reconciler) decide(
	ctx context.Context, transfer *v1alpha1.Transfer, facts plan.TransferFacts,
) (decision plan.TransferDecision, written func(error), err error) {
	decision, written = plan.DecideTransfer(transfer, facts, r.Image), func(error) {}
	switch {
	case decision.Ask != nil:
		var answer quota.Answer
		answer, written, err = r.line.Admit(ctx, transfer, *decision.Ask, facts.Quota.Quotas)
		facts.Quota.Answer = &answer
	case decision.Raised(transfer):
		target, _ := sender(transfer, facts)
		if wait := r.raises.wait(target, r.Clock.Now()); wait > 0 {
			facts.Quota.Share = transfer.Status.Run.BandwidthShare.Value()
			decision = plan.DecideTransfer(transfer, facts, r.Image)
			decision.RequeueAfter = sooner(decision.RequeueAfter, wait)
			return decision, written, nil
		}
		var view quota.View
		view, written, err = r.line.Current(ctx, transfer, facts.Quota.Quotas)
		facts.Quota.Share, _ = view.ShareOf(string(transfer.UID))
	default:
		return decision, written, nil
	}
	if err != nil {
		return decision, written, err
	}
	return plan.DecideTransfer(transfer, facts, r.Image), written, nil
}

// view is what a namespace's Transfers hold and wait for. Pods of attempts that are over hold something too, as long as
// they run: whoever removes a Job or a Transfer from under its pod gains nothing in the namespace.
func (r *Reconciler) view(
	ctx context.Context, reader client.Reader, namespace string, quotas []v1alpha1.DataQuota,
	options ...client.ListOption,
) (quota.View, error) {
	transfers := &v1alpha1.TransferList{}
	options = append(options, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err := reader.List(ctx, transfers, options...); err != nil {
		return quota.View{}, fmt.Errorf("listing Transfers in %s: %w", namespace, err)
	}
	view := quota.Transfers(quotas, transfers.Items)
	present := map[client.ObjectKey]bool{}
	for i := range transfers.Items {
		_, holds := quota.TransferHolds(&transfers.Items[i])
		if holds || plan.HasLegs(&transfers.Items[i]) { // whose legs hold
			key := client.ObjectKey{Namespace: transfers.Items[i].Namespace, Name: attemptName(&transfers.Items[i])}
			present[key] = true
		}
	}
	strays, err := r.Attempts.Strays(ctx, namespace, v1alpha1.TransferLabel, present, r.Clock.Now())
	for _, pod := range strays {
		view.Held = append(view.Held, quota.Held{
			ID: pod.String(), Namespace: pod.Namespace, Peer: quota.Stray,
			Amounts: quota.Amounts{quota.RunningTransfers: 1},
		})
	}
	return view, err
}
