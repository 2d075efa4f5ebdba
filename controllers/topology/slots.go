// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/index"
)

// slots of accelerators that agents have left. free is nil when no node has any, because nobody asked for a cap.
type slots struct {
	free map[string]int64
	// awaited is how many more agents ask for one and have no node yet.
	awaited int64
}

func (t *Topology) countSlots(ctx context.Context) (slots, error) {
	present, err := t.nodes.get(ctx)
	if err != nil {
		return slots{}, err
	}
	var counted slots
	for i := range present.all {
		if offered, capped := present.all[i].Status.Allocatable[v1alpha1.AcceleratorSlotsResource]; capped {
			if counted.free == nil {
				counted.free = map[string]int64{}
			}
			counted.free[present.all[i].Name] = offered.Value()
		}
	}
	if counted.free == nil {
		return counted, nil
	}
	var agents corev1.PodList
	asks := client.MatchingFields{index.HoldsSlot: index.Yes}
	if err := t.reader.List(ctx, &agents, asks, client.UnsafeDisableDeepCopy); err != nil {
		return counted, fmt.Errorf("listing agents' pods: %w", err)
	}
	for i := range agents.Items {
		pod := &agents.Items[i]
		_, capped := counted.free[pod.Spec.NodeName]
		switch {
		case capped:
			counted.free[pod.Spec.NodeName] -= agentpod.SlotsOf(pod)
		case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
			counted.awaited += agentpod.SlotsOf(pod)
		}
	}
	return counted, nil
}

func holdsSlot(pod *corev1.Pod) bool { return agentpod.SlotsOf(pod) > 0 }
