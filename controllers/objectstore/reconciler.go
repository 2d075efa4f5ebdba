// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectstore reconciles ObjectStores: it has an agent probe the store and shows what it found. The manager
// itself neither dials the store nor reads its credentials. Package plan decides.
package objectstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/objectstoreplan"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/wake"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=objectstores,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=objectstores/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Attempts makes Jobs and Secrets.
	Attempts *agentjob.Cluster
	// Egress says what agents may dial.
	Egress   *egress.Cluster
	Recorder events.EventRecorder
	Metrics  *metrics.ObjectStores
	Clock    clock.PassiveClock
	// Cluster is this cluster's name in identities.
	Cluster string
	// OperatorNamespace is where the gateway is.
	OperatorNamespace string
	// Image that agents run.
	Image agentpod.Image
	// Concurrency is how many ObjectStores are looked after at once.
	Concurrency int
}

type reconciler struct {
	Options
	refusals *refusal.Shower
}

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := &reconciler{Options: o, refusals: &refusal.Shower{Client: o.Client, Clock: o.Clock, Recorder: o.Recorder}}
	stores := func() client.ObjectList { return &v1alpha1.ObjectStoreList{} }
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.ObjectStore{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(
			wake.Labelled(o.Client, stores, v1alpha1.ObjectStoreLabel),
		), builder.WithPredicates(wake.Later())).
		WithOptions(refusal.ControllerOptions(o.Concurrency)).
		Complete(wake.Again(r))
	if err != nil {
		return fmt.Errorf("registering the ObjectStore controller: %w", err)
	}
	return nil
}

// Reconcile looks after one ObjectStore. What it consists of is its own, so that it goes when the store is deleted.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	store := &v1alpha1.ObjectStore{}
	return result, r.refusals.Show(ctx, request.NamespacedName, store, &store.Status.Conditions, err)
}

func (r *reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	store := &v1alpha1.ObjectStore{}
	found, err := lookup.Get(ctx, r.Client, request.NamespacedName, store)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !found || store.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	facts, err := r.gather(ctx, store)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := objectstoreplan.Decide(store, facts, r.Image)
	if decision.Ended {
		if err := r.Attempts.RemoveSecret(ctx, store, objectstoreplan.ProbeName(store)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.writeStatus(ctx, store, decision); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Attempts.Retire(ctx, store, v1alpha1.ObjectStoreLabel, decision.Keep...); err != nil {
		return ctrl.Result{}, err
	}
	if decision.RelayEnded != "" {
		r.Metrics.RelayEnded(store.Namespace, decision.RelayEnded)
	}
	for _, one := range []struct {
		start  *attempt.Attempt
		refuse func(*v1alpha1.ObjectStore, agentpod.Problem, time.Time) objectstoreplan.Decision
	}{{decision.Start, objectstoreplan.Refuse}, {decision.Relay, objectstoreplan.RefuseRelay}} {
		if one.start == nil {
			continue
		}
		problem, err := r.Attempts.Start(ctx, store, one.start, agentjob.Certificate{
			Identity:   pki.ObjectStoreIdentity(r.Cluster, store.Namespace, store.Name),
			ServerName: pki.ProbeServerName(string(store.UID)),
		})
		if err != nil {
			return ctrl.Result{}, err
		}
		if problem == nil {
			continue
		}
		refused := one.refuse(store, *problem, facts.Now)
		if err := r.writeStatus(ctx, store, refused); err != nil {
			return ctrl.Result{}, err
		}
		decision.RequeueAfter = attempt.Sooner(decision.RequeueAfter, refused.RequeueAfter)
	}
	return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
}

// writeStatus writes what was decided, if it differs, and tells of it once.
func (r *reconciler) writeStatus(
	ctx context.Context, store *v1alpha1.ObjectStore, decision objectstoreplan.Decision,
) error {
	before := store.DeepCopy()
	store.Status = decision.Status
	if _, err := conditions.WriteStatus(ctx, r.Client, before, store); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(store.Status.Conditions, v1alpha1.ConditionReady)
	// One that could not begin is complete in the same status in which it appears.
	if completed(store) && (!completed(before) || before.Status.Probe.ID != store.Status.Probe.ID) {
		r.Metrics.Probed(store.Namespace, ready.Reason)
	}
	conditions.Tell(r.Recorder, store, before.Status.Conditions, store.Status.Conditions)
	return nil
}

func completed(store *v1alpha1.ObjectStore) bool {
	return store.Status.Probe != nil && store.Status.Probe.CompletionTime != nil
}

// gather reads everything that a decision needs.
func (r *reconciler) gather(ctx context.Context, store *v1alpha1.ObjectStore) (objectstoreplan.Facts, error) {
	facts := objectstoreplan.Facts{Now: r.Clock.Now().Truncate(time.Second), NewID: strings.ToLower(rand.Text()[:5])}
	host, _ := attempt.StoreHost(store.Spec)
	use := egress.Use{Field: "spec.endpoint", Written: store.Spec.Endpoint, Host: host}
	if store.Spec.Addressing == v1alpha1.StoreAddressingVirtualHost {
		use.Field, use.Written = "spec.endpoint with spec.bucket", host
	}
	permission, err := r.Egress.Permission(ctx, store.Namespace, []egress.Use{use})
	if err != nil {
		return facts, err
	}
	facts.Dial, facts.Service, facts.Problem = permission.Policy, permission.Services[host], permission.Problem
	if probe := store.Status.Probe; probe != nil && probe.CompletionTime == nil {
		facts.Job, facts.Pod, err = r.Attempts.Find(ctx, store, objectstoreplan.ProbeName(store))
	}
	if err != nil || store.Spec.HandOff != v1alpha1.StoreHandOffReceive {
		return facts, err
	}
	gateway := &corev1.Service{}
	key := client.ObjectKey{Namespace: r.OperatorNamespace, Name: objectstoreplan.GatewayService}
	found, err := lookup.Get(ctx, r.Client, key, gateway)
	if err != nil {
		return facts, err
	}
	if found {
		facts.Gateway = gateway
	}
	if name := objectstoreplan.RelayName(store, facts.Gateway, r.Image); name != "" {
		facts.RelayJob, facts.RelayPod, err = r.Attempts.Find(ctx, store, name)
	}
	return facts, err
}
