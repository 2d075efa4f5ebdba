// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"

	"github.com/lighterage/lighterage/agent/wire/queuevolume"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// freeShare is which share of the limit that it is nearest to a Queue has free, from 0 to 1. ok is false when that is
// not known, or nothing follows from it because the Queue drops its oldest messages.
func freeShare(queue *v1alpha1.Queue, content *wirev1.QueueContent) (share float64, ok bool) {
	if content == nil || queue.Spec.Limits.Overflow == v1alpha1.QueueOverflowDropOldest {
		return 0, false
	}
	size := queue.Spec.Storage.Size.Value()
	if inForce := queue.Status.StorageSize; inForce != nil {
		size = inForce.Value()
	}
	capacity := size
	if volume, ok := volumeOf(queue.Spec); ok {
		if queue.Spec.Storage.Spill == nil {
			volume = size
		}
		capacity = queuevolume.ForMessages(volume, int(queue.Spec.Replicas))
	}
	if limit := queue.Spec.Limits.MaxBytes; limit != nil {
		capacity = min(capacity, limit.Value())
	}
	share = free(content.GetBytes(), capacity)
	if limit := queue.Spec.Limits.MaxMessages; limit != nil {
		share = min(share, free(content.GetMessages(), *limit))
	}
	return share, true
}

func free(used uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return max(0, 1-float64(used)/float64(limit))
}
