// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
)

const groupKind = "VolumeGroupSnapshot"

var groupVersion = schema.GroupVersion{Group: "groupsnapshot.storage.k8s.io", Version: "v1"}

// grouped is the VolumeSnapshot of the source in the group that the copy of a Transfer is to be made from; nil if there
// is none. The snapshot-controller makes them, with the group as their owner.
func (c *Cluster) grouped(ctx context.Context, transfer *v1alpha1.Transfer) (*plan.Snapshot, error) {
	group := transfer.Status.Staged.VolumeGroupSnapshotName
	if group == "" {
		return nil, nil
	}
	snapshots, err := c.snapshots(ctx, client.InNamespace(transfer.Namespace))
	var found *plan.Snapshot
	for i := range snapshots {
		s := &snapshots[i]
		of, _, _ := unstructured.NestedString(s.Object, "spec", "source", "persistentVolumeClaimName")
		if of != transfer.Spec.Source.PersistentVolumeClaim.ClaimName ||
			!slices.ContainsFunc(s.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return isGroup(o, group) }) {
			continue
		}
		// There may be one of a former group of the name that is still being deleted.
		if seen := read(s); found == nil || !seen.Deleting {
			seen.Ready = seen.Ready && !seen.Created.IsZero()
			found = &seen
		}
	}
	return found, err
}

func isGroup(owner metav1.OwnerReference, name string) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == groupVersion.Group && owner.Kind == groupKind && owner.Name == name
}

// LookAtGroup sees what a decision about the group of a TransferSet needs: the VolumeGroupSnapshot that its status
// names, or what another one depends on.
func (c *Cluster) LookAtGroup(
	ctx context.Context, set *v1alpha1.TransferSet, begin bool,
) (transfersetplan.GroupFacts, error) {
	facts := transfersetplan.GroupFacts{Seen: true}
	var err error
	if begin {
		err = c.lookAtMembers(ctx, set, &facts)
	} else {
		facts.Snapshot, err = c.group(ctx, client.ObjectKey{Namespace: set.Namespace, Name: set.Status.Group.Name})
	}
	if facts.Problem = groupProblem(err); facts.Problem != nil {
		return facts, nil
	}
	return facts, err
}

func groupProblem(err error) *agentpod.Problem {
	switch {
	case errors.Is(err, errNotInstalled):
		return &agentpod.Problem{Reason: v1alpha1.ReasonGroupSnapshotsNotInstalled, Message: "this cluster has no " +
			"VolumeGroupSnapshots; install the CRDs and the snapshot-controller of kubernetes-csi/external-snapshotter, " +
			"v8.7.0 or newer, or remove spec.group"}
	case apierrors.IsForbidden(err):
		words, _ := refusal.Final(err)
		return &agentpod.Problem{Reason: v1alpha1.ReasonStagingNotAllowed, Message: fmt.Sprintf(
			"the manager may not make VolumeGroupSnapshots in this cluster; ask the platform team to install the chart with "+
				"pointInTime.enabled, or remove spec.group: %s", conditions.Shorten(words))}
	}
	return nil
}

func (c *Cluster) group(ctx context.Context, key client.ObjectKey) (*plan.Snapshot, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(groupVersion.WithKind(groupKind))
	found, err := lookup.Get(ctx, c.Reader, key, o)
	switch {
	case err != nil:
		return nil, installed(err)
	case !found:
		return nil, nil
	}
	seen := read(o)
	return &seen, nil
}

// lookAtMembers sees the class and the claims of the next group. They are read past the cache, which lacks annotations.
func (c *Cluster) lookAtMembers(
	ctx context.Context, set *v1alpha1.TransferSet, facts *transfersetplan.GroupFacts,
) error {
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(groupVersion.WithKind("VolumeGroupSnapshotClass"))
	found, err := lookup.Get(ctx, c.Reader, client.ObjectKey{Name: set.Spec.Group.VolumeGroupSnapshotClassName}, class)
	switch {
	case err != nil:
		return installed(err)
	case found:
		facts.Class = &plan.SnapshotClass{Name: class.GetName()}
		facts.Class.Driver, _, _ = unstructured.NestedString(class.Object, "driver")
		policy, _, _ := unstructured.NestedString(class.Object, "deletionPolicy")
		facts.Class.Retains = policy != "Delete"
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := c.Reader.List(ctx, claims, client.InNamespace(set.Namespace),
		client.MatchingLabels(set.Spec.Selector.MatchLabels)); err != nil {
		return fmt.Errorf("listing the claims of TransferSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	facts.Claims = claims.Items
	return nil
}

// MakeGroup makes the VolumeGroupSnapshot that a status names. One that exists is left. The problem is what the API
// server has against it.
func (c *Cluster) MakeGroup(ctx context.Context, set *v1alpha1.TransferSet) (*agentpod.Problem, error) {
	labels := make(map[string]any, len(set.Spec.Selector.MatchLabels))
	for key, value := range set.Spec.Selector.MatchLabels {
		labels[key] = value
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"volumeGroupSnapshotClassName": set.Spec.Group.VolumeGroupSnapshotClassName,
		"source":                       map[string]any{"selector": map[string]any{"matchLabels": labels}},
	}}}
	o.SetGroupVersionKind(groupVersion.WithKind(groupKind))
	o.SetNamespace(set.Namespace)
	o.SetName(set.Status.Group.Name)
	o.SetLabels(groupLabels())
	o.SetOwnerReferences([]metav1.OwnerReference{agentpod.OwnerReference("TransferSet", set)})
	err := c.Client.Create(ctx, o, client.FieldOwner(conditions.FieldOwner))
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil, nil
	}
	err = fmt.Errorf("creating VolumeGroupSnapshot %s: %w", client.ObjectKeyFromObject(o), err)
	if problem := groupProblem(installed(err)); problem != nil &&
		problem.Reason == v1alpha1.ReasonGroupSnapshotsNotInstalled {
		return problem, nil
	}
	words, final := refusal.Final(err)
	if !final {
		return nil, err
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonStagingRejected, Message: fmt.Sprintf(
		"the API server rejects VolumeGroupSnapshot %q; change what it names, such as a ResourceQuota of the namespace or "+
			"the roles of the manager, or remove spec.group: %s", o.GetName(), conditions.Shorten(words))}, nil
}

func groupLabels() map[string]string {
	return map[string]string{
		agentpod.ComponentLabel: transfersetplan.GroupComponent, agentpod.ManagedByLabel: agentpod.ManagedBy,
	}
}

// groups are the VolumeGroupSnapshots of TransferSets; none where there can be none, or nobody may see them.
func (c *Cluster) groups(ctx context.Context, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(groupVersion.WithKind(groupKind + "List"))
	err := c.Reader.List(ctx, list, append(options, client.MatchingLabels(groupLabels()))...)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing VolumeGroupSnapshots: %w", err)
	}
	return list.Items, nil
}

// RemoveGroups deletes the VolumeGroupSnapshots of a TransferSet but that named keep, and reports whether there were
// any. The snapshot-controller deletes what is in them, as soon as no claim is being made of it.
func (c *Cluster) RemoveGroups(ctx context.Context, set *v1alpha1.TransferSet, keep string) (left bool, err error) {
	groups, err := c.groups(ctx, client.InNamespace(set.Namespace))
	if err != nil {
		return false, err
	}
	for i := range groups {
		o := &groups[i]
		if !metav1.IsControlledBy(o, set) || o.GetName() == keep {
			continue
		}
		left = true
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.delete(ctx, o); err != nil {
			return left, err
		}
	}
	return left, nil
}
