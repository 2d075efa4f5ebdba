// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
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
	view, err := r.line.Told(ctx, transfer.Namespace, facts.Quota.Quotas)
	facts.Quota.Share = view.ShareOrKeep(string(transfer.UID), shareOf(transfer))
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
		Shared: r.shared,
		Pods: &line.Pods[*v1alpha1.Transfer]{
			Label: v1alpha1.TransferLabel, Job: jobOf, Stray: stray,
			Abandoned: func(pod types.UID) bool { return r.Attempts.Abandoned(pod, r.Clock.Now()) },
		},
		Shown: func(t *v1alpha1.Transfer) (place, waiting int32) {
			if t.Status.Queued == nil {
				return 0, 0
			}
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
			facts.Quota.Share = shareOf(transfer)
			decision = plan.DecideTransfer(transfer, facts, r.Image)
			decision.RequeueAfter = sooner(decision.RequeueAfter, wait)
			return decision, written, nil
		}
		var view quota.View
		view, written, err = r.line.Current(ctx, transfer, facts.Quota.Quotas)
		facts.Quota.Share = view.ShareOrKeep(string(transfer.UID), shareOf(transfer))
	default:
		return decision, written, nil
	}
	if err != nil {
		return decision, written, err
	}
	return plan.DecideTransfer(transfer, facts, r.Image), written, nil
}

// jobOf is the Job of a Transfer that holds something, or of one whose legs do.
func jobOf(transfer *v1alpha1.Transfer) string {
	if _, holds := quota.TransferHolds(transfer); holds || plan.HasLegs(transfer) {
		return attemptName(transfer)
	}
	return ""
}

// stray is what a pod holds whose attempt is over.
func stray(pod client.ObjectKey) quota.Held {
	return quota.Held{
		ID: pod.String(), Namespace: pod.Namespace, Peer: quota.Stray, Amounts: quota.Amounts{quota.RunningTransfers: 1},
	}
}

// shareOf is the share that a Transfer's run has; 0: none.
func shareOf(transfer *v1alpha1.Transfer) int64 {
	if transfer.Status.Run == nil || transfer.Status.Run.BandwidthShare == nil {
		return 0
	}
	return transfer.Status.Run.BandwidthShare.Value()
}
