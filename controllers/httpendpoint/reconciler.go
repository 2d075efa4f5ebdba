// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
	"github.com/lighterage/lighterage/controllers/owned"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/topology"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=httpendpoints,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=httpendpoints/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=compressionpolicies;localcompressionpolicies;tariffs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes. Secrets are written and never read.
	Client client.Client
	// Reader reads past the cache.
	Reader client.Reader
	// Reports of replicas.
	Reports agentpoll.Poller[*wirev1.HTTPReport]
	// Authority issues the certificates with which replicas answer the manager; Lifetime is theirs, renewed at half of
	// it.
	Authority *pki.Authority
	Lifetime  time.Duration
	// Networks writes the replicas' NetworkPolicy; nil: they have none.
	Networks *networkpolicy.Keeper
	Recorder events.EventRecorder
	Metrics  *metrics.HTTPEndpoints
	Clock    clock.PassiveClock
	// Topology is where agents can be.
	Topology *topology.Topology
	// Cluster is this cluster's name in identities.
	Cluster string
	// Egress says what replicas may dial.
	Egress *egress.Cluster
	// Image that agents run.
	Image agentpod.Image
	// Concurrency is how many HTTPEndpoints are looked after at once.
	Concurrency int
}

// Reconciler reconciles HTTPEndpoints.
type Reconciler struct {
	Options
	objects  owned.Writer
	secrets  agentsecret.Keeper
	memories *owned.Memories[memory]
	refusals *refusal.Shower
	// rejected are HTTPEndpoints whose objects the API server rejects.
	rejected refusal.Streaks
	rollouts owned.Turnstile
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{
		Options:  o,
		objects:  owned.Writer{Client: o.Client, Reader: o.Reader, Kind: kind},
		secrets:  agentsecret.Keeper{Client: o.Client, Authority: o.Authority, Lifetime: o.Lifetime, Clock: o.Clock},
		memories: owned.NewMemories[memory](),
		refusals: &refusal.Shower{Client: o.Client, Clock: o.Clock, Recorder: o.Recorder},
	}
}

// Reconcile looks after one HTTPEndpoint.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	endpoint := &v1alpha1.HTTPEndpoint{}
	return result, r.refusals.Show(ctx, request.NamespacedName, endpoint, &endpoint.Status.Conditions, err)
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	endpoint := &v1alpha1.HTTPEndpoint{}
	err := r.Client.Get(ctx, request.NamespacedName, endpoint)
	if apierrors.IsNotFound(err) || err == nil && endpoint.DeletionTimestamp != nil {
		// All that it consists of is owned by it and goes with it.
		r.Reports.Forget(request.NamespacedName)
		uid := r.memories.Forget(request.NamespacedName)
		r.Metrics.Forget(string(uid))
		r.rollouts.Forget(uid)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading HTTPEndpoint %s: %w", request.NamespacedName, err)
	}
	in, err := r.gather(ctx, endpoint)
	if err != nil {
		return ctrl.Result{}, err
	}
	d, err := decide(endpoint, in, r.Image, r.Clock.Now().Truncate(time.Second))
	if err != nil {
		return ctrl.Result{}, err
	}
	facts, err := r.execute(ctx, endpoint, in, d)
	if err != nil {
		return ctrl.Result{}, err
	}
	kept := facts.Problem != nil || facts.NotAllowed != nil || facts.RolloutWaits
	result := ctrl.Result{
		RequeueAfter: replicas.LookAgain(facts.Replicas, startGrace, r.Lifetime, kept, facts.Now, d.pricesLast),
	}
	if !in.replicas.Asked {
		return result, nil // this wakes when they have been
	}
	return result, r.writeStatus(ctx, endpoint, d.usable, facts, in.replicas.Due)
}

// execute makes what was decided to be, and returns the facts with what came of it.
func (r *Reconciler) execute(
	ctx context.Context, endpoint *v1alpha1.HTTPEndpoint, in inputs, d decision,
) (Facts, error) {
	facts := d.facts
	if d.apply {
		var err error
		backend := in.permission.Services[backendUse(endpoint).Host]
		facts.Deployment, facts.Problem, err = r.ensureAll(ctx, *d.usable, in, backend, d.affinity)
		if err != nil {
			return facts, err
		}
	}
	if d.keepServing != nil {
		var err error
		if facts.Problem, err = r.keepServing(ctx, endpoint, in, *d.keepServing); err != nil {
			return facts, err
		}
	}
	facts.RolloutWaits = r.memories.Of(client.ObjectKeyFromObject(endpoint), endpoint.UID).rolloutWaits
	if d.usable == nil || facts.Blocked != nil {
		return facts, nil
	}
	where, waits, err := replicas.Unscheduled(
		d.usable.Placement(r.Image.Architectures), in.cluster, facts.Replicas,
	)
	if where != nil {
		facts.Placement, facts.Waits = where, waits
	}
	return facts, err
}

// writeStatus writes what was seen, if it differs, and tells of it once.
func (r *Reconciler) writeStatus(
	ctx context.Context, endpoint *v1alpha1.HTTPEndpoint, wanted *Wanted, facts Facts, due bool,
) error {
	m := r.memories.Of(client.ObjectKeyFromObject(endpoint), endpoint.UID)
	// While no replica counts, the last sums stay.
	all, shown := sum(facts.Replicas), endpoint.Status.Statistics
	facts.RefreshStatistics = all.Count > 0 && (due || shown == nil || all.NewReset(shown.LastResetRequest))
	before := endpoint.DeepCopy()
	endpoint.Status = Observe(endpoint, wanted, facts)
	if _, err := conditions.WriteStatus(ctx, r.Client, before, endpoint); err != nil {
		return err
	}
	if due || facts.RefreshStatistics {
		r.Reports.Shown(client.ObjectKeyFromObject(endpoint))
	}
	r.observe(endpoint, facts.Replicas)
	conditions.Tell(r.Recorder, endpoint, before.Status.Conditions, endpoint.Status.Conditions,
		v1alpha1.ReasonBackendUnhealthy, v1alpha1.ReasonAgentUnreachable)
	m.secret.Settled = meta.IsStatusConditionTrue(endpoint.Status.Conditions, v1alpha1.ConditionReady)
	return nil
}

// observe feeds the metrics.
func (r *Reconciler) observe(endpoint *v1alpha1.HTTPEndpoint, replicas []Replica) {
	reports := map[string]*wirev1.HTTPReport{}
	for _, replica := range replicas {
		if replica.Report.GetStatistics() != nil {
			reports[string(replica.Pod.UID)] = replica.Report
		}
	}
	r.Metrics.Observe(endpoint.Namespace, string(endpoint.UID), reports)
}
