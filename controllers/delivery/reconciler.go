// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package delivery reconciles Deliveries, the receiving side of Transfers of other clusters and of other pods of this
// one: it gathers what can be seen, has package plan decide, writes the status and does what was decided.
package delivery

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/provision"
	"github.com/lighterage/lighterage/controllers/quota/line"
	"github.com/lighterage/lighterage/controllers/receiptkey"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/staging"
	"github.com/lighterage/lighterage/controllers/statement"
	"github.com/lighterage/lighterage/controllers/topology"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=deliveries,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=lighterage.dev,resources=deliveries/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=peers;peergrants;transfers;tariffs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Reader reads past the cache: a grant that this manager has not seen yet must not look like one that is missing.
	Reader client.Reader
	// Reports of agents.
	Reports agentpoll.Poller[*wirev1.Report]
	// Keys signs receipts.
	Keys *receiptkey.Store
	// Attempts makes Jobs and Secrets.
	Attempts *agentjob.Cluster
	Recorder events.EventRecorder
	// Uses is the audit trail; nil for none.
	Uses *audit.Uses
	// Metrics count Deliveries that have ended; nil for none.
	Metrics *metrics.Deliveries
	Clock   clock.PassiveClock
	// Topology is where agents can be.
	Topology *topology.Topology
	// Books is asked before the finalizer is removed; nil: nothing is booked.
	Books *statement.Books
	// Cluster is this cluster's name in identities.
	Cluster string
	// Image that agents run.
	Image agentpod.Image
	// Retention is how long a Delivery stays after it has ended; 0 for ever.
	Retention time.Duration
	// Concurrency is how many Deliveries are looked after at once.
	Concurrency int
}

// Reconciler reconciles Deliveries.
type Reconciler struct {
	Options
	tracker   *agentjob.Tracker
	refusals  *refusal.Shower
	deletions agentjob.Deletions
	line      *line.Line[*v1alpha1.Delivery]
	claims    provision.Cluster
	staging   staging.Cluster
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler {
	claims := provision.Cluster{Client: o.Client, Reader: o.Reader}
	snapshots := staging.Cluster{Client: o.Client, Reader: o.Reader}
	refusals := &refusal.Shower{
		Client: o.Client, Clock: o.Clock, Recorder: o.Recorder,
		Public: "the receiving cluster cannot make what the agent needs, and tries again; the event of the Delivery there " +
			"says why",
	}
	r := &Reconciler{
		Options: o, claims: claims, staging: snapshots, tracker: agentjob.NewTracker(), refusals: refusals,
	}
	r.line = r.newLine()
	return r
}

// Reconcile looks after one Delivery.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	delivery := &v1alpha1.Delivery{}
	return result, r.refusals.Show(ctx, request.NamespacedName, delivery, &delivery.Status.Conditions, err)
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	delivery := &v1alpha1.Delivery{}
	if err := r.Client.Get(ctx, request.NamespacedName, delivery); err != nil {
		if apierrors.IsNotFound(err) {
			r.Reports.Forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if delivery.DeletionTimestamp != nil {
		r.Reports.Forget(request.NamespacedName)
		return r.reconcileDelete(ctx, delivery)
	}
	r.Metrics.Show(delivery.Namespace)
	if err := r.ensureFinalizer(ctx, delivery); err != nil {
		return ctrl.Result{}, err
	}
	facts, err := r.gather(ctx, delivery)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision, written, err := r.decide(ctx, delivery, facts)
	defer written(nil)
	if err != nil {
		return ctrl.Result{}, err
	}
	if decision.Ended {
		if err := r.Attempts.RemoveSecret(ctx, delivery, delivery.Name); err != nil {
			return ctrl.Result{}, err
		}
	}
	if decision.Renew {
		if err := r.Attempts.Renew(ctx, delivery, delivery.Name, r.certificate(delivery, facts.Peer)); err != nil {
			// The agent goes on with the certificate that it has, and this is tried again soon.
			log.FromContext(ctx).Error(err, "Certificate of the receiving agent cannot be renewed")
			decision.Status.Run.CertificateExpirationTime = delivery.Status.Run.CertificateExpirationTime
			decision.RequeueAfter = attempt.RenewalRetry
		}
	}
	err = r.writeStatus(ctx, delivery, decision)
	written(err)
	if err != nil {
		return ctrl.Result{}, err
	}
	problem, err := r.execute(ctx, delivery, facts, decision)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != nil {
		decision = plan.RefuseDelivery(delivery, *problem, facts.Now, r.Retention)
		if err := r.writeStatus(ctx, delivery, decision); err != nil {
			return ctrl.Result{}, err
		}
	}
	if decision.Expired {
		return ctrl.Result{}, nil
	}
	if err := r.keepHistory(ctx, delivery, decision.History, facts.Now); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: decision.RequeueAfter}, r.sign(ctx, delivery)
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, delivery *v1alpha1.Delivery) error {
	before := delivery.DeepCopy()
	if !controllerutil.AddFinalizer(delivery, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, delivery, patch, client.FieldOwner(conditions.FieldOwner)); err != nil {
		return fmt.Errorf("adding the finalizer to Delivery %s: %w", client.ObjectKeyFromObject(delivery), err)
	}
	return nil
}

func (r *Reconciler) writeStatus(
	ctx context.Context, delivery *v1alpha1.Delivery, decision plan.DeliveryDecision,
) error {
	before := delivery.DeepCopy()
	delivery.Status = decision.Status
	if _, err := conditions.WriteStatus(ctx, r.Client, before, delivery); err != nil {
		return err
	}
	if !decision.Later {
		r.Reports.Shown(client.ObjectKeyFromObject(delivery))
	}
	if plan.DeliveryEnded(delivery) && !plan.DeliveryEnded(before) {
		r.auditEnd(delivery)
		r.Metrics.Observe(delivery.Namespace, resultOf(delivery), decision.Final)
	}
	r.tell(delivery, before.Status.Conditions, decision.Detail)
	if decision.Ended {
		r.tracker.Forget(delivery.UID)
	}
	return nil
}

// execute does what was decided. Whatever of it is cut short is decided again. The problem is why the agent could not
// be started.
func (r *Reconciler) execute(
	ctx context.Context, delivery *v1alpha1.Delivery, facts plan.DeliveryFacts, decision plan.DeliveryDecision,
) (*agentpod.Problem, error) {
	if decision.Provision != nil {
		problem, err := r.provide(ctx, delivery, facts, decision)
		if problem != nil || err != nil || decision.Provision.Create != nil {
			return problem, err
		}
	}
	switch {
	case decision.Clear:
		return nil, r.Attempts.Retire(ctx, delivery, v1alpha1.DeliveryLabel, "")
	case decision.Expired:
		if err := r.Client.Delete(
			ctx, delivery, client.Preconditions{UID: &delivery.UID},
		); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("deleting Delivery %s, which ended long ago: %w", client.ObjectKeyFromObject(delivery), err)
		}
	case decision.Start != nil:
		return r.Attempts.Start(ctx, delivery, decision.Start, r.certificate(delivery, facts.Peer))
	}
	return nil, nil
}

// certificate is that of the receiving agent. Without a Peer the sending agent is of this cluster.
func (r *Reconciler) certificate(delivery *v1alpha1.Delivery, peer *v1alpha1.Peer) agentjob.Certificate {
	wanted := agentjob.Certificate{
		Identity:   pki.DeliveryIdentity(r.Cluster, delivery.Namespace, delivery.Name),
		ServerName: pki.ReceiveServerName(string(delivery.UID)),
	}
	if peer != nil {
		wanted.PeerCA = peer.Spec.CABundle
	}
	return wanted
}

// tell records an event when the reason of Ready has changed; with a detail in place of the message where there is one.
func (r *Reconciler) tell(delivery *v1alpha1.Delivery, before []metav1.Condition, detail string) {
	ready := meta.FindStatusCondition(delivery.Status.Conditions, v1alpha1.ConditionReady)
	was := meta.FindStatusCondition(before, v1alpha1.ConditionReady)
	if ready == nil || was != nil && was.Reason == ready.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if meta.IsStatusConditionTrue(delivery.Status.Conditions, v1alpha1.ConditionStalled) {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(
		delivery, nil, kind, ready.Reason, "Reconcile", "%s", conditions.Shorten(cmp.Or(detail, ready.Message)),
	)
}
