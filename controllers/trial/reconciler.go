// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial reconciles CompressionTrials: it gathers what can be seen, has package plan decide, writes the status
// and does what was decided.
package trial

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/trialplan"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=compressiontrials,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=lighterage.dev,resources=compressiontrials/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=compressionpolicies;localcompressionpolicies;tariffs;nodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Reports of agents.
	Reports agentpoll.Poller[*wirev1.Report]
	// Attempts makes Jobs and Secrets.
	Attempts *agentjob.Cluster
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Topology is where agents can be.
	Topology *topology.Topology
	// Cluster is this cluster's name in identities.
	Cluster string
	// Image that agents run.
	Image agentpod.Image
	// Concurrency is how many CompressionTrials are looked after at once.
	Concurrency int
}

// Reconciler reconciles CompressionTrials.
type Reconciler struct {
	Options
	refusals *refusal.Shower
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{Options: o, refusals: &refusal.Shower{
		Client: o.Client, Clock: o.Clock, Recorder: o.Recorder,
	}}
}

// Reconcile looks after one CompressionTrial. What it consists of is its own, so that it goes when the trial is
// deleted.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	trial := &v1alpha1.CompressionTrial{}
	return result, r.refusals.Show(ctx, request.NamespacedName, trial, &trial.Status.Conditions, err)
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	trial := &v1alpha1.CompressionTrial{}
	found, err := lookup.Get(ctx, r.Client, request.NamespacedName, trial)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !found || trial.DeletionTimestamp != nil {
		r.Reports.Forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	facts, err := r.gather(ctx, trial)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := trialplan.Decide(trial, facts, r.Image)
	if decision.Expired {
		return ctrl.Result{}, r.expire(ctx, trial)
	}
	if decision.Ended {
		if err := r.Attempts.RemoveSecret(ctx, trial, attemptName(trial)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if decision.Renew {
		if err := r.Attempts.Renew(ctx, trial, attemptName(trial), r.certificate(trial)); err != nil {
			// The agent goes on with the certificate that it has, and this is tried again soon.
			log.FromContext(ctx).Error(err, "Certificate of the trial's agent cannot be renewed")
			decision.Status.Run.CertificateExpirationTime = trial.Status.Run.CertificateExpirationTime
			decision.RequeueAfter = attempt.RenewalRetry
		}
	}
	if err := r.writeStatus(ctx, trial, decision); err != nil {
		return ctrl.Result{}, err
	}
	if decision.Clear {
		if err := r.Attempts.Retire(ctx, trial, v1alpha1.TrialLabel, ""); err != nil {
			return ctrl.Result{}, err
		}
	}
	problem, err := r.Attempts.Replace(ctx, trial, v1alpha1.TrialLabel, decision.Start, r.certificate(trial))
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != nil {
		decision = trialplan.Refuse(trial, *problem, facts.Now)
		if err := r.writeStatus(ctx, trial, decision); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
}

// certificate is that of the agent.
func (r *Reconciler) certificate(trial *v1alpha1.CompressionTrial) agentjob.Certificate {
	return agentjob.Certificate{
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
func (r *Reconciler) writeStatus(
	ctx context.Context, trial *v1alpha1.CompressionTrial, decision trialplan.Decision,
) error {
	before := trial.DeepCopy()
	trial.Status = decision.Status
	if _, err := conditions.WriteStatus(ctx, r.Client, before, trial); err != nil {
		return err
	}
	if !decision.Later {
		r.Reports.Shown(client.ObjectKeyFromObject(trial))
	}
	ready, was := meta.FindStatusCondition(
		trial.Status.Conditions, v1alpha1.ConditionReady,
	), meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	stalled := meta.IsStatusConditionTrue(trial.Status.Conditions, v1alpha1.ConditionStalled)
	if ready == nil || was != nil && was.Reason == ready.Reason &&
		meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionStalled) == stalled {
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
func (r *Reconciler) gather(ctx context.Context, trial *v1alpha1.CompressionTrial) (trialplan.Facts, error) {
	facts := trialplan.Facts{Now: r.Clock.Now().Truncate(time.Second), NewRunID: strings.ToLower(rand.Text()[:5]),
		CertificateLifetime: r.Attempts.CertificateLifetime()}
	if err := r.gatherSource(ctx, trial, &facts); err != nil {
		return facts, err
	}
	namespace, err := lookup.Namespace(ctx, r.Client, trial.Namespace)
	if err != nil {
		return facts, err
	}
	facts.PrivilegeAllowed = agentpod.AllowsPrivilege(namespace)
	facts.Policies, err = lookup.Policies(ctx, r.Client, trial.Namespace, trial.Spec.Compression.Policy())
	if err != nil {
		return facts, err
	}
	tariffs := &v1alpha1.TariffList{}
	if err := r.Client.List(ctx, tariffs, client.UnsafeDisableDeepCopy); err != nil {
		return facts, fmt.Errorf("listing Tariffs: %w", err)
	}
	facts.Tariffs = tariffs.Items
	if attempt.NeedsPlacement(trial.Status.Run, trial.Status.Placement) {
		if facts.Placement, err = r.Topology.Facts(ctx, trial.Namespace, claimName(trial)); err != nil {
			return facts, err
		}
	}
	return facts, r.gatherAttempt(ctx, trial, &facts)
}

// gatherAttempt looks at the attempt that status names, and at what its agent said.
func (r *Reconciler) gatherAttempt(
	ctx context.Context, trial *v1alpha1.CompressionTrial, facts *trialplan.Facts,
) error {
	run := trial.Status.Run
	ended := run == nil || run.CompletionTime != nil || run.NextAttemptTime != nil
	if ended {
		r.Reports.Forget(client.ObjectKeyFromObject(trial))
	}
	if run == nil || ended && trial.Status.Phase != v1alpha1.TrialComplete {
		return nil
	}
	var err error
	facts.Job, facts.Pod, err = r.Attempts.Find(ctx, trial, attemptName(trial))
	if err != nil || run.CompletionTime != nil {
		return err
	}
	heard := agentjob.Listen(
		r.Reports, client.ObjectKeyFromObject(trial), facts.Job, facts.Pod, pki.TrialServerName(string(trial.UID)),
	)
	facts.Report, facts.Early, facts.Silent = heard.Report, heard.Early, heard.Silent
	return nil
}

// attemptName is that of the attempt in status; empty when there was none yet.
func attemptName(trial *v1alpha1.CompressionTrial) string {
	run := trial.Status.Run
	if run == nil {
		return ""
	}
	return attempt.Name(trial.Name, run.ID, run.Attempt)
}
