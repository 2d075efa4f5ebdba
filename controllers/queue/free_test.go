// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

func TestFreeShare(t *testing.T) {
	const size = 10 << 30
	for name, test := range map[string]struct {
		change func(*v1alpha1.Queue)
		bytes  uint64
		want   float64
		absent bool
	}{
		"empty":                    {want: 1},
		"half of what maxBytes":    {change: maxBytes("4Gi"), bytes: 2 << 30, want: 0.5},
		"more than fits":           {bytes: size, want: 0},
		"in memory all of it":      {change: inMemory, bytes: size / 4, want: 0.75},
		"of what it spills to":     {change: spillsTo("20Gi"), bytes: 17872 << 20 / 2, want: 0.5},
		"messages count as well":   {change: maxMessages(4), bytes: 1, want: 0.5},
		"the oldest are dropped":   {change: dropOldest, bytes: size, absent: true},
		"no such limit can be":     {change: maxMessages(0), want: 0},
		"what a quota has allowed": {change: allowed("5Gi"), bytes: 5 << 30, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			queue := &v1alpha1.Queue{Spec: v1alpha1.QueueSpec{
				Replicas: 1, Storage: v1alpha1.QueueStorage{Size: *resource.NewQuantity(size, resource.BinarySI)},
			}}
			if test.change != nil {
				test.change(queue)
			}
			got, ok := freeShare(queue, &wirev1.QueueContent{Bytes: test.bytes, Messages: 2})
			if ok == test.absent || math.Abs(got-test.want) > 1e-3 {
				t.Errorf("got %v, %v, want %v", got, ok, test.want)
			}
		})
	}
	if _, ok := freeShare(&v1alpha1.Queue{}, nil); ok {
		t.Error("a Queue of which nothing is known has a share")
	}
}

func maxBytes(limit string) func(*v1alpha1.Queue) {
	return func(q *v1alpha1.Queue) { q.Spec.Limits.MaxBytes = ptr.To(resource.MustParse(limit)) }
}

func maxMessages(limit int64) func(*v1alpha1.Queue) {
	return func(q *v1alpha1.Queue) { q.Spec.Limits.MaxMessages = &limit }
}

func allowed(size string) func(*v1alpha1.Queue) {
	return func(q *v1alpha1.Queue) { q.Status.StorageSize = ptr.To(resource.MustParse(size)) }
}

func inMemory(q *v1alpha1.Queue) { q.Spec.Storage.Type = v1alpha1.QueueStorageMemory }

func spillsTo(size string) func(*v1alpha1.Queue) {
	return func(q *v1alpha1.Queue) {
		inMemory(q)
		q.Spec.Storage.Spill = &v1alpha1.QueueSpill{Size: resource.MustParse(size)}
	}
}

func dropOldest(q *v1alpha1.Queue) { q.Spec.Limits.Overflow = v1alpha1.QueueOverflowDropOldest }
