// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
)

// gather reads everything that a decision needs.
func (r *Reconciler) gather(ctx context.Context, transfer *v1alpha1.Transfer) (plan.TransferFacts, error) {
	facts := plan.TransferFacts{Now: r.now(), NewRunID: newRunID(), CertificateLifetime: r.Attempts.CertificateLifetime()}
	for _, step := range []func(context.Context, *v1alpha1.Transfer, *plan.TransferFacts) error{
		r.gatherPeer, r.gatherLocal, r.gatherClaim, r.gatherNamespace, r.gatherOthers, r.gatherPolicies, r.gatherPlacement, r.gatherQuotas, r.gatherAttempt,
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
	claim := &metav1.PartialObjectMetadata{}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	key := client.ObjectKey{Namespace: transfer.Namespace, Name: transfer.Spec.Source.PersistentVolumeClaim.ClaimName}
	found, err := lookup.Get(ctx, r.Client, key, claim)
	if found {
		facts.Claim = claim
	}
	return err
}

func (r *Reconciler) gatherNamespace(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: transfer.Namespace}, namespace)
	facts.PrivilegeAllowed = found && namespace.Annotations[v1alpha1.AllowPrivilegedAnnotation] == "true"
	return err
}

func (r *Reconciler) gatherOthers(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	others := &v1alpha1.TransferList{}
	err := r.Client.List(ctx, others, client.InNamespace(transfer.Namespace), client.MatchingFields{destinationIndex: plan.DestinationKey(transfer)})
	if err != nil {
		return fmt.Errorf("listing Transfers into %s: %w", plan.DestinationKey(transfer), err)
	}
	facts.Others = others.Items
	return nil
}

func (r *Reconciler) gatherPolicies(ctx context.Context, _ *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	policies := &v1alpha1.CompressionPolicyList{}
	if err := r.Client.List(ctx, policies); err != nil {
		return fmt.Errorf("listing CompressionPolicies: %w", err)
	}
	facts.Policies = policies.Items
	return nil
}

func (r *Reconciler) gatherPlacement(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if !plan.NeedsPlacement(transfer.Status.Run, transfer.Status.Placement) {
		return nil
	}
	var err error
	facts.Placement, err = topology.Facts(ctx, r.Client, transfer.Namespace, transfer.Spec.Source.PersistentVolumeClaim.ClaimName)
	return err
}

// gatherAttempt looks at the attempt that status names, and asks its agent.
func (r *Reconciler) gatherAttempt(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	run := transfer.Status.Run
	if run == nil || run.CompletionTime != nil || run.NextAttemptTime != nil {
		return nil
	}
	var err error
	if facts.Job, facts.Pod, err = r.Attempts.Find(ctx, transfer, attemptName(transfer)); err != nil {
		return err
	}
	if facts.Pod != nil && facts.Pod.Spec.NodeName != "" {
		if facts.NetworkSecondsPerGiB, err = r.networkSeconds(ctx, facts.Pod.Spec.NodeName); err != nil {
			return err
		}
	}
	ip, ok := plan.AgentToAsk(facts.Job, facts.Pod)
	if !ok {
		return nil
	}
	target := agentclient.Target{
		Address:    net.JoinHostPort(ip, strconv.Itoa(plan.ControlPort)),
		ServerName: pki.SendServerName(string(transfer.UID)),
	}
	report, err := r.Agents.Report(ctx, target)
	if err != nil {
		// An agent that has just started or just ended does not answer; the status says so when it lasts.
		facts.Silence = r.tracker.Silence(transfer.UID, attemptName(transfer), r.Clock.Now())
		log.FromContext(ctx).V(1).Info("Agent does not answer", "pod", facts.Pod.Name, "reason", err.Error())
		return nil
	}
	facts.Report = report
	facts.Samples = r.tracker.Add(transfer.UID, attemptName(transfer), r.Clock.Now(), report.GetCompression().GetUncompressedBytes())
	return nil
}

// networkSeconds is the node's measured coefficient, nil when there is none.
func (r *Reconciler) networkSeconds(ctx context.Context, node string) (*float64, error) {
	profile := &v1alpha1.NodeProfile{}
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: node}, profile)
	if !found || err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseFloat(profile.Status.NetworkCPUSecondsPerGiB, 64)
	if err != nil || seconds < 0 || seconds > 1e6 {
		return nil, nil //nolint:nilerr // a profile that says nothing usable is one that does not know
	}
	return &seconds, nil
}
