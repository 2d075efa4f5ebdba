// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// Pull makes the Transfer that a peer asks for, or changes it, and says how it is. Whether it may run is for the
// manager here to judge again, and what it costs counts here.
func (s *service) Pull(ctx context.Context, in *wirev1.PullRequest) (_ *wirev1.PullResponse, err error) {
	from, err := s.caller(ctx)
	defer func() { s.ended("Pull", from, err) }()
	if err != nil {
		return nil, err
	}
	if from.identity.Path != pki.ManagerPath {
		return nil, untrusted("the certificate names %s, and only a manager may pull", from.identity.Path)
	}
	now := s.options.Clock.Now()
	wanted, of, err := newPull(from.peer, in, now)
	if err != nil {
		return nil, err
	}
	grants := &v1alpha1.PeerGrantList{}
	err = s.options.Client.List(ctx, grants, client.InNamespace(wanted.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, s.noAPI(err, "PeerGrants cannot be listed")
	}
	// Before anything is looked for: who has no grant learns nothing of what there is.
	if verdict := peergrant.Decide(grants.Items, peergrant.OfPull(wanted, of), now); !verdict.Allowed {
		return nil, refuse(codes.PermissionDenied, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "%s", verdict.Refusal)
	}
	// From the API server: no gateway keeps all Transfers in memory for those few that are pulled.
	present := &v1alpha1.Transfer{}
	err = s.options.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), present)
	if apierrors.IsNotFound(err) {
		return s.createPulled(ctx, wanted)
	}
	if apierrors.IsForbidden(err) {
		return nil, refuse(codes.FailedPrecondition, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED,
			"the source's cluster does not let others pull; have its administrator install the chart with pulls.enabled=true")
	}
	if err != nil {
		return nil, s.noAPI(err, "Transfer cannot be read")
	}
	return s.keepPulled(ctx, present, wanted, of, now)
}

// pendingPull is the answer while there is no Transfer that could be asked about.
func pendingPull(wanted *v1alpha1.Transfer, reason, format string, arguments ...any) *wirev1.PullResponse {
	return &wirev1.PullResponse{
		Transfer: wanted.Name, Phase: string(v1alpha1.TransferPending), Reason: reason,
		Message: fmt.Sprintf(format, arguments...),
	}
}

// createPulled makes the Transfer, unless the peer has as many in the namespace as it may. Those that have ended make
// space, oldest first.
func (s *service) createPulled(ctx context.Context, wanted *v1alpha1.Transfer) (*wirev1.PullResponse, error) {
	peer := wanted.Labels[v1alpha1.PulledByLabel]
	neighbours := &v1alpha1.TransferList{}
	err := s.options.Reader.List(
		ctx, neighbours, client.InNamespace(wanted.Namespace), client.MatchingLabels{v1alpha1.PulledByLabel: peer},
	)
	if err != nil {
		return nil, s.noAPI(err, "Transfers cannot be listed")
	}
	if n := len(neighbours.Items); n >= s.options.PullsPerNamespace {
		if oldest := oldestEnded(neighbours.Items); oldest != nil {
			if err := s.deletePulled(ctx, oldest, "Another pull takes its place"); err != nil {
				return nil, err
			}
		}
		return pendingPull(wanted, v1alpha1.ReasonQuotaExceeded,
			"there are %d pulls of this cluster in the source's namespace, as many as its gateway allows; wait until one has "+
				"ended, or delete its Transfer", n), nil
	}
	err = s.options.Client.Create(ctx, wanted)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err): // another gateway was faster
		s.log.Info("Pull admitted", "audit", true, "peer", peer, "transfer", client.ObjectKeyFromObject(wanted),
			"of", wanted.Annotations[v1alpha1.PullAnnotation],
			"claim", wanted.Spec.Source.PersistentVolumeClaim.ClaimName, "path", wanted.Spec.Source.PersistentVolumeClaim.Path)
		return plan.PullAnswer(wanted), nil
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, refuse(codes.NotFound, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"namespace %s of the source cluster is being deleted; have it created again there, with its claim and PeerGrant",
			wanted.Namespace)
	case apierrors.IsForbidden(err):
		// An exceeded ResourceQuota is said in no other way than what a policy forbids.
		s.log.Error(err, "Transfer of a pull is not admitted", "transfer", client.ObjectKeyFromObject(wanted))
		return pendingPull(wanted, v1alpha1.ReasonQuotaExceeded,
			"a ResourceQuota or a policy of the source's namespace does not admit the Transfer now; the log of its gateway "+
				"says which"), nil
	case apierrors.IsInvalid(err):
		s.log.Error(err, "Transfer of a pull is rejected", "transfer", client.ObjectKeyFromObject(wanted))
		return nil, invalid("the source cluster's API server does not accept the pull; its gateway's log says why")
	default:
		return nil, s.noAPI(err, "Transfer cannot be created")
	}
}

// oldestEnded is the oldest of the Transfers whose run has ended; nil if there is none, or a place is being freed.
func oldestEnded(transfers []v1alpha1.Transfer) *v1alpha1.Transfer {
	var oldest *v1alpha1.Transfer
	for i := range transfers {
		t := &transfers[i]
		if !t.DeletionTimestamp.IsZero() {
			return nil
		}
		ended := t.Status.Run != nil && t.Status.Run.CompletionTime != nil
		if ended && (oldest == nil || t.CreationTimestamp.Before(&oldest.CreationTimestamp)) {
			oldest = t
		}
	}
	return oldest
}

// keepPulled brings the Transfer up to date.
func (s *service) keepPulled(
	ctx context.Context, present, wanted *v1alpha1.Transfer, of plan.PullReference, now time.Time,
) (*wirev1.PullResponse, error) {
	is, pulled := plan.PulledFor(present)
	switch {
	case !pulled || is != of:
		return nil, aborted("Transfer %s of the source's namespace is none of this pull; have it deleted there", present.Name)
	case !present.DeletionTimestamp.IsZero():
		return pendingPull(wanted, v1alpha1.ReasonDeleting, "an earlier pull is being ended in the source cluster"), nil
	case !sameEnds(present, wanted):
		if err := s.deletePulled(ctx, present, "The pull has another source or destination"); err != nil {
			return nil, err
		}
		return pendingPull(wanted, v1alpha1.ReasonDeleting, "an earlier pull is being ended in the source cluster"), nil
	}
	after := present.DeepCopy()
	source, destination := present.Spec.Source, present.Spec.Destination
	after.Spec = *wanted.Spec.DeepCopy()
	after.Spec.Source, after.Spec.Destination = source, destination
	after.Spec.Inflate = present.Spec.Inflate
	if after.Spec.CheckpointInterval == nil { // what the API server fills in
		after.Spec.CheckpointInterval = present.Spec.CheckpointInterval
	}
	if after.Spec.MaxAttempts == 0 {
		after.Spec.MaxAttempts = present.Spec.MaxAttempts
	}
	after.Annotations[v1alpha1.RunAnnotation] = wanted.Annotations[v1alpha1.RunAnnotation]
	asked, err := time.Parse(time.RFC3339, after.Annotations[v1alpha1.PullAskedAnnotation])
	if age := now.Sub(asked); err != nil || age >= plan.PullAskedStep || age < 0 {
		after.Annotations[v1alpha1.PullAskedAnnotation] = wanted.Annotations[v1alpha1.PullAskedAnnotation]
	}
	if !equality.Semantic.DeepEqual(present, after) {
		if err := s.options.Client.Patch(ctx, after, client.MergeFrom(present)); err != nil {
			if apierrors.IsNotFound(err) {
				return pendingPull(wanted, v1alpha1.ReasonDeleting, "an earlier pull has been ended in the source cluster"), nil
			}
			return nil, s.noAPI(err, "Transfer of a pull cannot be changed")
		}
	}
	return plan.PullAnswer(present), nil
}

func sameEnds(a, b *v1alpha1.Transfer) bool {
	return a.Spec.Source.PersistentVolumeClaim == b.Spec.Source.PersistentVolumeClaim &&
		a.Spec.Destination.PersistentVolumeClaim == b.Spec.Destination.PersistentVolumeClaim
}

// withdrawPulled deletes what was made for a Transfer of the peer that pulls.
func (s *service) withdrawPulled(ctx context.Context, peer string, in *wirev1.WithdrawRequest) error {
	of := plan.PullReference{
		Peer: peer, Namespace: in.GetNamespace(), Name: in.GetName(), UID: in.GetPull().GetUid(),
	}
	if err := validatePull(of, in.GetPull().GetNamespace()); err != nil {
		return err
	}
	present := &v1alpha1.Transfer{}
	key := client.ObjectKey{Namespace: in.GetPull().GetNamespace(), Name: plan.PullName(of.Namespace, of.Name, of.UID)}
	if err := s.options.Reader.Get(ctx, key, present); err != nil {
		// Where pulls were switched off, the manager ends what nobody asks for.
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return s.noAPI(err, "Transfer cannot be read")
	}
	if is, pulled := plan.PulledFor(present); !pulled || is != of {
		return nil
	}
	return s.deletePulled(ctx, present, "Withdrawn by its peer")
}

// deletePulled deletes a Transfer, which its finalizer keeps until its agent is gone.
func (s *service) deletePulled(ctx context.Context, transfer *v1alpha1.Transfer, why string) error {
	err := s.options.Client.Delete(ctx, transfer, client.Preconditions{UID: &transfer.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return s.noAPI(err, "Transfer of a pull cannot be deleted")
	}
	s.log.Info("Transfer of a pull deleted", "transfer", client.ObjectKeyFromObject(transfer), "cause", why)
	return nil
}

// noAPI logs what the API server says, of which a peer learns nothing.
func (s *service) noAPI(err error, what string) error {
	s.log.Error(err, what)
	return unavailable("the gateway cannot reach its API server now")
}
