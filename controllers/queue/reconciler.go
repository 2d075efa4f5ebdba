// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

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
	"github.com/lighterage/lighterage/controllers/quota/line"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/statement"
	"github.com/lighterage/lighterage/controllers/topology"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=queues/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=compressionpolicies;localcompressionpolicies;peers;peergrants;tariffs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes. Secrets are written and never read.
	Client client.Client
	// Reader reads past the cache.
	Reader client.Reader
	// Reports of members.
	Reports agentpoll.Poller[*wirev1.QueueReport]
	// Authority issues the members' certificates; Lifetime is theirs, renewed at half of it.
	Authority *pki.Authority
	Lifetime  time.Duration
	// Networks writes the members' NetworkPolicy; nil: they have none.
	Networks *networkpolicy.Keeper
	Recorder events.EventRecorder
	Metrics  *metrics.Queues
	Clock    clock.PassiveClock
	// Topology is where agents can be.
	Topology *topology.Topology
	// Books is asked before the finalizer is removed; nil: nothing is booked.
	Books *statement.Books
	// Cluster is this cluster's name in identities.
	Cluster string
	// Egress says what members may dial.
	Egress *egress.Cluster
	// Image that agents run.
	Image agentpod.Image
	// Concurrency is how many Queues are looked after at once.
	Concurrency int
}

// Reconciler reconciles Queues.
type Reconciler struct {
	Options
	objects  owned.Writer
	secrets  agentsecret.Keeper
	memories *owned.Memories[memory]
	refusals *refusal.Shower
	// rejected are Queues whose objects the API server rejects.
	rejected refusal.Streaks
	rollouts owned.Turnstile
	line     *line.Line[*v1alpha1.Queue]
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(o Options) *Reconciler {
	r := &Reconciler{
		Options:  o,
		objects:  owned.Writer{Client: o.Client, Reader: o.Reader, Kind: kind},
		secrets:  agentsecret.Keeper{Client: o.Client, Authority: o.Authority, Lifetime: o.Lifetime, Clock: o.Clock},
		memories: owned.NewMemories[memory](),
		refusals: &refusal.Shower{Client: o.Client, Clock: o.Clock, Recorder: o.Recorder},
	}
	r.line = r.newLine()
	return r
}

// Reconcile looks after one Queue.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	queue := &v1alpha1.Queue{}
	return result, r.refusals.Show(ctx, request.NamespacedName, queue, &queue.Status.Conditions, err)
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	queue := &v1alpha1.Queue{}
	err := r.Client.Get(ctx, request.NamespacedName, queue)
	if apierrors.IsNotFound(err) {
		r.Reports.Forget(request.NamespacedName)
		uid := r.memories.Forget(request.NamespacedName)
		r.Metrics.Forget(string(uid))
		r.rollouts.Forget(uid)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading Queue %s: %w", request.NamespacedName, err)
	}
	in, err := r.gather(ctx, queue)
	if err != nil {
		return ctrl.Result{}, err
	}
	d, written, err := r.decide(ctx, queue, in)
	defer written(nil)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case d.askAgain:
		r.Reports.Refresh(request.NamespacedName)
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	case d.release && !r.Books.Settled(queue):
		return ctrl.Result{RequeueAfter: statement.SettlePause}, nil
	case d.release:
		return ctrl.Result{}, r.release(ctx, queue, in.claims)
	}
	if err := r.protect(ctx, queue); err != nil {
		return ctrl.Result{}, err
	}
	err = r.noteAdmitted(ctx, queue, d.admitted)
	written(err)
	if err != nil {
		return ctrl.Result{}, err
	}
	facts, err := r.execute(ctx, queue, in, d)
	if err != nil {
		return ctrl.Result{}, err
	}
	kept := facts.Problem != nil || facts.NotAllowed != nil || facts.RolloutWaits
	result := ctrl.Result{
		RequeueAfter: replicas.LookAgain(
			facts.Members, startGrace, r.Lifetime, kept, facts.Now, in.expires, d.pricesLast,
		),
	}
	if !in.members.Asked {
		return result, nil // this wakes when they have been
	}
	return result, r.writeStatus(ctx, queue, d.usable, facts, in.members.Due)
}

// execute makes what was decided to be, and returns the facts with what came of it.
func (r *Reconciler) execute(ctx context.Context, queue *v1alpha1.Queue, in inputs, d decision) (Facts, error) {
	facts := d.facts
	if d.apply {
		var err error
		if facts.Set, facts.Problem, err = r.ensureAll(ctx, *d.usable, in, d.affinity); err != nil {
			return facts, err
		}
	}
	if facts.Problem == nil {
		facts.Problem = d.exceeded
	}
	if d.keepServing != nil {
		var err error
		if facts.Problem, err = r.keepServing(ctx, queue, in, *d.keepServing); err != nil {
			return facts, err
		}
	}
	facts.RolloutWaits = r.memories.Of(client.ObjectKeyFromObject(queue), queue.UID).rolloutWaits
	if d.usable == nil || facts.Blocked != nil {
		return facts, nil
	}
	where, waits, err := replicas.Unscheduled(d.usable.Placement(r.Image.Architectures), in.cluster, facts.Members)
	if where != nil {
		facts.Placement, facts.Waits = where, waits
	}
	return facts, err
}

// writeStatus writes what was seen, if it differs, and tells of it once.
func (r *Reconciler) writeStatus(
	ctx context.Context, queue *v1alpha1.Queue, wanted *Wanted, facts Facts, due bool,
) error {
	m := r.memories.Of(client.ObjectKeyFromObject(queue), queue.UID)
	// While no member counts, the last sums stay.
	all, shown := sum(facts.Members), queue.Status.Statistics
	facts.RefreshStatistics = all.Count > 0 && (due || shown == nil || all.NewReset(shown.LastResetRequest))
	before := queue.DeepCopy()
	queue.Status = Observe(queue, wanted, facts)
	if _, err := conditions.WriteStatus(ctx, r.Client, before, queue); err != nil {
		return err
	}
	if due || facts.RefreshStatistics {
		r.Reports.Shown(client.ObjectKeyFromObject(queue))
	}
	r.observe(queue, facts.Members, wanted.blocked())
	r.tellLoss(before, queue)
	conditions.Tell(
		r.Recorder, queue, before.Status.Conditions, queue.Status.Conditions, v1alpha1.ReasonNoLeader,
		v1alpha1.ReasonAgentUnreachable,
	)
	m.secret.Settled = meta.IsStatusConditionTrue(queue.Status.Conditions, v1alpha1.ConditionReady)
	return nil
}

// observe feeds the metrics.
func (r *Reconciler) observe(queue *v1alpha1.Queue, members []Member, blocked int) {
	reports := map[string]*wirev1.QueueReport{}
	for _, member := range members {
		if member.Report.GetStatistics() != nil {
			reports[string(member.Pod.UID)] = member.Report
		}
	}
	uid := string(queue.UID)
	r.Metrics.Observe(queue.Namespace, uid, contentOf(members), reports, blocked)
	if free, ok := freeShare(queue, contentOf(members)); ok || contentOf(members) != nil {
		r.Metrics.ObserveFree(queue.Namespace, uid, free, ok)
	}
	// What was known last stays while nobody says anything.
	claim, store := archiver(members, (*wirev1.QueueReport).GetArchive), archiver(
		members, (*wirev1.QueueReport).GetStoreArchive,
	)
	if claim != nil || store != nil || queue.Spec.Archive == nil {
		r.Metrics.ObserveArchives(queue.Namespace, uid, contentOf(members).GetLastSequence(), claim, store)
	}
	if restore := restorer(members); restore != nil || queue.Spec.Restore == nil {
		r.Metrics.ObserveRestore(queue.Namespace, uid, restore.GetLastError() != nil && !restore.GetDone())
	}
}
