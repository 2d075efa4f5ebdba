// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// gather reads everything that a decision needs.
func (r *Reconciler) gather(ctx context.Context, delivery *v1alpha1.Delivery) (plan.DeliveryFacts, error) {
	facts := plan.DeliveryFacts{
		Now: r.Clock.Now().Truncate(time.Second), Retention: r.Retention,
		CertificateLifetime: r.Attempts.CertificateLifetime(),
	}
	var found bool
	var err error
	if plan.DeliveryEnded(delivery) {
		r.Reports.Forget(client.ObjectKeyFromObject(delivery))
		if delivery.Status.Phase == v1alpha1.DeliveryComplete {
			facts.Job, _, err = r.Attempts.Find(ctx, delivery, delivery.Name)
		}
		if err != nil {
			return facts, err
		}
		return facts, r.gatherHistory(ctx, delivery, &facts)
	}
	if delivery.Spec.Peer != "" {
		peer, name := &v1alpha1.Peer{}, client.ObjectKey{Name: delivery.Spec.Peer}
		found, err = lookup.Get(ctx, r.Client, name, peer)
		if err == nil && !found { // a failure is final, and the gateway may know of a Peer that the cache has not seen yet
			found, err = lookup.Get(ctx, r.Reader, name, peer)
		}
		if err != nil {
			return facts, err
		}
		if found {
			facts.Peer = peer
		}
	}
	if delivery.Status.Run == nil {
		verdict, err := r.judge(ctx, delivery, facts.Now)
		if err != nil {
			return facts, err
		}
		facts.Refusal = verdict.Refusal
		if err := r.gatherRivals(ctx, delivery, &facts); err != nil {
			return facts, err
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: delivery.Namespace, Name: delivery.Spec.Destination.PersistentVolumeClaim.ClaimName}
	if found, err = lookup.Get(ctx, r.Client, key, claim); err != nil {
		return facts, err
	}
	if found {
		facts.Claim = claim
	}
	if err := r.gatherTemplate(ctx, delivery, &facts); err != nil {
		return facts, err
	}
	namespace, err := lookup.Namespace(ctx, r.Client, delivery.Namespace)
	if err != nil {
		return facts, err
	}
	facts.PrivilegeAllowed = agentpod.AllowsPrivilege(namespace)
	if attempt.NeedsPlacement(delivery.Status.Run, delivery.Status.Placement) {
		if facts.Placement, err = r.Topology.Facts(ctx, key.Namespace, key.Name); err != nil {
			return facts, err
		}
	}
	if facts.Quota.Quotas, err = lookup.DataQuotas(ctx, r.Client, delivery.Namespace); err != nil {
		return facts, err
	}
	return facts, r.gatherAgent(ctx, delivery, &facts)
}

// gatherRivals looks for who else writes into the claim now.
func (r *Reconciler) gatherRivals(ctx context.Context, delivery *v1alpha1.Delivery, facts *plan.DeliveryFacts) error {
	others, transfers := &v1alpha1.DeliveryList{}, &v1alpha1.TransferList{}
	into := client.MatchingFields{index.WrittenClaim: delivery.Spec.Destination.PersistentVolumeClaim.ClaimName}
	for _, list := range []client.ObjectList{others, transfers} {
		if err := r.Client.List(
			ctx, list, client.InNamespace(delivery.Namespace), into, client.UnsafeDisableDeepCopy,
		); err != nil {
			return fmt.Errorf("listing %T in %s: %w", list, delivery.Namespace, err)
		}
	}
	facts.Others, facts.Transfers = others.Items, transfers.Items
	return nil
}

// judge returns what PeerGrants say to a Delivery. A grant that the cache has not seen yet counts.
func (r *Reconciler) judge(
	ctx context.Context, delivery *v1alpha1.Delivery, now time.Time,
) (peergrant.Verdict, error) {
	verdict, err := peergrant.Judge(ctx, r.Client, delivery, now)
	if err == nil && !verdict.Allowed {
		verdict, err = peergrant.Judge(ctx, r.Reader, delivery, now)
	}
	return verdict, err
}

// gatherAgent looks at the Job and its pod, and at what the agent said.
func (r *Reconciler) gatherAgent(ctx context.Context, delivery *v1alpha1.Delivery, facts *plan.DeliveryFacts) error {
	var err error
	if facts.Job, facts.Pod, err = r.Attempts.Find(ctx, delivery, delivery.Name); err != nil {
		return err
	}
	if facts.Pod != nil && facts.Pod.Spec.NodeName != "" {
		cluster, err := r.Topology.Cluster(ctx)
		if err != nil {
			return err
		}
		facts.NodeLabels = cluster.Labels(facts.Pod.Spec.NodeName)
		facts.Network = cluster.Network(facts.Pod.Spec.NodeName)
	}
	tariffs := &v1alpha1.TariffList{}
	if err := r.Client.List(ctx, tariffs, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Tariffs: %w", err)
	}
	facts.Tariffs = tariffs.Items
	heard := agentjob.Listen(
		r.Reports, client.ObjectKeyFromObject(delivery), facts.Job, facts.Pod, pki.ReceiveServerName(string(delivery.UID)),
	)
	facts.Report, facts.Early, facts.Silent = heard.Report, heard.Early, heard.Silent
	if progress := heard.Report.GetProgress(); heard.Report != nil {
		arrived := progress.GetBytes() - min(progress.GetBytes(), progress.GetUnchangedBytes())
		facts.Samples = r.tracker.Add(delivery.UID, delivery.Name, r.Clock.Now().Add(-heard.Age), arrived)
	}
	return nil
}
