// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statement writes Statements: it reads the objects of a namespace, has package ledger decide, and writes one
// object at a time.
package statement

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lighterage/lighterage/controllers/ledger"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/topology"
)

// Interval is the least time between two bookings of a namespace. Tests shorten it.
var Interval = interval

const (
	interval = time.Minute
	// perNamespace of those that are booked is added up, so that all bookings together are at most a write per second:
	// each writes the whole Statement.
	perNamespace = time.Second
	// urgentInterval is that of a namespace in which an object waits to be deleted, or shows urgentAttempts attempts that
	// have ended since it was booked. That is half of what history holds.
	urgentInterval, urgentAttempts = time.Second, 5
	// storedInterval is after how long a namespace is looked at for bytes at rest alone.
	storedInterval = time.Hour
	// SettlePause is how long a finalizer waits before it asks again. settlePatience is for how long a deletion waits to
	// be booked: a Statement that cannot be written must not keep objects for ever.
	SettlePause, settlePatience = time.Second, 2 * time.Minute
	// maxWaiting are deletions that are announced at once; others are found when they ask again.
	maxWaiting = 1024
	// maxDeleted are objects of a namespace that went without waiting and are kept in memory until they are booked.
	maxDeleted = 1024
)

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Reader reads Statements past the cache, which does not hold them.
	Reader client.Reader
	// Topology knows nodes.
	Topology *topology.Topology
	Metrics  *metrics.Statements
	Clock    clock.PassiveClock
	// Months that are kept, the present one included.
	Months int
}

// Books are the Statements of all namespaces. It is safe for concurrent use.
type Books struct {
	Options
	waiting chan event.GenericEvent

	mu         sync.Mutex
	namespaces map[string]*namespace
}

// namespace is what is remembered of one, so that it is not asked for or done more often than needed. All of it may be
// lost.
type namespace struct {
	// booked is when the last booking was.
	booked time.Time
	// urgent: an object waits to be deleted, went with figures that are only in memory, or will soon lose figures.
	urgent bool
	// ended counts the attempts of objects that ended since the last booking. What ends while that is under way is not
	// counted.
	ended map[types.UID]int
	// settled are the resource versions of objects that are being deleted and all of whose figures are booked.
	settled map[types.UID]string
	// deleted are objects that went without waiting, as they were last.
	deleted map[types.UID]deleted
	// month of the Statement that is open while nothing but booking is to be done; first: it is the only one.
	month string
	first bool
}

// deleted is an object that is gone.
type deleted struct {
	kind   ledger.Kind
	object client.Object
}

// New returns Books; Setup is what registers them with a manager.
func New(o Options) *Books {
	return &Books{
		Options: o, waiting: make(chan event.GenericEvent, maxWaiting), namespaces: map[string]*namespace{},
	}
}

// Settled reports whether all figures of an object that is being deleted are booked, so that its finalizer may be
// removed. If they are not they soon will be: ask again after SettlePause. It is true where nothing is booked (b is
// nil), for objects without figures, and for objects that have waited for too long.
func (b *Books) Settled(object client.Object) bool {
	if b == nil || ledger.Empty(object) {
		return true
	}
	name, uid := object.GetNamespace(), object.GetUID()
	b.mu.Lock()
	n := b.of(name)
	settled := n.settled[uid] == object.GetResourceVersion()
	n.urgent = n.urgent || !settled
	b.mu.Unlock()
	if settled {
		return true
	}
	if since := object.GetDeletionTimestamp(); since != nil && b.Clock.Since(since.Time) > settlePatience {
		b.Metrics.Refused(metrics.StatementTimeout)
		return true
	}
	select {
	case b.waiting <- event.GenericEvent{Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}}:
	default:
	}
	return false
}

// of is what is remembered of a namespace. b.mu is held.
func (b *Books) of(name string) *namespace {
	n := b.namespaces[name]
	if n == nil {
		n = &namespace{settled: map[types.UID]string{}, deleted: map[types.UID]deleted{}}
		b.namespaces[name] = n
	}
	return n
}

// due returns how long to wait before a namespace is booked again.
func (b *Books) due(name string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.of(name)
	spacing := max(Interval, time.Duration(len(b.namespaces))*perNamespace)
	if n.urgent {
		spacing = urgentInterval
	}
	passed := b.Clock.Since(n.booked)
	if passed < 0 {
		return 0 // the clock was set back
	}
	return spacing - passed
}

// changed notes how many attempts of an object have ended.
func (b *Books) changed(before, after client.Object) {
	more := ledger.Ended(before, after)
	if more == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.of(after.GetNamespace())
	if n.ended == nil {
		n.ended = map[types.UID]int{}
	}
	n.ended[after.GetUID()] += more
	n.urgent = n.urgent || n.ended[after.GetUID()] >= urgentAttempts
}

// forget a namespace that is gone.
func (b *Books) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.namespaces, name)
}

// gone keeps an object that was deleted until its figures are booked. Of more than maxDeleted that went before they
// could be, the last ones are counted as refused.
func (b *Books) gone(kind ledger.Kind, object client.Object) {
	empty := ledger.Empty(object)
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.of(object.GetNamespace())
	if _, settled := n.settled[object.GetUID()]; settled {
		delete(n.settled, object.GetUID())
		return
	}
	switch {
	case empty:
	case len(n.deleted) >= maxDeleted:
		b.Metrics.Refused(metrics.StatementNoSpace)
	default:
		n.deleted[object.GetUID()], n.urgent = deleted{kind, object}, true
	}
}
