// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
)

// gather reads everything that a decision needs.
func (r *Reconciler) gather(ctx context.Context, delivery *v1alpha1.Delivery) (plan.DeliveryFacts, error) {
	facts := plan.DeliveryFacts{
		Now: r.Clock.Now().Truncate(time.Second), Retention: r.Retention, CertificateLifetime: r.Attempts.CertificateLifetime(),
	}
	if plan.DeliveryEnded(delivery) {
		return facts, nil
	}
	var found bool
	var err error
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
		if facts.Refusal, err = r.refusal(ctx, delivery, facts.Now); err != nil {
			return facts, err
		}
	}
	claim := &metav1.PartialObjectMetadata{}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	key := client.ObjectKey{Namespace: delivery.Namespace, Name: delivery.Spec.Destination.PersistentVolumeClaim.ClaimName}
	if found, err = lookup.Get(ctx, r.Client, key, claim); err != nil {
		return facts, err
	}
	if found {
		facts.Claim = claim
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if found, err = lookup.Get(ctx, r.Client, client.ObjectKey{Name: delivery.Namespace}, namespace); err != nil {
		return facts, err
	}
	facts.PrivilegeAllowed = found && namespace.Annotations[v1alpha1.AllowPrivilegedAnnotation] == "true"
	others := &v1alpha1.DeliveryList{}
	if err := r.Client.List(ctx, others, client.InNamespace(delivery.Namespace)); err != nil {
		return facts, fmt.Errorf("listing Deliveries in %s: %w", delivery.Namespace, err)
	}
	facts.Others = others.Items
	if plan.NeedsPlacement(delivery.Status.Run, delivery.Status.Placement) {
		if facts.Placement, err = topology.Facts(ctx, r.Client, key.Namespace, key.Name); err != nil {
			return facts, err
		}
	}
	transfers := &v1alpha1.TransferList{}
	if err := r.Client.List(ctx, transfers, client.InNamespace(delivery.Namespace)); err != nil {
		return facts, fmt.Errorf("listing Transfers in %s: %w", delivery.Namespace, err)
	}
	facts.Transfers = transfers.Items
	if facts.Quota.Quotas, err = r.quotas(ctx, delivery.Namespace); err != nil {
		return facts, err
	}
	return facts, r.gatherAgent(ctx, delivery, &facts)
}

// refusal says why no PeerGrant allows a Delivery; empty when one does. A grant that the cache has not seen yet counts.
func (r *Reconciler) refusal(ctx context.Context, delivery *v1alpha1.Delivery, now time.Time) (string, error) {
	verdict, err := peergrant.Judge(ctx, r.Client, delivery, now)
	if err == nil && !verdict.Allowed {
		verdict, err = peergrant.Judge(ctx, r.Reader, delivery, now)
	}
	return verdict.Refusal, err
}

// gatherAgent looks at the Job and its pod, and asks the agent.
func (r *Reconciler) gatherAgent(ctx context.Context, delivery *v1alpha1.Delivery, facts *plan.DeliveryFacts) error {
	var err error
	if facts.Job, facts.Pod, err = r.Attempts.Find(ctx, delivery, delivery.Name); err != nil {
		return err
	}
	ip, ok := plan.AgentToAsk(facts.Job, facts.Pod)
	if !ok {
		return nil
	}
	target := agentclient.Target{
		Address:    net.JoinHostPort(ip, strconv.Itoa(plan.ControlPort)),
		ServerName: pki.ReceiveServerName(string(delivery.UID)),
	}
	report, err := r.Agents.Report(ctx, target)
	if err != nil {
		// An agent that has just started or just ended does not answer; the status says so when it lasts.
		facts.Silence = r.tracker.Silence(delivery.UID, delivery.Name, r.Clock.Now())
		log.FromContext(ctx).V(1).Info("Agent does not answer", "pod", facts.Pod.Name, "reason", err.Error())
		return nil
	}
	facts.Report = report
	progress := report.GetProgress()
	arrived := progress.GetBytes() - min(progress.GetBytes(), progress.GetUnchangedBytes())
	facts.Samples = r.tracker.Add(delivery.UID, delivery.Name, r.Clock.Now(), arrived)
	return nil
}
