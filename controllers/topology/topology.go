// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology reads what package placement needs to know of the cluster.
package topology

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
)

// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=nodeprofiles,verbs=get;list;watch

// Facts reads the nodes, their profiles, from where the volume of a claim can be reached, and where it is in use. The claim is empty for an agent that
// mounts none; one that is not bound yet can be reached from wherever the scheduler will have it.
func Facts(ctx context.Context, reader client.Reader, namespace, claim string) (placement.Facts, error) {
	facts := placement.Facts{Claim: claim, Profiles: map[string]v1alpha1.NodeProfileStatus{}}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return facts, fmt.Errorf("listing Nodes: %w", err)
	}
	facts.Nodes = nodes.Items
	var profiles v1alpha1.NodeProfileList
	if err := reader.List(ctx, &profiles); err != nil {
		return facts, fmt.Errorf("listing NodeProfiles: %w", err)
	}
	for _, profile := range profiles.Items {
		// One that nobody has filled says nothing.
		if profile.Status.MeasuredTime != nil {
			facts.Profiles[profile.Name] = profile.Status
		}
	}
	var err error
	if facts.FreeSlots, facts.AwaitedSlots, err = freeSlots(ctx, reader, nodes.Items); err != nil {
		return facts, err
	}
	if claim == "" {
		return facts, nil
	}
	var volumes corev1.PersistentVolumeList
	if err := reader.List(ctx, &volumes); err != nil {
		return facts, fmt.Errorf("listing PersistentVolumes: %w", err)
	}
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		bound := volume.Spec.ClaimRef
		if volume.Status.Phase != corev1.VolumeBound || bound == nil || bound.Namespace != namespace || bound.Name != claim {
			continue
		}
		if volume.Spec.NodeAffinity != nil {
			facts.Volume = volume.Spec.NodeAffinity.Required
		}
		if onOneNode(volume.Spec.AccessModes) {
			facts.Attached, err = attached(ctx, reader, volume.Name, nodes.Items)
		}
		return facts, err
	}
	return facts, nil
}

// onOneNode: a volume with these modes is attached to one node at a time. What says nothing is left to the cluster.
func onOneNode(modes []corev1.PersistentVolumeAccessMode) bool {
	return len(modes) > 0 && !slices.ContainsFunc(modes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

// attached returns the node that a volume is attached to, or is about to be; empty if it is to none, is being detached, or will be because the
// node is lost.
func attached(ctx context.Context, reader client.Reader, volume string, nodes []corev1.Node) (string, error) {
	var attachments storagev1.VolumeAttachmentList
	if err := reader.List(ctx, &attachments); err != nil {
		return "", fmt.Errorf("listing VolumeAttachments: %w", err)
	}
	node, certain := "", false
	for i := range attachments.Items {
		a := &attachments.Items[i]
		if a.Spec.Source.PersistentVolumeName == nil || *a.Spec.Source.PersistentVolumeName != volume || a.DeletionTimestamp != nil {
			continue
		}
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == a.Spec.NodeName && ready(&n) == corev1.ConditionTrue }) {
			continue
		}
		if node == "" || a.Status.Attached && !certain {
			node, certain = a.Spec.NodeName, a.Status.Attached
		}
	}
	return node, nil
}

// freeSlots counts what agents that are on nodes have left of the slots of accelerators, and how many more agents ask for one and have no node yet.
// The first is nil when no node has any, because nobody asked for a cap.
func freeSlots(ctx context.Context, reader client.Reader, nodes []corev1.Node) (free map[string]int64, awaited int64, err error) {
	for i := range nodes {
		if slots, capped := nodes[i].Status.Allocatable[v1alpha1.AcceleratorSlotsResource]; capped {
			if free == nil {
				free = map[string]int64{}
			}
			free[nodes[i].Name] = slots.Value()
		}
	}
	if free == nil {
		return nil, 0, nil
	}
	var agents corev1.PodList
	if err := reader.List(ctx, &agents, client.MatchingLabels{plan.AppLabel: plan.AppName}); err != nil {
		return nil, 0, fmt.Errorf("listing agents' pods: %w", err)
	}
	for i := range agents.Items {
		pod := &agents.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, container := range pod.Spec.Containers {
			asked := container.Resources.Requests[v1alpha1.AcceleratorSlotsResource]
			_, capped := free[pod.Spec.NodeName]
			switch {
			case capped:
				free[pod.Spec.NodeName] -= asked.Value()
			case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
				awaited += asked.Value()
			}
		}
	}
	return free, awaited, nil
}

// Trim returns what removes from objects in a cache what Facts does not look at. Of a node that is most of it. Slots are looked at only
// where agents are capped: a node goes on advertising those that it has from when there was a cap, which nobody may take from it any more.
func Trim(capped bool) func(object any) (any, error) {
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *corev1.Node:
			o.ManagedFields = nil
			o.Annotations = nil
			o.Status = corev1.NodeStatus{
				Conditions:  slices.DeleteFunc(o.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady }),
				Addresses:   o.Status.Addresses,
				Capacity:    slotsOf(o.Status.Capacity, capped),
				Allocatable: slotsOf(o.Status.Allocatable, capped),
			}
		case *corev1.PersistentVolume:
			o.ManagedFields = nil
		case *storagev1.VolumeAttachment:
			o.ManagedFields, o.Annotations = nil, nil
			o.Status = storagev1.VolumeAttachmentStatus{Attached: o.Status.Attached}
		}
		return object, nil
	}
}

func slotsOf(resources corev1.ResourceList, capped bool) corev1.ResourceList {
	slots, found := resources[v1alpha1.AcceleratorSlotsResource]
	if !found || !capped {
		return nil
	}
	return corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: slots}
}

// NodeChanged lets pass what may change where an agent can be placed: nodes that come and go, and changes of labels, taints, and
// whether a node is cordoned or ready.
func NodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		if !ok {
			return false
		}
		after, ok := e.ObjectNew.(*corev1.Node)
		if !ok {
			return false
		}
		return !maps.Equal(before.Labels, after.Labels) || before.Spec.Unschedulable != after.Spec.Unschedulable ||
			!reflect.DeepEqual(before.Spec.Taints, after.Spec.Taints) || ready(before) != ready(after) ||
			!reflect.DeepEqual(before.Status.Allocatable[v1alpha1.AcceleratorSlotsResource], after.Status.Allocatable[v1alpha1.AcceleratorSlotsResource])
	}}
}

// Detached lets pass attachments of volumes that begin to go, or are gone: what waits for a volume, or was refused for where it is, may go on.
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
