// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/refusal"
)

// LookAtHistory sees what a decision about the snapshots of a claim needs. Where none is to be taken that is one list.
func (c *Cluster) LookAtHistory(ctx context.Context, of plan.HistoryTarget) (plan.HistoryFacts, error) {
	facts := plan.HistoryFacts{Seen: true}
	err := c.lookAtHistory(ctx, of, &facts)
	if facts.Problem = historyProblem(err); facts.Problem != nil {
		err = nil
	}
	return facts, err
}

func (c *Cluster) lookAtHistory(ctx context.Context, of plan.HistoryTarget, facts *plan.HistoryFacts) error {
	selected := []client.ListOption{client.InNamespace(of.Namespace), historyOf(of)}
	if of.Peer != "" && of.Taking { // those of all peers, as they are counted
		selected = []client.ListOption{client.InNamespace(of.Namespace), histories, client.HasLabels{plan.PeerLabel}}
	}
	snapshots, err := c.snapshots(ctx, selected...)
	if err != nil {
		return err
	}
	for i := range snapshots {
		claim, _, _ := unstructured.NestedString(snapshots[i].Object, "spec", "source", "persistentVolumeClaimName")
		if claim == of.Claim && snapshots[i].GetDeletionTimestamp() == nil {
			facts.Held++
		}
		if keptFor(of, &snapshots[i]) {
			facts.Snapshots = append(facts.Snapshots, read(&snapshots[i]))
		}
	}
	if !of.Taking {
		return nil
	}
	facts.Claim, facts.Driver, err = c.claim(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Claim})
	if err != nil || of.Wanted == nil {
		return err
	}
	facts.Class, err = c.class(ctx, of.Wanted.VolumeSnapshotClassName, facts.Driver)
	return err
}

// SnapshotGone reports whether a VolumeSnapshot does not exist, whoever made it. It is false where nobody can look. The
// manager may list them and not get one.
func (c *Cluster) SnapshotGone(ctx context.Context, key client.ObjectKey) (bool, error) {
	found, err := c.snapshots(ctx, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if historyProblem(err) != nil {
		return false, nil
	}
	return err == nil && len(found) == 0, err
}

// histories are the labels of all snapshots of destinations.
var histories = client.MatchingLabels{
	agentpod.ComponentLabel: plan.HistoryComponent, agentpod.ManagedByLabel: agentpod.ManagedBy,
}

func historyOf(of plan.HistoryTarget) client.MatchingLabels {
	selected := maps.Clone(histories)
	selected[v1alpha1.TransferLabel] = of.Of
	return selected
}

// keptFor reports whether a snapshot is one that was taken for a Transfer. Of one for a peer, which is known by what it
// says of itself, claim and annotation say so too: what a backup tool restored from another source is left alone.
func keptFor(of plan.HistoryTarget, o *unstructured.Unstructured) bool {
	claim, _, _ := unstructured.NestedString(o.Object, "spec", "source", "persistentVolumeClaimName")
	return o.GetLabels()[v1alpha1.TransferLabel] == of.Of &&
		(of.Peer == "" || claim == of.Claim && o.GetAnnotations()[v1alpha1.HistoryTransferAnnotation] == of.About)
}

// historyProblem is what an error means for a user; nil if it is one to try again.
func historyProblem(err error) *agentpod.Problem {
	switch {
	case errors.Is(err, errNotInstalled):
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotsNotInstalled, Message: "this cluster has no " +
			"VolumeSnapshots, so the destination keeps no history; install the CRDs and the snapshot-controller of " +
			"kubernetes-csi/external-snapshotter, or remove spec.destination.snapshot"}
	case apierrors.IsForbidden(err):
		words, _ := refusal.Final(err)
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotsNotAllowed, Message: fmt.Sprintf(
			"the manager may not see VolumeSnapshots in this cluster; ask the platform team to install the chart with "+
				"pointInTime.enabled, or remove spec.destination.snapshot: %s", conditions.Shorten(words))}
	}
	return nil
}

// KeepHistory makes and removes snapshots of a destination. The problem is what the API server has against the one that
// is to be made.
func (c *Cluster) KeepHistory(
	ctx context.Context, of plan.HistoryTarget, step *plan.HistoryStep,
) (*agentpod.Problem, error) {
	var problem *agentpod.Problem
	if step.Take != nil {
		var err error
		if problem, err = c.take(ctx, of, step); err != nil {
			return nil, err
		}
	}
	if len(step.Remove) == 0 {
		return problem, nil
	}
	return problem, c.expire(ctx, of, step.Remove)
}

func (c *Cluster) take(
	ctx context.Context, of plan.HistoryTarget, step *plan.HistoryStep,
) (*agentpod.Problem, error) {
	o := newSnapshot(of.Namespace, step.Take.Name, step.Class, of.Claim)
	o.SetLabels(of.Labels(step.Take.RunID))
	about := map[string]string{
		v1alpha1.HistoryTransferAnnotation: of.About,
		v1alpha1.HistoryTimeAnnotation:     step.Take.Time.UTC().Format(time.RFC3339),
	}
	if point := step.Take.RecoveryPoint; point != nil {
		about[v1alpha1.RecoveryPointAnnotation] = point.UTC().Format(time.RFC3339)
	}
	o.SetAnnotations(about)
	err := c.Client.Create(ctx, o, client.FieldOwner(conditions.FieldOwner))
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil, nil
	}
	err = installed(fmt.Errorf("creating VolumeSnapshot %s: %w", client.ObjectKeyFromObject(o), err))
	if errors.Is(err, errNotInstalled) {
		return historyProblem(err), nil
	}
	words, final := refusal.Final(err)
	if !final {
		return nil, err
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotRejected, Message: fmt.Sprintf(
		"the API server rejects VolumeSnapshot %q of run %s; change what it names, such as a ResourceQuota of the namespace "+
			"or the roles of the manager, or keep less by spec.destination.snapshot.retention: %s", step.Take.Name,
		step.Take.RunID, conditions.Shorten(words))}, nil
}

// expire deletes snapshots of a Transfer's destination by their names. What keptFor does not know is left.
func (c *Cluster) expire(ctx context.Context, of plan.HistoryTarget, names []string) error {
	snapshots, err := c.snapshots(ctx, client.InNamespace(of.Namespace), historyOf(of))
	if err != nil {
		if historyProblem(err) != nil {
			return nil // the condition says so
		}
		return err
	}
	for i := range snapshots {
		o := &snapshots[i]
		if !slices.Contains(names, o.GetName()) || !keptFor(of, o) || o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
