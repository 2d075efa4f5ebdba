// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusal shows in conditions what the API server goes on rejecting, such as writes that a failing webhook
// keeps from being admitted, and bounds how long a controller waits before it tries again.
package refusal

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

const (
	// patience is how long the API server may reject something before that is shown: a change of etcd's leader takes a
	// moment.
	patience = 10 * time.Second
	// memory is how long an object is remembered that nobody looks at any more.
	memory = time.Hour
	// retryFirst doubles with every failed look at an object, up to retryLast.
	retryFirst = 5 * time.Millisecond
	retryLast  = time.Minute
)

// ControllerOptions are those of every controller: it looks after so many objects at once, at least one, and after a
// failure looks again within a minute.
func ControllerOptions(concurrency int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: max(1, concurrency),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			retryFirst, retryLast,
		),
	}
}

// Final returns the API server's words when trying again at once would be answered in the same way: something is wrong
// with what was to be written, or a quota, a policy or a role forbids it.
func Final(err error) (words string, final bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) ||
		!apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return "", false
	}
	return status.Status().Message, true
}

// Words returns the API server's words if an error says that it cannot do something now or will not. That an object is
// there, is not, or has changed is no rejection.
func Words(err error) (words string, rejected bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.IsConflict(err) {
		return "", false
	}
	return status.Status().Message, true
}

// Streaks know since when the API server rejects what objects need. They live in memory. The zero value is ready for
// use, also concurrent.
type Streaks struct {
	mu  sync.Mutex
	all map[types.NamespacedName]streak
}

type streak struct{ first, last time.Time }

// Persists notes what became of an object, nil for success, and reports whether the API server has been rejecting what
// it needs for so long that somebody should know.
func (s *Streaks) Persists(object types.NamespacedName, err error, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, rejected := Words(err); !rejected {
		if err == nil {
			delete(s.all, object)
		}
		return false
	}
	known, ok := s.all[object]
	if !ok || now.Sub(known.last) > memory {
		known.first = now
		s.forget(now)
	}
	known.last = now
	if s.all == nil {
		s.all = map[types.NamespacedName]streak{}
	}
	s.all[object] = known
	return now.Sub(known.first) >= patience
}

func (s *Streaks) forget(now time.Time) {
	for object, known := range s.all {
		if now.Sub(known.last) > memory {
			delete(s.all, object)
		}
	}
}

// Shower writes into status why nothing goes on. It is safe for concurrent use.
type Shower struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Public, if set, is the condition's message in place of the API server's words, which an event has then.
	Public string

	streaks Streaks
}

// Show is called with what became of a look at an object, and returns it. When the API server has rejected something
// for 10 s the object's status says so, unless it says already that the object waits for somebody, or that nothing is
// to be done. empty is an object of the kind, and list its conditions.
func (s *Shower) Show(
	ctx context.Context, name types.NamespacedName, empty client.Object, list *[]metav1.Condition, err error,
) error {
	if !s.streaks.Persists(name, err, s.Clock.Now()) {
		return err
	}
	if unread := s.Client.Get(ctx, name, empty); unread != nil {
		return errors.Join(err, client.IgnoreNotFound(unread))
	}
	ready := meta.FindStatusCondition(*list, v1alpha1.ConditionReady)
	if ready != nil && (!meta.IsStatusConditionTrue(*list, v1alpha1.ConditionReconciling) || conditions.Refused(*list)) {
		return err
	}
	before, ok := empty.DeepCopyObject().(client.Object)
	if !ok {
		return err
	}
	words := "the API server rejects what is needed, which is tried again at least once a minute: " + wordsOf(err)
	message := s.Public
	if message == "" {
		message = words
	}
	*list = conditions.Merge(
		*list, conditions.Reconciling(v1alpha1.ReasonRefused, message), empty.GetGeneration(),
		s.Clock.Now().Truncate(time.Second),
	)
	if _, unwritten := conditions.WriteStatus(ctx, s.Client, before, empty); unwritten != nil {
		return errors.Join(err, unwritten)
	}
	s.Recorder.Eventf(
		empty, nil, corev1.EventTypeWarning, v1alpha1.ReasonRefused, "Reconcile", "%s", conditions.Shorten(words),
	)
	return err
}

// Elsewhere marks an error about an object in another namespace, whose words are not shown.
func Elsewhere(err error) error { return &elsewhere{err} }

type elsewhere struct{ error }

func (e *elsewhere) Unwrap() error { return e.error }

// wordsOf an error for whoever may read the object's namespace.
func wordsOf(err error) string {
	if other := (*elsewhere)(nil); errors.As(err, &other) {
		return "an object in another namespace could not be written"
	}
	return err.Error()
}
