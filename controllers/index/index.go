// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index has the manager's cache find objects by what questions are about, so that none of them costs more in a
// large cluster than in a small one.
package index

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/trialplan"
)

// Fields for client.MatchingFields. Those of Transfers come first.
const (
	// UID of a CompressionTrial, ObjectStore, Queue or HTTPEndpoint, which is in a label of its pods.
	UID = "metadata.uid"
	// Waits is Yes for a Transfer, CompressionTrial, Queue or HTTPEndpoint that a change of nodes may help: those that
	// have an agent without a node.
	Waits = "lighterage.waits"
	// Holds is Yes for a Transfer that holds something of what DataQuotas limit.
	Holds = "lighterage.holds"
	// Policy is the policy that a Transfer which is not Complete, a Queue or an HTTPEndpoint names. It is empty for the
	// default one, and also for what a LocalCompressionPolicy applies to or may: the default one has the prices.
	Policy = "lighterage.policy"
	// PolicyInForce is what InForce makes of the policy that applies to a Transfer, a Queue or an HTTPEndpoint, if one
	// does.
	PolicyInForce = "lighterage.policyInForce"
	// Destination is plan.DestinationKey.
	Destination = "lighterage.destination"
	// Peer of a Transfer or a Delivery, empty for this cluster, or of a Queue that sends to one.
	Peer = "lighterage.peer"
	// SendsHere is Yes for a Queue with a channel to one of its namespace.
	SendsHere = "lighterage.sendsHere"
	// SourceClaim is the claim of this cluster that a Transfer reads.
	SourceClaim = "lighterage.sourceClaim"
	// WrittenClaim is the claim that a Transfer occupies by plan.OccupiesClaim, or into which a Delivery is that has not
	// ended, or whose snapshot is not taken.
	WrittenClaim = "lighterage.writtenClaim"
	// GrantedBy is the other namespace of this cluster that a Transfer writes to.
	GrantedBy = "lighterage.grantedBy"
	// TransferSet is the set whose label a Transfer has.
	TransferSet = "lighterage.transferSet"
	// Sender is plan.SenderHash of the Transfer that a Delivery is of.
	Sender = "lighterage.sender"
	// ArchiveClaim is a claim that a Queue names.
	ArchiveClaim = "lighterage.archiveClaim"
	// SetName is the name of a TransferSet, in whatever namespace.
	SetName = "lighterage.setName"
	// Backend is the Service that an HTTPEndpoint names.
	Backend = "spec.backend.service.name"
	// Owner is the UID of the Transfer, Delivery, CompressionTrial, ObjectStore, Queue or HTTPEndpoint whose agent a pod
	// or a Job is, by their labels.
	Owner = "lighterage.owner"
	// Node is the name of that which a pod is on, or that its DaemonSet has made it for.
	Node = "lighterage.node"
	// IP is the address of a pod.
	IP = "lighterage.ip"
	// HoldsSlot is Yes for an agent's pod that has a slot of an accelerator or waits for one.
	HoldsSlot = "lighterage.holdsSlot"
	// BoundClaim is the namespace/name of the claim that a PersistentVolume is bound to.
	BoundClaim = "lighterage.boundClaim"
	// Volume is the PersistentVolume that a VolumeAttachment is of.
	Volume = "lighterage.volume"

	// Yes is the value of fields that have one.
	Yes = "yes"
)

// field by which objects of a kind are found.
type field struct {
	object client.Object
	name   string
	values client.IndexerFunc
}

// of makes a field of the values of a kind.
func of[T any, P interface {
	*T
	client.Object
}](name string, values func(P) []string) field {
	return field{P(new(T)), name, func(object client.Object) []string {
		if typed, ok := object.(P); ok {
			return values(typed)
		}
		return nil
	}}
}

// uid makes the field UID of a kind.
func uid[T any, P interface {
	*T
	client.Object
}]() field {
	return of(UID, func(object P) []string { return []string{string(object.GetUID())} })
}

func when(condition bool, value string) []string {
	if !condition {
		return nil
	}
	return []string{value}
}

// fields are all that there are.
func fields() []field {
	return []field{
		uid[v1alpha1.CompressionTrial](), uid[v1alpha1.Queue](), uid[v1alpha1.HTTPEndpoint](), uid[v1alpha1.ObjectStore](),

		of(Waits, func(t *v1alpha1.Transfer) []string { return when(plan.TransferWaitsForNode(t), Yes) }),
		of(Waits, func(t *v1alpha1.CompressionTrial) []string { return when(trialplan.Waits(t), Yes) }),
		of(Waits, func(q *v1alpha1.Queue) []string { return when(!ready(q.Status.Conditions), Yes) }),
		of(Waits, func(e *v1alpha1.HTTPEndpoint) []string { return when(!ready(e.Status.Conditions), Yes) }),

		of(Holds, func(t *v1alpha1.Transfer) []string {
			_, holds := quota.TransferHolds(t)
			return when(holds, Yes)
		}),

		of(Policy, func(t *v1alpha1.Transfer) []string {
			if t.Status.Phase == v1alpha1.TransferComplete {
				return nil
			}
			return policies(t.Spec.Compression.Policy(), t.Status.Policy)
		}),
		of(Policy, func(q *v1alpha1.Queue) []string { return policies(q.Spec.Compression.Policy(), q.Status.Policy) }),
		of(Policy, func(e *v1alpha1.HTTPEndpoint) []string {
			return policies(e.Spec.Compression.Policy(), e.Status.Policy)
		}),
		of(PolicyInForce, func(t *v1alpha1.Transfer) []string { return inForce(t.Status.Policy) }),
		of(PolicyInForce, func(q *v1alpha1.Queue) []string { return inForce(q.Status.Policy) }),
		of(PolicyInForce, func(e *v1alpha1.HTTPEndpoint) []string { return inForce(e.Status.Policy) }),

		of(Destination, func(t *v1alpha1.Transfer) []string { return []string{plan.DestinationKey(t)} }),
		of(Peer, func(t *v1alpha1.Transfer) []string {
			return []string{cmp.Or(t.Spec.Source.Peer, t.Spec.Destination.Peer)}
		}),
		of(Peer, func(d *v1alpha1.Delivery) []string { return []string{d.Spec.Peer} }),
		of(Peer, func(q *v1alpha1.Queue) []string { return q.Spec.SendingPeers() }),
		of(SendsHere, func(q *v1alpha1.Queue) []string {
			return when(slices.ContainsFunc(q.Spec.SendingChannels(), func(c v1alpha1.QueueChannel) bool {
				return c.Peer == ""
			}), Yes)
		}),
		of(SourceClaim, func(t *v1alpha1.Transfer) []string {
			return when(t.Spec.Source.ObjectStore == nil && !plan.Pulls(t), t.Spec.Source.PersistentVolumeClaim.ClaimName)
		}),
		of(WrittenClaim, func(t *v1alpha1.Transfer) []string {
			return when(plan.OccupiesClaim(t), t.Spec.Destination.PersistentVolumeClaim.ClaimName)
		}),
		of(WrittenClaim, func(d *v1alpha1.Delivery) []string {
			return when(!plan.DeliveryEnded(d) || plan.DeliveryTakes(d), d.Spec.Destination.PersistentVolumeClaim.ClaimName)
		}),
		of(GrantedBy, func(t *v1alpha1.Transfer) []string {
			to := plan.DestinationNamespace(t)
			return when(plan.IsLocal(t) && to != t.Namespace, to)
		}),
		of(SetName, func(s *v1alpha1.TransferSet) []string { return []string{s.Name} }),
		of(TransferSet, func(t *v1alpha1.Transfer) []string {
			set := t.Labels[v1alpha1.TransferSetLabel]
			return when(set != "", set)
		}),
		of(Sender, func(d *v1alpha1.Delivery) []string {
			transfer := d.Spec.Transfer
			return []string{plan.SenderHash(d.Spec.Peer, transfer.Namespace, transfer.Name)}
		}),
		of(ArchiveClaim, archiveClaims),
		of(Backend, func(e *v1alpha1.HTTPEndpoint) []string {
			if e.Spec.Backend.Service == nil {
				return nil
			}
			return []string{e.Spec.Backend.Service.Name}
		}),

		of(Owner, func(p *corev1.Pod) []string { return owners(p.Labels) }),
		of(Owner, func(j *batchv1.Job) []string { return owners(j.Labels) }),
		of(Node, func(p *corev1.Pod) []string { return when(NodeOf(p) != "", NodeOf(p)) }),
		of(IP, func(p *corev1.Pod) []string { return when(p.Status.PodIP != "", p.Status.PodIP) }),
		of(HoldsSlot, func(p *corev1.Pod) []string { return when(agentpod.SlotsOf(p) > 0, Yes) }),
		of(BoundClaim, func(v *corev1.PersistentVolume) []string {
			if v.Status.Phase != corev1.VolumeBound || v.Spec.ClaimRef == nil {
				return nil
			}
			return []string{v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name}
		}),
		of(Volume, func(a *storagev1.VolumeAttachment) []string {
			if a.Spec.Source.PersistentVolumeName == nil {
				return nil
			}
			return []string{*a.Spec.Source.PersistentVolumeName}
		}),
	}
}

// Setup adds all fields to the cache of a manager that has not been started.
func Setup(ctx context.Context, indexer client.FieldIndexer) error {
	for _, f := range fields() {
		if err := indexer.IndexField(ctx, f.object, f.name, f.values); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", f.object, f.name, err)
		}
	}
	return nil
}
