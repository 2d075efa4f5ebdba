// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// changes tells of what comes, goes, and changes so that it matters. What counts rejects comes and goes without a
// wake-up. initial: it was there before anybody looked.
func changes[T client.Object](
	counts func(T) bool, matters func(before, after T) bool, tell func(initial bool),
) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if now, is := object.(T); is && counts(now) {
				tell(initial)
			}
		},
		UpdateFunc: func(before, after any) {
			old, was := before.(T)
			now, is := after.(T)
			if was && is && matters(old, now) {
				tell(false)
			}
		},
		DeleteFunc: func(object any) {
			// One whose end was missed may have counted.
			if old, was := object.(T); !was || counts(old) {
				tell(false)
			}
		},
	}
}

func always[T any](T) bool { return true }

// NodeChanged lets pass what may change where an agent can be placed: nodes that come and go, and changes of labels,
// taints, and whether a node is cordoned or ready.
func NodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*corev1.Node)
		after, is := e.ObjectNew.(*corev1.Node)
		return was && is && nodeChanged(before, after)
	}}
}

func nodeChanged(before, after *corev1.Node) bool {
	return !maps.Equal(before.Labels, after.Labels) || before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!reflect.DeepEqual(before.Spec.Taints, after.Spec.Taints) || ready(before) != ready(after) ||
		!equality.Semantic.DeepEqual(
			before.Status.Allocatable[v1alpha1.AcceleratorSlotsResource],
			after.Status.Allocatable[v1alpha1.AcceleratorSlotsResource],
		)
}

// profileChanged: conditions, what paths cost, and when the figures were taken, say nothing of where agents are placed.
func profileChanged(before, after *v1alpha1.NodeProfile) bool {
	was, is := before.Status, after.Status
	if (was.MeasuredTime == nil) != (is.MeasuredTime == nil) {
		return true
	}
	was.MeasuredTime, was.Conditions, was.ObservedGeneration = is.MeasuredTime, is.Conditions, is.ObservedGeneration
	was.DataPaths = is.DataPaths
	return !equality.Semantic.DeepEqual(was, is)
}

// slotsTaken: a pod holds another number of slots than before, or has gone to a node.
func slotsTaken(before, after *corev1.Pod) bool {
	held, holds := agentpod.SlotsOf(before), agentpod.SlotsOf(after)
	return held != holds || holds > 0 &&
		(before.Spec.NodeName != after.Spec.NodeName || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil))
}

// Detached lets pass attachments of volumes that begin to go, or are gone: what waits for a volume, or was refused for
// where it is, may go on.
func Detached() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func ready(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}
