// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/usage"
)

// gather reads everything that a decision needs.
func (r *Reconciler) gather(ctx context.Context, transfer *v1alpha1.Transfer) (plan.TransferFacts, error) {
	facts := plan.TransferFacts{Now: r.now(), NewRunID: newRunID(), CertificateLifetime: r.Attempts.CertificateLifetime()}
	for _, step := range []func(context.Context, *v1alpha1.Transfer, *plan.TransferFacts) error{
		r.gatherWhole, r.gatherLegs, r.gatherPeer, r.gatherLocal, r.gatherStores, r.gatherClaim, r.gatherNamespace,
		r.gatherOthers, r.gatherCycle, r.gatherPolicies, r.gatherPlacement,
		r.gatherQuotas, r.gatherAttempt, r.gatherStaging, r.gatherHooks, r.gatherTemplate,
		r.gatherHistory,
	} {
		if err := step(ctx, transfer, &facts); err != nil {
			return facts, err
		}
	}
	return facts, nil
}

func (r *Reconciler) gatherPeer(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if plan.IsLocal(transfer) {
		return nil
	}
	peer := &v1alpha1.Peer{}
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: transfer.Spec.Destination.Peer}, peer)
	if found {
		facts.Peer = peer
	}
	return err
}

func (r *Reconciler) gatherClaim(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if transfer.Spec.Source.ObjectStore != nil {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: transfer.Namespace, Name: transfer.Spec.Source.PersistentVolumeClaim.ClaimName}
	found, err := lookup.Get(ctx, r.Client, key, claim)
	if err == nil && !found && facts.Whole != nil && plan.KeptCopy(facts.Whole) != "" {
		// Without its source a leg still reads the copy, which is of the same mode.
		key.Name = plan.KeptCopy(facts.Whole)
		found, err = lookup.Get(ctx, r.Client, key, claim)
	}
	if found {
		facts.Claim = claim
	}
	return err
}

func (r *Reconciler) gatherNamespace(
	ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts,
) error {
	namespace, err := lookup.Namespace(ctx, r.Client, transfer.Namespace)
	facts.PrivilegeAllowed = agentpod.AllowsPrivilege(namespace)
	return err
}

func (r *Reconciler) gatherOthers(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if plan.HasLegs(transfer) {
		return nil
	}
	others := &v1alpha1.TransferList{}
	err := r.Client.List(ctx, others, client.InNamespace(transfer.Namespace), client.MatchingFields{
		index.Destination: plan.DestinationKey(transfer),
	},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing Transfers into %s: %w", plan.DestinationKey(transfer), err)
	}
	facts.Others = others.Items
	return nil
}

func (r *Reconciler) gatherPolicies(
	ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts,
) (err error) {
	facts.Policies, err = lookup.Policies(ctx, r.Client, transfer.Namespace, transfer.Spec.Compression.Policy())
	if err != nil {
		return err
	}
	tariffs := &v1alpha1.TariffList{}
	if err := r.Client.List(ctx, tariffs, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Tariffs: %w", err)
	}
	facts.Tariffs = tariffs.Items
	return nil
}

func (r *Reconciler) gatherPlacement(
	ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts,
) error {
	if !attempt.NeedsPlacement(transfer.Status.Run, transfer.Status.Placement) {
		return nil
	}
	reads := cmp.Or(facts.Whole, transfer)
	claim := plan.StagedClaim(reads)
	switch {
	case plan.Stages(reads) && reads.Status.Staged == nil:
		claim = "" // where the copy will be, nobody knows
	case transfer.Spec.Source.ObjectStore != nil:
		claim = transfer.Spec.Destination.PersistentVolumeClaim.ClaimName
	}
	var err error
	facts.Placement, err = r.Topology.Facts(ctx, transfer.Namespace, claim)
	return err
}

// gatherStaging looks at the copies of the source.
func (r *Reconciler) gatherStaging(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if !plan.NeedsStaging(transfer) {
		return nil
	}
	var err error
	facts.Staging, err = r.staging.Look(ctx, transfer)
	return err
}

// gatherHistory looks at the snapshots of the destination.
func (r *Reconciler) gatherHistory(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	needs := plan.NeedsHistory(transfer)
	if needs && !plan.IsLocal(transfer) {
		return r.askForHistory(ctx, transfer, facts)
	}
	if !needs && !plan.WatchesHistory(transfer) || !r.looks.begin(transfer.UID, facts.Now, needs) {
		return nil
	}
	seen, err := r.staging.LookAtHistory(ctx, plan.TransferHistory(transfer))
	if err != nil && !needs {
		// A run need not wait for snapshots that are at rest, and whoever needs them is told.
		log.FromContext(ctx).V(1).Info("Snapshots of the destination cannot be looked at", "error", err.Error())
		return nil
	}
	facts.History = seen
	return err
}

// gatherAttempt looks at the attempt that status names, and at what its agent said.
func (r *Reconciler) gatherAttempt(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	run := transfer.Status.Run
	ended := run == nil || run.CompletionTime != nil || run.NextAttemptTime != nil
	owner := transfer
	if !plan.HasPod(transfer) {
		owner, ended = facts.Whole, ended || !plan.Sends(facts.Whole, transfer)
	}
	if ended {
		r.Reports.Forget(client.ObjectKeyFromObject(transfer))
	}
	cleared := transfer.Status.Phase == v1alpha1.TransferComplete || transfer.Status.Phase == v1alpha1.TransferPaused
	if run == nil || ended && (!cleared || !plan.HasPod(transfer)) {
		return nil
	}
	var err error
	facts.Job, facts.Pod, err = r.Attempts.Find(ctx, owner, attemptName(owner))
	if err != nil || ended {
		return err
	}
	if plan.Pausing(transfer) {
		if facts.PodsLeft, err = r.Attempts.PodsLeft(ctx, transfer, v1alpha1.TransferLabel); err != nil {
			return err
		}
	}
	if facts.Pod != nil && facts.Pod.Spec.NodeName != "" {
		cluster, err := r.Topology.Cluster(ctx)
		if err != nil {
			return err
		}
		facts.NodeLabels = cluster.Labels(facts.Pod.Spec.NodeName)
		facts.Network = cluster.Network(facts.Pod.Spec.NodeName)
		facts.Limits = usage.Limits{
			SendCores:    cluster.Cores(facts.Pod.Spec.NodeName),
			ReceiveCores: cluster.Cores(plan.ReceivingNode(transfer, facts.Local.Deliveries)),
		}
	}
	if plan.HasLegs(transfer) {
		return nil // its agent reports for each leg
	}
	heard := agentjob.Listen(
		r.Reports, client.ObjectKeyFromObject(transfer), facts.Job, facts.Pod, pki.SendServerName(string(transfer.UID)),
	)
	facts.Report, facts.Early, facts.Silent = heard.Report, heard.Early, heard.Silent
	if sent := heard.Report.GetCompression(); heard.Report != nil {
		facts.Samples = r.tracker.Add(
			transfer.UID, attemptName(transfer), r.Clock.Now().Add(-heard.Age), sent.GetUncompressedBytes(),
		)
	}
	return nil
}
