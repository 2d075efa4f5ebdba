// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/agent/wire/queuevolume"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/policy"
)

// checkStorage is about the members' volumes, in their words. Members go on by themselves when a volume can be written
// again. Only of one that cannot be used it may be said that it could be deleted.
func checkStorage(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	for _, member := range facts.Members {
		failure := member.Report.GetStorageFailure()
		if failure == nil {
			continue
		}
		name := member.Pod.Name
		var message string
		switch failure.GetReason() {
		case wirev1.FailureReason_FAILURE_REASON_STORAGE_FULL:
			message = fmt.Sprintf("the volume of %s is full: %s; %s", name, failure.GetMessage(), fullVolumeFix(queue, member))
		case wirev1.FailureReason_FAILURE_REASON_STORAGE_FAILED:
			message = fmt.Sprintf(
				"the volume of %s cannot be used: %s; %s", name, failure.GetMessage(), volumeFix(queue, member),
			)
		default:
			message = fmt.Sprintf("%s: %s; the member uses its volume meanwhile, and tries again by itself; if this lasts, "+
				"look at the log of pod %s", name,
				failure.GetMessage(), name)
		}
		return conditions.Stalled(agentreport.FailureReason(failure.GetReason()), message)
	}
	return nil
}

// memoryFix is what to do where messages are in memory.
const memoryFix = "delete the pod; messages of type Memory are lost with the last one"

// volumeOf is the size of the volumes in which members keep messages, in bytes; ok is false where they have none.
func volumeOf(spec v1alpha1.QueueSpec) (size int64, ok bool) {
	switch spill := spec.Storage.Spill; {
	case spec.Engine.External != nil:
		return 0, false
	case spec.Storage.Type != v1alpha1.QueueStorageMemory:
		return spec.Storage.Size.Value(), true
	case spill != nil:
		return spill.Size.Value(), true
	}
	return 0, false
}

// fullVolumeFix is what makes space on a full volume.
func fullVolumeFix(queue *v1alpha1.Queue, member Member) string {
	switch spill := queue.Spec.Storage.Spill; {
	case queue.Spec.Storage.Type != v1alpha1.QueueStorageMemory:
	case spill != nil:
		return fmt.Sprintf("get messages, of which the files may take spec.storage.spill.size, %s, or make space on the "+
			"disk of node %s; the member goes on by itself then", &spill.Size, member.Pod.Spec.NodeName)
	default:
		return memoryFix
	}
	return fmt.Sprintf("make spec.storage.size, which is %s, larger, if the class of claim %s lets volumes grow, get "+
		"messages, or remove what else is on the volume; the member goes on by itself then", &queue.Spec.Storage.Size,
		claimOf(member))
}

// volumeFix is what to do about a volume that cannot be used.
func volumeFix(queue *v1alpha1.Queue, member Member) string {
	if queue.Spec.Storage.Type == v1alpha1.QueueStorageMemory {
		return memoryFix
	}
	return fmt.Sprintf("check the storage behind claim %s and the kernel's log of node %s, and delete the pod to mount "+
		"the volume again; if the volume is gone for good, delete the claim with the pod, and with it the messages that no "+
		"other member has", claimOf(member), member.Pod.Spec.NodeName)
}

// claimOf is the name of a member's claim.
func claimOf(member Member) string { return dataVolume + "-" + member.Pod.Name }

// messageParts is how many of the longest messages a volume has to be able to hold at least.
const messageParts = 4

// checkSize is why a volume is too small for the messages that may be put.
func checkSize(spec v1alpha1.QueueSpec, limits *wirev1.QueueLimits) error {
	size, ok := volumeOf(spec)
	if !ok {
		return nil
	}
	field := "spec.storage.size"
	if spec.Storage.Spill != nil {
		field = "spec.storage.spill.size"
	}
	members, longest := int(memberCount(spec)), int64(limits.GetMaxMessageSize())
	if queuevolume.ForMessages(size, members) < messageParts*longest {
		return &policy.InvalidError{Field: field, Fix: fmt.Sprintf("must be at least %s for messages of "+
			"limits.maxMessageSize, which is %d bytes, so that beside the reserve %d of them fit; make the one larger or the "+
			"other smaller", leastSize(members, messageParts*longest), longest, messageParts)}
	}
	return nil
}

// leastSize is the smallest volume, in whole mebibytes, that has space for so many bytes of messages.
func leastSize(members int, messages int64) *resource.Quantity {
	const step = 1 << 20
	// What is kept is at most what it is of a volume without end, and nine tenths are left.
	steps := sort.Search(int((messages+queuevolume.Beside(math.MaxInt64, members))/9*10/step)+1, func(n int) bool {
		return queuevolume.ForMessages(int64(n)*step, members) >= messages
	})
	return resource.NewQuantity(int64(steps)*step, resource.BinarySI)
}

// trackStream notes in status which stream keeps the messages, and what was lost when that is another one. before is
// what status showed by now.
func trackStream(
	queue *v1alpha1.Queue, members []Member, before v1alpha1.QueueStatus, status *v1alpha1.QueueStatus, now time.Time,
) {
	created := contentOf(members).GetCreated()
	if created != nil {
		seen := metav1.NewTime(created.AsTime().Truncate(time.Second))
		former := before.StreamCreationTime
		if former != nil && !former.Equal(&seen) && queue.Spec.Storage.Type != v1alpha1.QueueStorageMemory {
			status.Loss = lossOf(before, *former, seen, now)
		}
		status.StreamCreationTime = &seen
	}
	if status.Loss != nil && queue.Annotations[v1alpha1.AcceptLossAnnotation] == lossName(status.Loss) {
		status.Loss = nil
	}
}

// tellLoss tells of a loss once, unless the condition that is told of does: another may come before it.
func (r *Reconciler) tellLoss(before, queue *v1alpha1.Queue) {
	loss := queue.Status.Loss
	ready := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionReady)
	if loss == nil || before.Status.Loss != nil && lossName(before.Status.Loss) == lossName(loss) ||
		ready != nil && ready.Reason == v1alpha1.ReasonMessagesLost {
		return
	}
	r.Recorder.Eventf(
		queue, nil, corev1.EventTypeWarning, v1alpha1.ReasonMessagesLost, "Reconcile", "%s",
		conditions.Shorten(lossMessage(queue, loss)),
	)
}

// keepContent keeps what was known of the queue's content while no member knows it, as when the only one has no volume,
// and since when.
func keepContent(now, before *v1alpha1.QueueStatistics, at time.Time) {
	if before == nil {
		return
	}
	if now.ContentTime = before.ContentTime; now.ContentTime == nil {
		now.ContentTime = &metav1.Time{Time: at.Truncate(time.Second)}
	}
	now.Consumers, now.Unacknowledged, now.Redelivered = before.Consumers, before.Unacknowledged, before.Redelivered
	now.Depth, now.Persistent, now.NonPersistent, now.DeadLetters = before.Depth, before.Persistent, before.NonPersistent,
		before.DeadLetters
	now.OldestMessageTime, now.AverageSize = before.OldestMessageTime, before.AverageSize
}

// lossOf is what was lost by all that is known, losses included that nobody has accepted yet.
func lossOf(before v1alpha1.QueueStatus, former, created metav1.Time, now time.Time) *v1alpha1.QueueLoss {
	loss := &v1alpha1.QueueLoss{StreamCreationTime: created, FormerCreationTime: former, NoticedTime: metav1.NewTime(now)}
	if s := before.Statistics; s != nil {
		loss.Messages = v1alpha1.QueueMessages{Count: s.Depth, Bytes: s.Persistent.Bytes}
		loss.DeadLetters = s.DeadLetters
	}
	if earlier := before.Loss; earlier != nil {
		loss.FormerCreationTime = earlier.FormerCreationTime
		loss.Messages.Count += earlier.Messages.Count
		loss.Messages.Bytes += earlier.Messages.Bytes
		loss.DeadLetters += earlier.DeadLetters
	}
	return loss
}

// lossName is the value by which a loss is accepted.
func lossName(loss *v1alpha1.QueueLoss) string {
	return loss.StreamCreationTime.UTC().Format(time.RFC3339)
}

// lossMessage says what was lost and what to do.
func lossMessage(queue *v1alpha1.Queue, loss *v1alpha1.QueueLoss) string {
	where := "on the members' volumes"
	if queue.Spec.Engine.External != nil {
		where = "in the external servers"
	}
	lost := fmt.Sprintf("%d messages (%d bytes as stored)", loss.Messages.Count, loss.Messages.Bytes)
	if loss.DeadLetters > 0 {
		lost += fmt.Sprintf(" and %d dead letters", loss.DeadLetters)
	}
	restore := ""
	if queue.Spec.Archive != nil {
		restore = "; make another Queue with spec.restore of the archive to have what was archived"
	}
	return fmt.Sprintf("messages were lost: the stream %s that was made at %s is gone, with the %s that status showed "+
		"last and what was put since, and with clients' consumers; clients are served by an empty one, made at %s%s; put "+
		"again what is known elsewhere, and then say that the loss is known: kubectl annotate queue -n %s %s --overwrite "+
		"%s=%s", where, loss.FormerCreationTime.UTC().Format(time.RFC3339), lost, lossName(loss), restore,
		queue.Namespace, queue.Name, v1alpha1.AcceptLossAnnotation, lossName(loss))
}
