// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
)

const (
	// deliveryKeyPrefix is that of the keys of targets which are the agents of Deliveries.
	deliveryKeyPrefix = "delivery/"
	// maxExpiryWait is how long a timer of an expiry may run, so that a clock that is set is noticed.
	maxExpiryWait = time.Hour
)

// deliveryKey is the key of the target that is the agent of a Delivery.
func deliveryKey(delivery *v1alpha1.Delivery) string {
	return deliveryKeyPrefix + delivery.Namespace + "/" + delivery.Name + "/" + string(delivery.UID)
}

func parseDeliveryKey(key string) (name types.NamespacedName, uid types.UID, ok bool) {
	rest, ok := strings.CutPrefix(key, deliveryKeyPrefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return name, "", false
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, types.UID(parts[2]), true
}

// DeliveryChanged closes what is passed to the agent of a Delivery that is going. gone says that it is no more.
func (g *Gateway) DeliveryChanged(delivery *v1alpha1.Delivery, gone bool) {
	g.waiters.wake(delivery)
	if gone || !delivery.DeletionTimestamp.IsZero() {
		g.front.CloseTarget(deliveryKey(delivery))
	}
}

// granted reports whether the Peer of a Delivery exists and a PeerGrant allows the Delivery now, by what is in the
// cache.
func (g *Gateway) granted(delivery *v1alpha1.Delivery) (bool, error) {
	verdict, err := peergrant.Judge(context.Background(), g.options.Client, delivery, g.options.Clock.Now())
	return verdict.Allowed, err
}

// EndRevoked closes what is passed to Queues and to agents of Deliveries in a namespace, or with "" in all, that no
// PeerGrant allows any more, or whose Peer does not exist any more. It looks at the targets that connections are passed
// to, not at all Deliveries. What cannot be looked up goes on: the manager ends it.
func (g *Gateway) EndRevoked(namespace string) {
	for _, key := range g.front.Keys() {
		var allowed bool
		var err error
		var of types.NamespacedName // the key of a Queue holds what is secret of its server name
		if way, ok := parseQueueKey(key); ok {
			if namespace != "" && way.namespace != namespace {
				continue
			}
			of = types.NamespacedName{Namespace: way.namespace, Name: way.name}
			_, allowed, err = g.open(way)
		} else if name, uid, ok := parseDeliveryKey(key); ok {
			if namespace != "" && name.Namespace != namespace {
				continue
			}
			of = name
			allowed, err = g.goesOn(name, uid)
		} else if peer, ok := strings.CutPrefix(key, tunnelKeyPrefix); ok && namespace == "" {
			of.Name = peer
			err = g.options.Client.Get(context.Background(), client.ObjectKey{Name: peer}, &v1alpha1.Peer{})
			allowed, err = err == nil, client.IgnoreNotFound(err)
		} else {
			continue
		}
		switch {
		case err != nil:
			g.options.Log.Error(err, "Peers, PeerGrants and Deliveries cannot be looked up")
		case !allowed:
			g.options.Log.Info("Connections end because they are not granted any more", "target", of.String())
			g.front.CloseTarget(key)
		}
	}
}

// goesOn reports whether the Delivery of a target still exists and is granted.
func (g *Gateway) goesOn(name types.NamespacedName, uid types.UID) (bool, error) {
	var delivery v1alpha1.Delivery
	err := g.options.Client.Get(context.Background(), name, &delivery)
	if apierrors.IsNotFound(err) || err == nil && delivery.UID != uid {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return g.granted(&delivery)
}

// GrantChanged ends what a PeerGrant that was made, changed or deleted does not allow any more, and does so again when
// it expires.
func (g *Gateway) GrantChanged(grant *v1alpha1.PeerGrant, gone bool) {
	name := client.ObjectKeyFromObject(grant)
	if gone || grant.Spec.ExpirationTime == nil {
		g.expiries.cancel(name)
	} else {
		g.awaitExpiry(name, grant.Spec.ExpirationTime.Time)
	}
	g.EndRevoked(grant.Namespace)
}

// awaitExpiry looks again when a grant expires.
func (g *Gateway) awaitExpiry(name types.NamespacedName, at time.Time) {
	left := at.Sub(g.options.Clock.Now())
	if left <= 0 {
		g.expiries.cancel(name)
		return
	}
	g.expiries.after(name, min(left, maxExpiryWait), func() {
		g.EndRevoked(name.Namespace)
		g.awaitExpiry(name, at)
	})
}

// expiries are the timers of the grants that expire, one each.
type expiries struct {
	mu     sync.Mutex
	timers map[types.NamespacedName]*time.Timer
	// stopped: none is started any more.
	stopped bool
}

func (e *expiries) after(name types.NamespacedName, wait time.Duration, do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if before := e.timers[name]; before != nil {
		before.Stop()
	}
	if e.stopped {
		return
	}
	if e.timers == nil {
		e.timers = map[types.NamespacedName]*time.Timer{}
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		e.mu.Lock()
		current := e.timers[name] == timer // else the grant was changed as the timer fired
		e.mu.Unlock()
		if current {
			do()
		}
	})
	e.timers[name] = timer
}

func (e *expiries) cancel(name types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if timer := e.timers[name]; timer != nil {
		timer.Stop()
		delete(e.timers, name)
	}
}

// stop ends every timer.
func (e *expiries) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for _, timer := range e.timers {
		timer.Stop()
	}
	e.timers = nil
}
