// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial reconciles CompressionTrials: it gathers what can be seen, has package plan decide, writes the status and does what was
// decided.
package trial

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=compressiontrials,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=lighterage.dev,resources=compressiontrials/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=compressionpolicies;nodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// conflictPause is the wait after a write from a stale read.
const conflictPause = 200 * time.Millisecond

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Agents asks agents for reports.
	Agents agentclient.Agents
	// Attempts makes Jobs and Secrets.
	Attempts *attempt.Cluster
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Cluster is this cluster's name in identities.
	Cluster string
	// Image that agents run.
	Image plan.AgentImage
	// Concurrency is how many CompressionTrials are looked after at once.
	Concurrency int
}

// Reconciler reconciles CompressionTrials.
type Reconciler struct {
	Options
	tracker *attempt.Tracker
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{Options: o, tracker: attempt.NewTracker()}
}

// Reconcile looks after one CompressionTrial. What it consists of is its own, so that it goes when the trial is deleted.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	if apierrors.IsConflict(err) {
		// The cache is behind; soon it will not be.
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	trial := &v1alpha1.CompressionTrial{}
	if found, err := lookup.Get(ctx, r.Client, request.NamespacedName, trial); err != nil || !found {
		return ctrl.Result{}, err
	}
	if trial.DeletionTimestamp != nil {
		r.tracker.Forget(trial.UID)
		return ctrl.Result{}, nil
	}
	facts, err := r.gather(ctx, trial)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := plan.DecideTrial(trial, facts, r.Image)
	if decision.Expired {
		return ctrl.Result{}, r.expire(ctx, trial)
	}
	if decision.Ended {
		if err := r.Attempts.RemoveSecret(ctx, trial, attemptName(trial)); err != nil {
			return ctrl.Result{}, err
		}
		r.tracker.Forget(trial.UID)
	}
	if decision.Renew {
		if err := r.Attempts.Renew(ctx, trial, attemptName(trial), r.certificate(trial)); err != nil {
			// The agent goes on with the certificate that it has, and this is tried again with the next look.
			log.FromContext(ctx).Error(err, "Certificate of the trial's agent cannot be renewed")
			decision.Status.Run.CertificateExpirationTime = trial.Status.Run.CertificateExpirationTime
		}
	}
	if err := r.writeStatus(ctx, trial, decision); err != nil {
		return ctrl.Result{}, err
	}
	problem, err := r.start(ctx, trial, decision.Start)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != nil {
		decision = plan.RefuseTrial(trial, *problem, facts.Now)
		if err := r.writeStatus(ctx, trial, decision); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
}

// start makes the attempt after what earlier ones left is removed. The problem is why it could not be made.
func (r *Reconciler) start(ctx context.Context, trial *v1alpha1.CompressionTrial, wanted *plan.Attempt) (*plan.Problem, error) {
	if wanted == nil {
		return nil, nil
	}
	if err := r.Attempts.Retire(ctx, trial, v1alpha1.TrialLabel, attemptName(trial)); err != nil {
		return nil, err
	}
	return r.Attempts.Start(ctx, trial, wanted, r.certificate(trial))
}

// certificate is that of the agent.
func (r *Reconciler) certificate(trial *v1alpha1.CompressionTrial) attempt.Certificate {
	return attempt.Certificate{
		Identity:   pki.TrialIdentity(r.Cluster, trial.Namespace, trial.Name),
		ServerName: pki.TrialServerName(string(trial.UID)),
	}
}

// expire deletes the trial that was looked at, and none of its name that was made since.
func (r *Reconciler) expire(ctx context.Context, trial *v1alpha1.CompressionTrial) error {
	err := r.Client.Delete(ctx, trial, client.Preconditions{UID: &trial.UID, ResourceVersion: &trial.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting CompressionTrial %s, whose time has come: %w", client.ObjectKeyFromObject(trial), err)
	}
	return nil
}

// writeStatus writes what was decided, if it differs, and tells of it once.
func (r *Reconciler) writeStatus(ctx context.Context, trial *v1alpha1.CompressionTrial, decision plan.TrialDecision) error {
	before := trial.DeepCopy()
	trial.Status = decision.Status
	if _, err := conditions.WriteStatus(ctx, r.Client, before, trial); err != nil {
		return err
	}
	ready, was := meta.FindStatusCondition(trial.Status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	stalled := meta.IsStatusConditionTrue(trial.Status.Conditions, v1alpha1.ConditionStalled)
	if ready == nil || was != nil && was.Reason == ready.Reason && meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionStalled) == stalled {
		return nil
	}
	kind := corev1.EventTypeNormal
	if stalled || ready.Reason == v1alpha1.ReasonRetrying {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(trial, nil, kind, ready.Reason, "Reconcile", "%s", ready.Message)
	return nil
}

// gather reads everything that a decision needs.
func (r *Reconciler) gather(ctx context.Context, trial *v1alpha1.CompressionTrial) (plan.TrialFacts, error) {
	facts := plan.TrialFacts{Now: r.Clock.Now().Truncate(time.Second), NewRunID: strings.ToLower(rand.Text()[:5]),
		CertificateLifetime: r.Attempts.CertificateLifetime()}
	if err := r.gatherSource(ctx, trial, &facts); err != nil {
		return facts, err
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: trial.Namespace}, namespace)
	if err != nil {
		return facts, err
	}
	facts.PrivilegeAllowed = found && namespace.Annotations[v1alpha1.AllowPrivilegedAnnotation] == "true"
	policies := &v1alpha1.CompressionPolicyList{}
	if err := r.Client.List(ctx, policies); err != nil {
		return facts, fmt.Errorf("listing CompressionPolicies: %w", err)
	}
	facts.Policies = policies.Items
	if plan.NeedsPlacement(trial.Status.Run, trial.Status.Placement) {
		if facts.Placement, err = topology.Facts(ctx, r.Client, trial.Namespace, claimName(trial)); err != nil {
			return facts, err
		}
	}
	return facts, r.gatherAttempt(ctx, trial, &facts)
}

// gatherAttempt looks at the attempt that status names, and asks its agent.
func (r *Reconciler) gatherAttempt(ctx context.Context, trial *v1alpha1.CompressionTrial, facts *plan.TrialFacts) error {
	run := trial.Status.Run
	if run == nil || run.CompletionTime != nil || run.NextAttemptTime != nil {
		return nil
	}
	var err error
	if facts.Job, facts.Pod, err = r.Attempts.Find(ctx, trial, attemptName(trial)); err != nil {
		return err
	}
	ip, ok := plan.AgentToAsk(facts.Job, facts.Pod)
	if !ok {
		return nil
	}
	report, err := r.Agents.Report(ctx, agentclient.Target{
		Address: net.JoinHostPort(ip, strconv.Itoa(plan.ControlPort)), ServerName: pki.TrialServerName(string(trial.UID)),
	})
	if err != nil {
		// An agent that has just started or just ended does not answer; the status says so when it lasts.
		facts.Silence = r.tracker.Silence(trial.UID, attemptName(trial), r.Clock.Now())
		log.FromContext(ctx).V(1).Info("Agent does not answer", "pod", facts.Pod.Name, "reason", err.Error())
		return nil
	}
	facts.Report = report
	r.tracker.Add(trial.UID, attemptName(trial), r.Clock.Now(), 0)
	return nil
}

// attemptName is that of the attempt in status; empty when there was none yet.
func attemptName(trial *v1alpha1.CompressionTrial) string {
	run := trial.Status.Run
	if run == nil {
		return ""
	}
	return plan.AttemptName(trial.Name, run.ID, run.Attempt)
}
