// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Strays returns the pods in a namespace, or, of "", in all, that have the label, still run, or may, and are of none of the
// present Jobs: their Job, or its owner, is gone. One whose node is gone never ends, and counts for two minutes.
func (c *Cluster) Strays(
	ctx context.Context, namespace, label string, present map[client.ObjectKey]bool, now time.Time,
) ([]client.ObjectKey, error) {
	pods := &corev1.PodList{}
	err := c.options.Client.List(ctx, pods, client.InNamespace(namespace), client.HasLabels{label},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods in %s: %w", namespace, err)
	}
	var strays []client.ObjectKey
	for i := range pods.Items {
		pod := &pods.Items[i]
		if ended(pod) || present[client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[batchv1.JobNameLabel]}] ||
			pod.DeletionTimestamp != nil && c.deletions.Since(pod.UID, now) > writerPatience {
			continue
		}
		strays = append(strays, client.ObjectKeyFromObject(pod))
	}
	return strays, nil
}

// PodEnded lets pass that a pod with the label has ended or is gone.
func PodEnded(label string) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(*corev1.Pod)
			after, is := e.ObjectNew.(*corev1.Pod)
			return was && is && after.Labels[label] != "" && !ended(before) && ended(after)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return e.Object.GetLabels()[label] != "" },
	}
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
