// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/quota"
)

// Inventory is the collector of what objects there are and what their status says. It follows the informers of the
// manager's cache, so a scrape reads nothing, and runs where the manager leads: one replica shows each object.
//
// Objects in namespaces are counted, never named: tenants make any number. Peers, Nodes, Tariffs and CompressionPolicies
// are named: the platform team makes them.
type Inventory struct {
	cache cache.Informers
	clock clock.PassiveClock

	mu      sync.Mutex
	counted map[types.UID]entry
	states  map[state]int
	runs    map[place]runs
	relays  map[string]relays // by namespace
	peers   map[types.UID]*v1alpha1.Peer
	nodes   map[types.UID]*v1alpha1.NodeProfile
	tariffs map[types.UID]*v1alpha1.Tariff
	// recoveries of Transfers.
	recoveries map[types.UID]recovery
	// drills are what Drills show.
	drills map[types.UID]drilled
	// regrets are what choices of mode Auto lose.
	regrets map[types.UID]regret
	// canaries are the policies that have one.
	canaries map[types.UID]*v1alpha1.CompressionPolicy
	// limits of the cluster, and what Transfers hold of them and of those of Peers.
	limits quota.Amounts
	held   map[types.UID]quota.Held
}

// place is where objects are that are counted together.
type place struct{ kind, namespace string }

// state is what they have in common.
type state struct {
	place
	state, reason string
}

// runs are those in which data move.
type runs struct{ moving, idle, rate int64 }

// relays are those that ObjectStores are to have, and those of them that do not run.
type relays struct{ wanted, down int64 }

// entry is what one object contributes.
type entry struct {
	state state
	runs  runs
	relay relays
}

// NewInventory makes the collector and registers it. It shows nothing before Start. The limits are those of all
// Transfers of the cluster.
func NewInventory(
	registry prometheus.Registerer, informers cache.Informers, c clock.PassiveClock, limits quota.Amounts,
) *Inventory {
	i := &Inventory{
		cache: informers, clock: c,
		counted: map[types.UID]entry{}, states: map[state]int{}, runs: map[place]runs{}, relays: map[string]relays{},
		peers: map[types.UID]*v1alpha1.Peer{}, nodes: map[types.UID]*v1alpha1.NodeProfile{},
		tariffs: map[types.UID]*v1alpha1.Tariff{}, recoveries: map[types.UID]recovery{},
		drills: map[types.UID]drilled{}, regrets: map[types.UID]regret{},
		canaries: map[types.UID]*v1alpha1.CompressionPolicy{}, limits: limits, held: map[types.UID]quota.Held{},
	}
	registry.MustRegister(i)
	return i
}

// followed are the kinds that are counted.
func followed() []client.Object {
	return []client.Object{
		&v1alpha1.Transfer{}, &v1alpha1.TransferSet{}, &v1alpha1.Delivery{}, &v1alpha1.Queue{}, &v1alpha1.HTTPEndpoint{},
		&v1alpha1.CompressionTrial{}, &v1alpha1.ObjectStore{}, &v1alpha1.Peer{}, &v1alpha1.PeerGrant{},
		&v1alpha1.CompressionPolicy{}, &v1alpha1.LocalCompressionPolicy{}, &v1alpha1.Tariff{}, &v1alpha1.DataQuota{},
		&v1alpha1.NodeProfile{}, &v1alpha1.Drill{},
	}
}

// Start follows the informers until the context ends. It is a Runnable that needs leader election.
func (i *Inventory) Start(ctx context.Context) error {
	for _, kind := range followed() {
		informer, err := i.cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("following %T for metrics: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    i.Observe,
			UpdateFunc: i.Update,
			DeleteFunc: i.Forget,
		}); err != nil {
			return fmt.Errorf("following %T for metrics: %w", kind, err)
		}
	}
	<-ctx.Done()
	return nil
}

// Observe shows an object as it is now. What is of no kind of this API is ignored. It keeps what it is given.
func (i *Inventory) Observe(object any) {
	kind, conditions, data := look(object)
	if kind == "" {
		return
	}
	o := object.(client.Object)
	at := place{kind, o.GetNamespace()}
	seen := entry{state: state{at, stateOf(conditions), reasonOf(conditions)}, runs: data, relay: relayOf(conditions)}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subtract(o.GetUID())
	i.counted[o.GetUID()] = seen
	i.states[seen.state]++
	i.addRuns(at, seen.runs, 1)
	i.addRelays(at.namespace, seen.relay, 1)
	if r, kept := recoveryOf(object); kept {
		i.recoveries[o.GetUID()] = r
	}
	if d, kept := drillOf(object); kept {
		i.drills[o.GetUID()] = d
	}
	if r, kept := regretOf(object); kept {
		i.regrets[o.GetUID()] = r
	}
	if policy, kept := canaryOf(object); kept {
		i.canaries[o.GetUID()] = policy
	}
	if held, holds := heldBy(object); holds {
		i.held[o.GetUID()] = held
	}
	switch o := object.(type) {
	case *v1alpha1.Peer:
		i.peers[o.UID] = o
	case *v1alpha1.NodeProfile:
		i.nodes[o.UID] = o
	case *v1alpha1.Tariff:
		i.tariffs[o.UID] = o
	}
}

// Update shows an object as it is now, and no more the one that it replaced: an object that was deleted and made again
// under its name between two watches arrives as one that changed its UID.
func (i *Inventory) Update(before, object any) {
	was, ok := before.(client.Object)
	is, same := object.(client.Object)
	if ok && same && was.GetUID() != is.GetUID() {
		i.Forget(was)
	}
	i.Observe(object)
}

// Forget shows an object no more.
func (i *Inventory) Forget(object any) {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	o, ok := object.(client.Object)
	if !ok {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subtract(o.GetUID())
	delete(i.peers, o.GetUID())
	delete(i.nodes, o.GetUID())
	delete(i.tariffs, o.GetUID())
}

func (i *Inventory) subtract(uid types.UID) {
	seen, ok := i.counted[uid]
	if !ok {
		return
	}
	delete(i.counted, uid)
	delete(i.recoveries, uid)
	delete(i.drills, uid)
	delete(i.regrets, uid)
	delete(i.canaries, uid)
	delete(i.held, uid)
	if i.states[seen.state]--; i.states[seen.state] == 0 {
		delete(i.states, seen.state)
	}
	i.addRuns(seen.state.place, seen.runs, -1)
	i.addRelays(seen.state.namespace, seen.relay, -1)
}

func (i *Inventory) addRelays(namespace string, r relays, sign int64) {
	if r == (relays{}) {
		return
	}
	sum := i.relays[namespace]
	i.relays[namespace] = relays{sum.wanted + sign*r.wanted, sum.down + sign*r.down}
}

// relayOf is that of an ObjectStore with handOff, which alone has the condition.
func relayOf(conditions []metav1.Condition) relays {
	switch found := meta.FindStatusCondition(conditions, v1alpha1.ConditionHandOffReady); {
	case found == nil:
		return relays{}
	case found.Status == metav1.ConditionTrue:
		return relays{wanted: 1}
	}
	return relays{wanted: 1, down: 1}
}

func (i *Inventory) addRuns(at place, r runs, sign int64) {
	if at.kind != "Transfer" && at.kind != "Delivery" {
		return
	}
	sum := i.runs[at]
	i.runs[at] = runs{sum.moving + sign*r.moving, sum.idle + sign*r.idle, sum.rate + sign*r.rate}
}

// look returns an object's kind, conditions and, of Transfers and Deliveries, its run.
func look(object any) (kind string, conditions []metav1.Condition, run runs) {
	switch o := object.(type) {
	case *v1alpha1.Transfer:
		// What moves to several destinations is counted for the Transfer of each, and what is pulled for the Delivery.
		moves := o.Status.Phase == v1alpha1.TransferTransferring && len(o.Spec.Destinations) == 0 &&
			o.Spec.Source.Peer == ""
		return "Transfer", o.Status.Conditions, moving(moves, o.Status.Progress)
	case *v1alpha1.TransferSet:
		return "TransferSet", o.Status.Conditions, runs{}
	case *v1alpha1.Delivery:
		return "Delivery", o.Status.Conditions, moving(o.Status.Phase == v1alpha1.DeliveryReceiving, o.Status.Progress)
	case *v1alpha1.Queue:
		return "Queue", o.Status.Conditions, runs{}
	case *v1alpha1.HTTPEndpoint:
		return "HTTPEndpoint", o.Status.Conditions, runs{}
	case *v1alpha1.CompressionTrial:
		return "CompressionTrial", o.Status.Conditions, runs{}
	case *v1alpha1.ObjectStore:
		return "ObjectStore", o.Status.Conditions, runs{}
	case *v1alpha1.Drill:
		return "Drill", o.Status.Conditions, runs{}
	case *v1alpha1.Peer:
		return "Peer", o.Status.Conditions, runs{}
	case *v1alpha1.PeerGrant:
		return "PeerGrant", o.Status.Conditions, runs{}
	case *v1alpha1.CompressionPolicy:
		return "CompressionPolicy", o.Status.Conditions, runs{}
	case *v1alpha1.LocalCompressionPolicy:
		return "LocalCompressionPolicy", o.Status.Conditions, runs{}
	case *v1alpha1.Tariff:
		return "Tariff", o.Status.Conditions, runs{}
	case *v1alpha1.DataQuota:
		return "DataQuota", o.Status.Conditions, runs{}
	case *v1alpha1.NodeProfile:
		return "NodeProfile", o.Status.Conditions, runs{}
	}
	return "", nil, runs{}
}

func moving(now bool, progress *v1alpha1.Progress) runs {
	switch {
	case !now:
		return runs{}
	case progress == nil || progress.BytesPerSecond <= 0:
		return runs{moving: 1, idle: 1}
	}
	return runs{moving: 1, rate: progress.BytesPerSecond}
}

// stateOf is the condition that is True, the one that needs somebody first.
func stateOf(conditions []metav1.Condition) string {
	for _, condition := range []string{
		v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling, v1alpha1.ConditionReady,
	} {
		if meta.IsStatusConditionTrue(conditions, condition) {
			return condition
		}
	}
	return "Resting"
}

// reasonOf is that of Ready, which is a constant of this API; the manager alone writes conditions.
func reasonOf(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}
