// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/refusal"
)

var (
	secrets    = corev1.Resource("secrets")
	errWebhook = fmt.Errorf("creating Job a/b: %w", apierrors.NewInternalError(errors.New("failed calling webhook \"x\"")))
	start      = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	ledger     = types.NamespacedName{Namespace: "bank", Name: "ledger"}
)

func TestPersists(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		persists bool
	}{
		"webhook":       {errWebhook, true},
		"overload":      {apierrors.NewTooManyRequestsError("wait"), true},
		"timeout":       {apierrors.NewTimeoutError("etcd", 1), true},
		"quota":         {apierrors.NewForbidden(secrets, "a", errors.New("exceeded quota")), true},
		"conflict":      {apierrors.NewConflict(secrets, "a", errors.New("newer")), false},
		"there already": {apierrors.NewAlreadyExists(secrets, "a"), false},
		"gone":          {apierrors.NewNotFound(secrets, "a"), false},
		"no answer":     {context.DeadlineExceeded, false},
		"success":       {nil, false},
	} {
		var streaks refusal.Streaks
		for second := range 12 {
			if got := streaks.Persists(ledger, c.err, start.Add(time.Duration(second)*time.Second)); got != (c.persists &&
				second >= 10) {
				t.Errorf("%s: %v after %d s", name, got, second)
			}
		}
	}
}

func TestStreakEnds(t *testing.T) {
	var streaks refusal.Streaks
	for step, c := range []struct {
		object   types.NamespacedName
		err      error
		after    time.Duration
		persists bool
	}{
		{ledger, errWebhook, 0, false},
		{ledger, errWebhook, 10 * time.Second, true},
		{types.NamespacedName{Namespace: "bank", Name: "other"}, errWebhook, 11 * time.Second, false},
		{ledger, context.DeadlineExceeded, 12 * time.Second, false}, // says nothing of what the API server would
		{ledger, errWebhook, 13 * time.Second, true},
		{ledger, nil, 14 * time.Second, false},
		{ledger, errWebhook, 25 * time.Second, false},
		{ledger, errWebhook, 3 * time.Hour, false}, // nobody has looked for long
	} {
		if got := streaks.Persists(c.object, c.err, start.Add(c.after)); got != c.persists {
			t.Errorf("step %d: %v", step, got)
		}
	}
}

func TestShow(t *testing.T) {
	running := conditions.Reconciling(v1alpha1.ReasonStarting, "the pod is being started")
	for name, c := range map[string]struct {
		present []metav1.Condition
		public  string
		err     error
		want    string
		secret  bool
	}{
		"new":     {nil, "", errWebhook, v1alpha1.ReasonRefused, false},
		"working": {running, "", errWebhook, v1alpha1.ReasonRefused, false},
		"done": {
			conditions.Ready(v1alpha1.ReasonSucceeded, "done"), "", errWebhook, v1alpha1.ReasonSucceeded, false,
		},
		"needs somebody": {
			conditions.Stalled(v1alpha1.ReasonNotGranted, "no"), "", errWebhook, v1alpha1.ReasonNotGranted, false,
		},
		"suspended": {
			conditions.Resting(v1alpha1.ReasonSuspended, "off"), "", errWebhook, v1alpha1.ReasonSuspended, false,
		},
		"for a peer":        {running, "ask there", errWebhook, v1alpha1.ReasonRefused, true},
		"another namespace": {running, "", refusal.Elsewhere(errWebhook), v1alpha1.ReasonRefused, true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			object := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger"}}
			object.Status.Conditions = conditions.Merge(nil, c.present, 1, start)
			store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithStatusSubresource(object).Build()
			clock := clocktesting.NewFakeClock(start)
			shower := &refusal.Shower{Client: store, Clock: clock, Recorder: events.NewFakeRecorder(10), Public: c.public}
			for range 3 {
				empty := &v1alpha1.Transfer{}
				if err := shower.Show(t.Context(), ledger, empty, &empty.Status.Conditions, c.err); !errors.Is(err, c.err) {
					t.Fatal(err)
				}
				clock.Step(6 * time.Second)
			}
			if err := store.Get(t.Context(), ledger, object); err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != c.want {
				t.Fatalf("%+v", object.Status.Conditions)
			}
			if shows := strings.Contains(ready.Message, "webhook"); c.want == v1alpha1.ReasonRefused && shows == c.secret {
				t.Errorf("the API server's words are shown: %v", shows)
			}
		})
	}
}

func TestBackOffIsBounded(t *testing.T) {
	limiter := refusal.ControllerOptions(0).RateLimiter
	var last time.Duration
	for range 40 {
		last = limiter.When(reconcile.Request{NamespacedName: ledger})
	}
	if last != time.Minute {
		t.Errorf("%s between two tries", last)
	}
}
