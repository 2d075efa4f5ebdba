// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology knows what package placement needs to know of the cluster. What it returns is shared: nodes,
// profiles and slots are built once after a change and not for each question, and a question costs the same however
// many nodes and volumes there are.
package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/placement"
)

// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=nodeprofiles,verbs=get;list;watch

// Topology is of one manager. It is safe for concurrent use.
type Topology struct {
	reader   client.Reader
	nodes    part[nodes]
	profiles part[map[string]v1alpha1.NodeProfileStatus]
	slots    part[slots]
	cluster  part[*Cluster]
	gateway  atomic.Uint64 // bits of a float64
	wakes    wakes
}

// nodes of the cluster, by name.
type nodes struct {
	all   []corev1.Node
	ready map[string]bool
}

// New returns a Topology that reads from a cache with the fields of package index. Watch keeps it up to date.
func New(reader client.Reader) *Topology {
	t := &Topology{reader: reader}
	t.nodes.build, t.profiles.build, t.slots.build, t.cluster.build = t.listNodes, t.listProfiles, t.countSlots,
		t.newCluster
	return t
}

// Setup adds the fields of package index to the cache of a manager that has not been started, and returns the manager's
// Topology.
func Setup(ctx context.Context, mgr manager.Manager) (*Topology, error) {
	if err := index.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	t := New(mgr.GetClient())
	return t, t.Watch(ctx, mgr.GetCache())
}

// Watch keeps a Topology up to date with what informers see.
func (t *Topology) Watch(ctx context.Context, informers cache.Informers) error {
	for _, watched := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Node{}, changes(always, nodeChanged, t.nodesChanged)},
		{&v1alpha1.NodeProfile{}, changes(always, profileChanged, func(bool) { t.profiles.changed(); t.cluster.changed() })},
		{&corev1.Pod{}, changes(holdsSlot, slotsTaken, func(bool) { t.slots.changed() })},
	} {
		informer, err := informers.GetInformer(ctx, watched.object)
		if err == nil {
			_, err = informer.AddEventHandler(watched.handler)
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", watched.object, err)
		}
	}
	return nil
}

// nodesChanged marks first what the other parts are built from.
func (t *Topology) nodesChanged(initial bool) {
	t.nodes.changed()
	t.slots.changed()
	t.cluster.changed()
	if !initial {
		t.wakes.changed()
	}
}

// Facts are the nodes, their profiles, from where the volume of a claim can be reached, and where it is in use. The
// claim is empty for an agent that mounts none; one that is not bound yet can be reached from wherever the scheduler
// will have it. They must not be changed.
func (t *Topology) Facts(ctx context.Context, namespace, claim string) (placement.Facts, error) {
	facts := placement.Facts{Claim: claim}
	present, err := t.nodes.get(ctx)
	if err != nil {
		return facts, err
	}
	facts.Nodes = present.all
	if facts.Profiles, err = t.profiles.get(ctx); err != nil {
		return facts, err
	}
	taken, err := t.slots.get(ctx)
	if err != nil {
		return facts, err
	}
	facts.FreeSlots, facts.AwaitedSlots = taken.free, taken.awaited
	if claim == "" {
		return facts, nil
	}
	facts.Volume, facts.Attached, err = t.volume(ctx, namespace, claim, present.ready)
	return facts, err
}

// Volume says from which nodes the volume of a claim can be reached; nil: from all, or it is not bound yet. It must not
// be changed.
func (t *Topology) Volume(ctx context.Context, namespace, claim string) (*corev1.NodeSelector, error) {
	volume, err := t.volumeOf(ctx, namespace, claim)
	return reachedFrom(volume), err
}

func (t *Topology) listNodes(ctx context.Context) (nodes, error) {
	var list corev1.NodeList
	if err := t.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nodes{}, fmt.Errorf("listing Nodes: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	present := nodes{all: list.Items, ready: make(map[string]bool, len(list.Items))}
	for i := range list.Items {
		present.ready[list.Items[i].Name] = ready(&list.Items[i]) == corev1.ConditionTrue
	}
	return present, nil
}

func (t *Topology) listProfiles(ctx context.Context) (map[string]v1alpha1.NodeProfileStatus, error) {
	var list v1alpha1.NodeProfileList
	if err := t.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodeProfiles: %w", err)
	}
	profiles := make(map[string]v1alpha1.NodeProfileStatus, len(list.Items))
	for i := range list.Items {
		// One that nobody has filled says nothing.
		if list.Items[i].Status.MeasuredTime != nil {
			profiles[list.Items[i].Name] = list.Items[i].Status
		}
	}
	return profiles, nil
}

// volume is from where that of a claim can be reached, and where it is in use.
func (t *Topology) volume(
	ctx context.Context, namespace, claim string, ready map[string]bool,
) (reach *corev1.NodeSelector, attached string, err error) {
	volume, err := t.volumeOf(ctx, namespace, claim)
	if volume == nil || err != nil {
		return nil, "", err
	}
	if onOneNode(volume.Spec.AccessModes) {
		attached, err = t.attached(ctx, volume.Name, ready)
	}
	return reachedFrom(volume), attached, err
}

// volumeOf is the volume that is bound to a claim; nil if there is none.
func (t *Topology) volumeOf(ctx context.Context, namespace, claim string) (*corev1.PersistentVolume, error) {
	var volumes corev1.PersistentVolumeList
	bound := client.MatchingFields{index.BoundClaim: namespace + "/" + claim}
	if err := t.reader.List(ctx, &volumes, bound, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the PersistentVolume of claim %s/%s: %w", namespace, claim, err)
	}
	if len(volumes.Items) == 0 {
		return nil, nil
	}
	return &volumes.Items[0], nil
}

func reachedFrom(volume *corev1.PersistentVolume) *corev1.NodeSelector {
	if volume == nil || volume.Spec.NodeAffinity == nil {
		return nil
	}
	return volume.Spec.NodeAffinity.Required
}

// onOneNode: a volume with these modes is attached to one node at a time. What says nothing is left to the cluster.
func onOneNode(modes []corev1.PersistentVolumeAccessMode) bool {
	return len(modes) > 0 && !slices.ContainsFunc(modes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

// attached returns the node that a volume is attached to, or is about to be; empty if it is to none, is being detached,
// or will be because the node is lost.
func (t *Topology) attached(ctx context.Context, volume string, ready map[string]bool) (string, error) {
	var attachments storagev1.VolumeAttachmentList
	if err := t.reader.List(
		ctx, &attachments, client.MatchingFields{index.Volume: volume}, client.UnsafeDisableDeepCopy,
	); err != nil {
		return "", fmt.Errorf("looking for the VolumeAttachments of %s: %w", volume, err)
	}
	// In the order of their names, so that the answer is the same each time.
	slices.SortFunc(attachments.Items, func(a, b storagev1.VolumeAttachment) int {
		return strings.Compare(a.Name, b.Name)
	})
	node, certain := "", false
	for i := range attachments.Items {
		a := &attachments.Items[i]
		if a.DeletionTimestamp != nil || !ready[a.Spec.NodeName] {
			continue
		}
		if node == "" || a.Status.Attached && !certain {
			node, certain = a.Spec.NodeName, a.Status.Attached
		}
	}
	return node, nil
}

// ClaimOf is the claim whose volume an attachment is of; ok is false when there is none any more.
func (t *Topology) ClaimOf(ctx context.Context, attachment client.Object) (claim client.ObjectKey, ok bool, err error) {
	a, is := attachment.(*storagev1.VolumeAttachment)
	if !is || a.Spec.Source.PersistentVolumeName == nil {
		return claim, false, nil
	}
	volume := &corev1.PersistentVolume{}
	found, err := lookup.Get(ctx, t.reader, client.ObjectKey{Name: *a.Spec.Source.PersistentVolumeName}, volume)
	if !found || err != nil || volume.Spec.ClaimRef == nil {
		return claim, false, err
	}
	return client.ObjectKey{Namespace: volume.Spec.ClaimRef.Namespace, Name: volume.Spec.ClaimRef.Name}, true, nil
}
