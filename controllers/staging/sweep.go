// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

const (
	// sweepInterval is the time between two looks for copies that nobody needs.
	sweepInterval = 10 * time.Minute
	// sweepAge is how old a copy is at least that is removed: the status that names it may be newer than what was read.
	sweepAge = 2 * time.Minute
)

// Sweeper removes copies that no status names: of runs that have ended and of Transfers that are gone, when whoever
// should have removed them did not, for example because a status was restored from a backup. It runs where the manager
// leads.
type Sweeper struct {
	Cluster
	Clock clock.WithTicker
}

// Start sweeps until the context ends.
func (s *Sweeper) Start(ctx context.Context) error {
	ticker := s.Clock.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Copies of sources that nobody needs cannot be looked for")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Sweep looks once. Without the right to see copies there are none that it could remove. What goes wrong with one
// object keeps no other.
func (s *Sweeper) Sweep(ctx context.Context) error {
	return errors.Join(s.sweepGroups(ctx), s.sweepCopies(ctx))
}

// sweepCopies looks once for copies that no Transfer needs.
func (s *Sweeper) sweepCopies(ctx context.Context) error {
	ours := client.MatchingLabels{
		agentpod.ComponentLabel: plan.StagedComponent, agentpod.ManagedByLabel: agentpod.ManagedBy,
	}
	var copies []client.Object
	claims := &corev1.PersistentVolumeClaimList{}
	if err := s.Reader.List(ctx, claims, ours); err != nil {
		return fmt.Errorf("listing staged claims: %w", err)
	}
	for i := range claims.Items {
		copies = append(copies, &claims.Items[i])
	}
	snapshots, err := s.snapshots(ctx, ours)
	if err != nil && problemOf(err) == nil {
		return err
	}
	for i := range snapshots {
		copies = append(copies, &snapshots[i])
	}
	if len(copies) == 0 {
		return nil
	}
	// Transfers are read after the copies: what is not named now never will be.
	transfers := &v1alpha1.TransferList{}
	if err := s.Reader.List(ctx, transfers); err != nil {
		return fmt.Errorf("listing Transfers: %w", err)
	}
	named := make(map[types.UID]string, len(transfers.Items))
	for i := range transfers.Items {
		if staged := transfers.Items[i].Status.Staged; staged != nil {
			named[transfers.Items[i].UID] = staged.Name
		}
	}
	var failed error
	for _, object := range copies {
		failed = errors.Join(failed, s.sweep(ctx, object, "Transfer", named))
	}
	return failed
}

// sweepGroups looks once for VolumeGroupSnapshots that no TransferSet needs.
func (s *Sweeper) sweepGroups(ctx context.Context) error {
	groups, err := s.groups(ctx)
	if err != nil || len(groups) == 0 {
		return err
	}
	// Sets are read after the groups, as Transfers are after copies.
	sets := &v1alpha1.TransferSetList{}
	if err := s.Reader.List(ctx, sets); err != nil {
		return fmt.Errorf("listing TransferSets: %w", err)
	}
	named := make(map[types.UID]string, len(sets.Items))
	for i := range sets.Items {
		g := sets.Items[i].Status.Group
		if g != nil && (g.State == v1alpha1.GroupSnapshotting || g.State == v1alpha1.GroupReady) {
			named[sets.Items[i].UID] = g.Name
		}
	}
	var failed error
	for i := range groups {
		failed = errors.Join(failed, s.sweep(ctx, &groups[i], "TransferSet", named))
	}
	return failed
}

// sweep deletes a copy that nobody needs. One that is not the operator's own, by its owner, is left alone.
func (s *Sweeper) sweep(ctx context.Context, object client.Object, kind string, named map[types.UID]string) error {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != kind || owner.APIVersion != v1alpha1.GroupVersion.String() ||
		object.GetDeletionTimestamp() != nil || named[owner.UID] == object.GetName() ||
		s.Clock.Since(object.GetCreationTimestamp().Time) < sweepAge {
		return nil
	}
	log.FromContext(ctx).Info("Removing a copy of a source that no run needs", "namespace", object.GetNamespace(),
		"name", object.GetName(), "owner", owner.Kind+"/"+owner.Name)
	if err := s.delete(ctx, object); !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}
