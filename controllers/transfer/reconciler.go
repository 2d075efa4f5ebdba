// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfer reconciles Transfers: it gathers what can be seen, has package plan decide, writes the status and
// does what was decided.
package transfer

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/provision"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/quota/line"
	"github.com/lighterage/lighterage/controllers/receiptkey"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/staging"
	"github.com/lighterage/lighterage/controllers/statement"
	"github.com/lighterage/lighterage/controllers/topology"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=transfers,verbs=get;list;watch;patch;create;delete
// +kubebuilder:rbac:groups=lighterage.dev,resources=transfers/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=peers;peergrants;compressionpolicies;localcompressionpolicies;tariffs;nodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=deliveries,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Reader reads past the cache.
	Reader client.Reader
	// Reports of agents. Gateways asks other clusters to end runs.
	Reports  agentpoll.Poller[*wirev1.Report]
	Gateways agentclient.PeerGateway
	// Agents are asked to pause.
	Agents agentclient.Agents
	// Keys signs receipts.
	Keys *receiptkey.Store
	// Attempts makes Jobs and Secrets.
	Attempts *agentjob.Cluster
	Recorder events.EventRecorder
	Metrics  *metrics.Transfers
	// Measured is told what runs that have ended say of paths; nil: nobody is.
	Measured func(plan.PathCost)
	Clock    clock.PassiveClock
	// Topology is where agents can be.
	Topology *topology.Topology
	// Books is asked before the finalizer is removed; nil: nothing is booked.
	Books *statement.Books
	// Egress says what agents may dial.
	Egress *egress.Cluster
	// Limits of all Transfers of the cluster together: RunningTransfers and Share.
	Limits quota.Amounts
	// Cluster is this cluster's name in identities.
	Cluster string
	// Image that agents run.
	Image agentpod.Image
	// Concurrency is how many Transfers are looked after at once.
	Concurrency int
}

// Reconciler reconciles Transfers.
type Reconciler struct {
	Options
	tracker   *agentjob.Tracker
	refusals  *refusal.Shower
	deletions agentjob.Deletions
	line      *line.Line[*v1alpha1.Transfer]
	staging   staging.Cluster
	claims    provision.Cluster
	exchanges *exchanges
	histories *exchanges
	raises    raises
	looks     looks
	holds     holds
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler {
	r := &Reconciler{Options: o, tracker: agentjob.NewTracker(), refusals: &refusal.Shower{
		Client: o.Client, Clock: o.Clock, Recorder: o.Recorder,
	}, exchanges: newExchanges(o.Clock, o.Concurrency),
		histories: newExchanges(o.Clock, o.Concurrency), staging: staging.Cluster{Client: o.Client, Reader: o.Reader},
		claims: provision.Cluster{Client: o.Client, Reader: o.Reader}}
	r.line = r.newLine()
	return r
}

// Reconcile looks after one Transfer.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	transfer := &v1alpha1.Transfer{}
	return result, r.refusals.Show(ctx, request.NamespacedName, transfer, &transfer.Status.Conditions, err)
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	transfer := &v1alpha1.Transfer{}
	if err := r.Client.Get(ctx, request.NamespacedName, transfer); err != nil {
		if apierrors.IsNotFound(err) {
			r.Reports.Forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if transfer.DeletionTimestamp != nil {
		r.Reports.Forget(request.NamespacedName)
		r.exchanges.forget(transfer.UID)
		r.histories.forget(transfer.UID)
		r.looks.forget(transfer.UID)
		return r.reconcileDelete(ctx, transfer)
	}
	r.Metrics.Show(transfer.Namespace)
	if err := r.ensureFinalizer(ctx, transfer); err != nil {
		return ctrl.Result{}, err
	}
	until, ended, err := r.judgePulled(ctx, transfer)
	if err != nil || ended {
		return ctrl.Result{}, err
	}
	if plan.Pulls(transfer) {
		return r.reconcilePull(ctx, transfer)
	}
	facts, err := r.gather(ctx, transfer)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision, written, err := r.decide(ctx, transfer, facts)
	defer written(nil)
	if err != nil {
		return ctrl.Result{}, err
	}
	if decision.Finished != nil && plan.HasPod(transfer) || plan.PodOver(transfer, decision.Status) {
		if err := r.Attempts.RemoveSecret(ctx, transfer, attemptName(transfer)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if decision.Renew {
		err := r.Attempts.Renew(ctx, transfer, attemptName(transfer), r.certificates(transfer, facts)...)
		if err != nil {
			// The run goes on with the certificate that it has, and this is tried again soon.
			log.FromContext(ctx).Error(err, "Certificate of the sending agent cannot be renewed")
			decision.Status.Run.CertificateExpirationTime = transfer.Status.Run.CertificateExpirationTime
			decision.RequeueAfter = attempt.RenewalRetry
		}
	}
	r.limit(ctx, transfer, facts, &decision)
	err = r.writeStatus(ctx, transfer, decision)
	written(err)
	if err != nil {
		return ctrl.Result{}, err
	}
	problem, err := r.execute(ctx, transfer, facts, decision)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != nil {
		decision = refuse(transfer, decision, *problem, facts.Now)
		if err := r.writeStatus(ctx, transfer, decision); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.keepHistory(ctx, transfer, decision.History, facts.Now); err != nil {
		return ctrl.Result{}, err
	}
	again, err := r.sign(ctx, transfer, &facts)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: sooner(until, sooner(decision.RequeueAfter, again))}, nil
}

// keepHistory makes and removes snapshots of the destination. It comes last, so that nothing waits for it that need
// not.
func (r *Reconciler) keepHistory(
	ctx context.Context, transfer *v1alpha1.Transfer, step *plan.HistoryStep, now time.Time,
) error {
	if step == nil {
		return nil
	}
	problem, err := r.staging.KeepHistory(ctx, plan.TransferHistory(transfer), step)
	if err != nil || problem == nil {
		return err
	}
	before := transfer.DeepCopy()
	transfer.Status = plan.RefuseHistory(transfer, *problem, now)
	_, err = conditions.WriteStatus(ctx, r.Client, before, transfer)
	return err
}

// sooner is the lesser of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, transfer *v1alpha1.Transfer) error {
	before := transfer.DeepCopy()
	if !controllerutil.AddFinalizer(transfer, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, transfer, patch, client.FieldOwner(conditions.FieldOwner)); err != nil {
		return fmt.Errorf("adding the finalizer to Transfer %s: %w", client.ObjectKeyFromObject(transfer), err)
	}
	return nil
}

// writeStatus writes what was decided, if it differs, and tells of it once.
func (r *Reconciler) writeStatus(
	ctx context.Context, transfer *v1alpha1.Transfer, decision plan.TransferDecision,
) error {
	before := transfer.DeepCopy()
	transfer.Status = decision.Status
	if _, err := conditions.WriteStatus(ctx, r.Client, before, transfer); err != nil {
		return err
	}
	if !decision.Later {
		r.Reports.Shown(client.ObjectKeyFromObject(transfer))
	}
	r.tell(transfer, before.Status.Conditions)
	r.Metrics.ObserveHooks(transfer.Namespace, before.Status.Hooks, transfer.Status.Hooks)
	if decision.Finished != nil {
		r.tracker.Forget(transfer.UID)
		r.Metrics.Observe(transfer.Namespace, decision.Finished)
		if cost := decision.Finished.PathCost; cost != nil && r.Measured != nil {
			r.Measured(*cost)
		}
	}
	return nil
}

// refuse decides what follows when what was decided cannot be made.
func refuse(
	transfer *v1alpha1.Transfer, decision plan.TransferDecision, problem agentpod.Problem, now time.Time,
) plan.TransferDecision {
	switch {
	case decision.Stage != nil, problem.Reason == v1alpha1.ReasonStagingNotAllowed:
		return plan.RefuseStaging(transfer, problem, now)
	case problem.Reason == v1alpha1.ReasonDestinationNotCreated:
		return plan.RefuseClaim(transfer, problem, now)
	}
	return plan.RefuseTransfer(transfer, problem, now)
}

// execute does what was decided. Whatever of it is cut short is decided again. The problem is why an attempt could not
// be started.
func (r *Reconciler) execute(
	ctx context.Context, transfer *v1alpha1.Transfer, facts plan.TransferFacts, decision plan.TransferDecision,
) (*agentpod.Problem, error) {
	if decision.Retire {
		if err := r.Attempts.Retire(ctx, transfer, v1alpha1.TransferLabel, attemptName(transfer)); err != nil {
			return nil, err
		}
	}
	if decision.Clear || decision.Pause && !r.pause(ctx, transfer, facts) {
		if err := r.Attempts.Retire(ctx, transfer, v1alpha1.TransferLabel, ""); err != nil {
			return nil, err
		}
	}
	if err := r.dismiss(ctx, decision.Withdraw); err != nil {
		return nil, err
	}
	if err := r.keepLegs(ctx, transfer, facts, decision); err != nil {
		return nil, err
	}
	if decision.Unstage && decision.Hook == nil {
		// A hook comes first: the application waits for it, and does not for the removal of a copy.
		if err := r.staging.Remove(ctx, transfer, plan.KeptCopy(transfer)); err != nil {
			return nil, err
		}
	}
	if decision.Provision != nil {
		problem, err := r.provide(ctx, transfer, decision)
		if problem != nil || err != nil || decision.Provision.Create != nil {
			return problem, err
		}
	}
	if decision.Tell != nil {
		problem, err := r.tellOfCopy(ctx, transfer, decision.Tell)
		if problem != nil || err != nil {
			return problem, err
		}
	}
	if decision.Hook != nil {
		return nil, r.doHook(ctx, transfer, decision.Hook, facts.Now)
	}
	if decision.Stage != nil {
		return r.staging.Make(ctx, transfer, decision.Stage)
	}
	if decision.Deliver != nil {
		return nil, r.deliver(ctx, decision.Deliver)
	}
	if decision.Start == nil {
		return nil, nil
	}
	return r.Attempts.Start(ctx, transfer, decision.Start, r.certificates(transfer, facts)...)
}

// certificates are those of the sending agent of the run in status: one for each receiver.
func (r *Reconciler) certificates(transfer *v1alpha1.Transfer, facts plan.TransferFacts) []agentjob.Certificate {
	if !plan.HasLegs(transfer) {
		return []agentjob.Certificate{r.certificate(transfer, facts.Peer)}
	}
	var all []agentjob.Certificate
	for name, leg := range plan.Receivers(transfer, facts.Legs) {
		one := r.certificate(leg.Transfer, leg.Peer)
		one.Receiver = name
		all = append(all, one)
	}
	return all
}

// certificate is that of the sending agent of the run in status. Without a Peer the receiving agent is of this cluster.
func (r *Reconciler) certificate(transfer *v1alpha1.Transfer, peer *v1alpha1.Peer) agentjob.Certificate {
	wanted := agentjob.Certificate{
		Identity:   pki.TransferIdentity(r.Cluster, transfer.Namespace, transfer.Name),
		ServerName: pki.SendServerName(string(transfer.UID)),
		Claims:     plan.RunClaims(transfer),
	}
	if peer != nil {
		wanted.PeerCA = peer.Spec.CABundle
	}
	return wanted
}

// attemptName is that of the attempt in status; empty when there was none yet.
func attemptName(transfer *v1alpha1.Transfer) string {
	run := transfer.Status.Run
	if run == nil {
		return ""
	}
	return attempt.Name(transfer.Name, run.ID, run.Attempt)
}

// now is the time as the API keeps it.
func (r *Reconciler) now() time.Time {
	return r.Clock.Now().Truncate(time.Second)
}

// newRunID returns 5 random lower-case letters and digits of base32.
func newRunID() string {
	return strings.ToLower(rand.Text()[:5])
}

// warning reports whether a reason is worth a Warning in place of a Normal event.
func warning(stalled bool, reason string) string {
	switch {
	case stalled, reason == v1alpha1.ReasonRetrying, reason == v1alpha1.ReasonUnschedulable,
		reason == v1alpha1.ReasonAgentNotStarted, reason == v1alpha1.ReasonPeerUnreachable:
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
