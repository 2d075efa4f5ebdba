// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/refusal"
)

const (
	// hookPatience is how long a deletion tries to start an after-hook.
	hookPatience = 5 * time.Minute
	hookPause    = time.Second
)

// gatherHooks looks at the CronJobs and Jobs of hooks. The cache has neither.
func (r *Reconciler) gatherHooks(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts) error {
	if !plan.NeedsHooks(transfer) {
		return nil
	}
	var err error
	facts.Hooks, err = r.lookAtHooks(ctx, transfer)
	return err
}

func (r *Reconciler) lookAtHooks(ctx context.Context, transfer *v1alpha1.Transfer) (plan.HookFacts, error) {
	facts, hooks := plan.HookFacts{Seen: true}, transfer.Status.Hooks
	for _, hook := range []struct {
		status *v1alpha1.HookStatus
		seen   *plan.HookSeen
	}{{&hooks.Before, &facts.Before}, {&hooks.After, &facts.After}} {
		if hook.status.CronJob == "" || hook.status.Ended() {
			continue
		}
		var err error
		if *hook.seen, err = r.lookAtHook(ctx, transfer, hook.status); err == nil {
			continue
		}
		if words, forbidden := refusal.Final(err); forbidden {
			facts.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonHooksNotAllowed, Message: fmt.Sprintf(
				"the manager may not read CronJobs in this cluster; ask the platform team to install the chart with "+
					"hooks.enabled, or remove spec.source.hooks: %s", conditions.Shorten(words))}
			return facts, nil
		}
		return facts, err
	}
	return facts, nil
}

func (r *Reconciler) lookAtHook(
	ctx context.Context, transfer *v1alpha1.Transfer, hook *v1alpha1.HookStatus,
) (plan.HookSeen, error) {
	seen, cronJob, job := plan.HookSeen{}, &batchv1.CronJob{}, &batchv1.Job{}
	found, err := lookup.Get(ctx, r.Reader, client.ObjectKey{Namespace: transfer.Namespace, Name: hook.CronJob}, cronJob)
	if err != nil {
		return seen, err
	}
	if found {
		seen.CronJob = cronJob
	}
	found, err = lookup.Get(ctx, r.Reader, client.ObjectKey{Namespace: transfer.Namespace, Name: hook.Job}, job)
	if err != nil || !found {
		return seen, err
	}
	if seen.Foreign = job.Annotations[v1alpha1.HookAnnotation] != string(transfer.UID); !seen.Foreign {
		seen.Job = job
	}
	return seen, nil
}

// doHook makes or deletes the Job of a hook. What the API server has against one is shown.
func (r *Reconciler) doHook(
	ctx context.Context, transfer *v1alpha1.Transfer, step *plan.HookStep, now time.Time,
) error {
	if step.End != nil {
		// In the foreground: it is there until its pods have ended.
		err := r.Client.Delete(ctx, step.End, client.PropagationPolicy(metav1.DeletePropagationForeground),
			client.Preconditions{UID: &step.End.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Job %s of a hook: %w", client.ObjectKeyFromObject(step.End), err)
		}
		return nil
	}
	err := r.Client.Create(ctx, step.Start, client.FieldOwner(conditions.FieldOwner))
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	words, final := refusal.Final(err)
	if !final && apierrors.IsRequestEntityTooLargeError(err) {
		words, final = err.Error(), true
	}
	if !final {
		return fmt.Errorf("creating Job %s of a hook: %w", client.ObjectKeyFromObject(step.Start), err)
	}
	return r.writeStatus(ctx, transfer, plan.RefuseHook(transfer, step, words, now))
}

// endHooks has the after-hook started of a Transfer that is being deleted; waiting is true while it has to be.
func (r *Reconciler) endHooks(
	ctx context.Context, transfer *v1alpha1.Transfer, deleted time.Duration,
) (waiting bool, err error) {
	if !plan.NeedsHooks(transfer) {
		return false, nil
	}
	facts, err := r.lookAtHooks(ctx, transfer)
	if err != nil {
		return false, err
	}
	now := r.now()
	decision, done := plan.ReleaseHooks(transfer, facts, now)
	if err := r.writeStatus(ctx, transfer, decision); err != nil {
		return false, err
	}
	if decision.Hook != nil {
		if err := r.doHook(ctx, transfer, decision.Hook, now); err != nil {
			return false, err
		}
	}
	if done || deleted < hookPatience {
		return !done, nil
	}
	r.Recorder.Eventf(transfer, nil, corev1.EventTypeWarning, v1alpha1.ReasonAfterHookFailed, "Release",
		"the after-hook, CronJob %q, could not be started; run it by hand", transfer.Status.Hooks.After.CronJob)
	return false, nil
}

// tellOfHooks records an event when the hooks turn out to have failed.
func (r *Reconciler) tellOfHooks(transfer *v1alpha1.Transfer, before []metav1.Condition) {
	is := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionHooksSucceeded)
	was := meta.FindStatusCondition(before, v1alpha1.ConditionHooksSucceeded)
	if is == nil || is.Status != metav1.ConditionFalse || was != nil && was.Reason == is.Reason {
		return
	}
	r.Recorder.Eventf(transfer, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
}
