// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"math"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// What objects hold, want and wait for is read from what the operator writes, their statuses, and from what nobody can
// change. Neither a spec nor an annotation takes or frees anything.

// TransferHolds reports what a Transfer holds: from the status that names an attempt, which is written before anything
// of it is made, until the run ends. A run holds nothing between two attempts, unless the next one comes by itself
// after its back-off, and nothing while it is queued.
func TransferHolds(transfer *v1alpha1.Transfer) (Held, bool) {
	run := transfer.Status.Run
	if run == nil || run.CompletionTime != nil || transfer.Status.Queued != nil || len(transfer.Spec.Destinations) > 0 ||
		transfer.Spec.Source.Peer != "" {
		return Held{}, false // of several destinations each has a Transfer that holds, and of a pull the other cluster
	}
	if run.NextAttemptTime != nil && !reasonIs(transfer.Status.Conditions, v1alpha1.ReasonRetrying) {
		return Held{}, false
	}
	held := Held{
		ID: string(transfer.UID), Namespace: transfer.Namespace, Peer: transfer.Spec.Destination.Peer,
		Amounts: Amounts{RunningTransfers: 1},
	}
	if run.Route != v1alpha1.RoutePod {
		granted := limitOf(run.BandwidthLimit)
		held.Amounts[Bandwidth] = granted
		held.Most = min(granted, limitOf(run.WindowLimit)) // others use what a window leaves
		held.Amounts[Share] = min(granted, limitOf(run.BandwidthShare))
	}
	return held, true
}

// TransferWaits reports whether a Transfer waits to be admitted, and what it asks for. One that waits for a window or for
// its price asks for nothing meanwhile.
func TransferWaits(transfer *v1alpha1.Transfer) (Request, bool) {
	queued, of := transfer.Status.Queued, transfer.Status.Conditions
	if queued == nil || transfer.DeletionTimestamp != nil || transfer.Spec.Suspend || transfer.Spec.Pause ||
		reasonIs(of, v1alpha1.ReasonOutsideWindow) || reasonIs(of, v1alpha1.ReasonWaitingForPrice) {
		return Request{}, false
	}
	return TransferRequest(transfer, queued.Route), true
}

// TransferRequest is what a Transfer asks for, for a run or an attempt by that route.
func TransferRequest(transfer *v1alpha1.Transfer, route v1alpha1.Route) Request {
	request := Request{
		ID: string(transfer.UID), Namespace: transfer.Namespace, Peer: transfer.Spec.Destination.Peer,
		Created: transfer.CreationTimestamp.Time, Name: transfer.Name, Amounts: Amounts{RunningTransfers: 1},
	}
	if queued := transfer.Status.Queued; queued != nil {
		request.Since, request.Priority = queued.Time.Time, queued.Priority
	}
	if route != v1alpha1.RoutePod {
		wanted := limitOf(transfer.Spec.BandwidthLimit)
		request.Bandwidth = &wanted
	}
	return request
}

// Transfers is the view of a namespace's Transfers.
func Transfers(quotas []v1alpha1.DataQuota, transfers []v1alpha1.Transfer) View {
	return viewOf(quotas, transfers, TransferHolds, TransferWaits)
}

// DeliveryHolds reports what a Delivery holds: from the status that names its run, which is written before its agent is
// made, until that has ended.
func DeliveryHolds(delivery *v1alpha1.Delivery) (Held, bool) {
	run := delivery.Status.Run
	if run == nil || run.CompletionTime != nil {
		return Held{}, false
	}
	return Held{ID: string(delivery.UID), Namespace: delivery.Namespace, Amounts: Amounts{RunningDeliveries: 1}}, true
}

// DeliveryWaits reports whether a Delivery waits to be admitted, and what it asks for.
func DeliveryWaits(delivery *v1alpha1.Delivery) (Request, bool) {
	if delivery.Status.Run != nil || delivery.DeletionTimestamp != nil ||
		!reasonIs(delivery.Status.Conditions, v1alpha1.ReasonQuotaExceeded) {
		return Request{}, false
	}
	return DeliveryRequest(delivery), true
}

// DeliveryRequest is what a Delivery asks for. It waits since it was made: there is one for each attempt.
func DeliveryRequest(delivery *v1alpha1.Delivery) Request {
	created := delivery.CreationTimestamp.Time
	return Request{
		ID: string(delivery.UID), Namespace: delivery.Namespace, Since: created, Created: created, Name: delivery.Name,
		Amounts: Amounts{RunningDeliveries: 1},
	}
}

// Deliveries is the view of a namespace's Deliveries.
func Deliveries(quotas []v1alpha1.DataQuota, deliveries []v1alpha1.Delivery) View {
	return viewOf(quotas, deliveries, DeliveryHolds, DeliveryWaits)
}

// QueueHolds reports what a Queue holds: the storage that was admitted, until the Queue is gone.
func QueueHolds(queue *v1alpha1.Queue) (Held, bool) {
	if queue.Status.StorageSize == nil {
		return Held{}, false
	}
	stored := Amounts{QueueBytes: storage(queue, *queue.Status.StorageSize)}
	return Held{ID: string(queue.UID), Namespace: queue.Namespace, Amounts: stored}, true
}

// QueueWaits reports whether a Queue was refused the storage that it wants, and how much it wants altogether.
func QueueWaits(queue *v1alpha1.Queue) (Request, bool) {
	admitted := queue.Status.StorageSize
	if queue.DeletionTimestamp != nil || admitted != nil && admitted.Cmp(queue.Spec.Storage.Size) >= 0 ||
		!reasonIs(queue.Status.Conditions, v1alpha1.ReasonQuotaExceeded) {
		return Request{}, false
	}
	return QueueRequest(queue), true
}

// QueueRequest is all the storage that a Queue's spec asks for.
func QueueRequest(queue *v1alpha1.Queue) Request {
	created := queue.CreationTimestamp.Time
	return Request{
		ID: string(queue.UID), Namespace: queue.Namespace, Since: created, Created: created, Name: queue.Name,
		Amounts: Amounts{QueueBytes: storage(queue, queue.Spec.Storage.Size)},
	}
}

// Queues is the view of a namespace's Queues.
func Queues(quotas []v1alpha1.DataQuota, queues []v1alpha1.Queue) View {
	return viewOf(quotas, queues, QueueHolds, QueueWaits)
}

func viewOf[T any](
	quotas []v1alpha1.DataQuota, objects []T, holds func(*T) (Held, bool), waits func(*T) (Request, bool),
) View {
	view := View{Limits: LimitsOf(quotas), Weights: Weights(quotas)}
	for i := range objects {
		if held, ok := holds(&objects[i]); ok {
			view.Held = append(view.Held, held)
		}
		if request, ok := waits(&objects[i]); ok {
			view.Waiting = append(view.Waiting, request)
		}
	}
	return view
}

// storage of all members, or copies in external servers.
func storage(queue *v1alpha1.Queue, size resource.Quantity) int64 {
	each, members := max(size.Value(), 0), int64(max(queue.Spec.Replicas, 1))
	if spill := queue.Spec.Storage.Spill; spill != nil {
		each += min(max(spill.Size.Value(), 0), math.MaxInt64-each)
	}
	if each > math.MaxInt64/members {
		return math.MaxInt64 - 1 // Unlimited means something else
	}
	return each * members
}

func reasonIs(conditions []metav1.Condition, reason string) bool {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == reason
}

// limitOf is what an absent limit leaves Unlimited.
func limitOf(limit *resource.Quantity) int64 {
	if limit == nil {
		return Unlimited
	}
	return max(limit.Value(), 0)
}
