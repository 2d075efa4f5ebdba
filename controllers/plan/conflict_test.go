// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

// state is what a rival's status says.
type state func(*v1alpha1.Transfer)

func at(phase v1alpha1.TransferPhase, wanted []metav1.Condition, run *v1alpha1.RunStatus) state {
	return func(transfer *v1alpha1.Transfer) {
		transfer.Status.Phase, transfer.Status.Run = phase, run
		transfer.Status.Conditions = conditions.Merge(nil, wanted, 1, now)
	}
}

func suspended(then state) state {
	return func(transfer *v1alpha1.Transfer) {
		then(transfer)
		transfer.Spec.Suspend = true
	}
}

// H1: whose Transfer keeps another one from beginning, and what that one is told.
func TestConflicts(t *testing.T) {
	completed := metav1.NewTime(now)
	stuck := func(reason string) []metav1.Condition { return conditions.Stalled(reason, "message") }
	fresh := state(func(*v1alpha1.Transfer) {})
	writing := at(
		v1alpha1.TransferTransferring, conditions.Reconciling(v1alpha1.ReasonTransferring, ""),
		&v1alpha1.RunStatus{ID: "aaaaa", Attempt: 1},
	)
	backingOff := at(
		v1alpha1.TransferRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, ""),
		&v1alpha1.RunStatus{NextAttemptTime: &completed},
	)
	complete := at(
		v1alpha1.TransferComplete, conditions.Ready(v1alpha1.ReasonSucceeded, ""),
		&v1alpha1.RunStatus{CompletionTime: &completed},
	)
	failed := at(
		v1alpha1.TransferFailed, stuck(v1alpha1.ReasonMaxAttemptsReached), &v1alpha1.RunStatus{CompletionTime: &completed},
	)
	sourceless := at(v1alpha1.TransferPending, stuck(v1alpha1.ReasonSourceNotFound), nil)
	queued := at(v1alpha1.TransferPending, stuck(v1alpha1.ReasonDestinationInUse), nil)
	const older, younger = 2 * time.Hour, time.Minute
	for name, test := range map[string]struct {
		namespace string
		age       time.Duration
		state     state
		// granted: a PeerGrant lets a Transfer of another namespace write there. Only of a destination in this cluster
		// is it known.
		granted bool
		// remote and local: whether the Transfer into another cluster, or into a claim of this one, is kept waiting.
		remote, local bool
	}{
		"older":                            {"bank", older, fresh, false, true, true},
		"older, waiting to try again":      {"bank", older, backingOff, false, true, true},
		"older, done":                      {"bank", older, complete, false, true, true},
		"older, waiting for its turn":      {"bank", older, queued, false, true, true},
		"older, writing":                   {"bank", older, writing, false, true, true},
		"older, suspended":                 {"bank", older, suspended(fresh), false, false, false},
		"older, suspended when done":       {"bank", older, suspended(complete), false, false, false},
		"older, suspended while writing":   {"bank", older, suspended(writing), false, true, true},
		"older, that cannot begin":         {"bank", older, sourceless, false, false, false},
		"older, given up":                  {"bank", older, failed, false, false, false},
		"younger":                          {"bank", younger, fresh, false, false, false},
		"younger, writing":                 {"bank", younger, writing, false, true, true},
		"younger, done":                    {"bank", younger, complete, false, false, false},
		"elsewhere":                        {"evil", older, fresh, false, false, false},
		"elsewhere, suspended":             {"evil", older, suspended(fresh), false, false, false},
		"elsewhere, in a run":              {"evil", older, writing, false, false, false},
		"elsewhere, granted":               {"evil", older, fresh, true, false, false},
		"elsewhere, granted, done":         {"evil", older, complete, true, false, false},
		"elsewhere, granted, backing off":  {"evil", older, backingOff, true, false, false},
		"elsewhere, granted, writing":      {"evil", older, writing, true, false, true},
		"elsewhere, granted, younger":      {"evil", younger, writing, true, false, true},
		"elsewhere, granted, and suspends": {"evil", older, suspended(writing), true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, peer := range []string{"west", ""} {
				transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
				if peer == "" {
					transfer, facts = localTransfer("")
				}
				other := transfer.DeepCopy()
				other.UID, other.Namespace, other.Name = "another", test.namespace, "payroll-nightly"
				other.CreationTimestamp = metav1.NewTime(now.Add(-test.age))
				other.Spec.Destination.Namespace = "bank"
				other.Spec.Destination.PersistentVolumeClaim.Path = "/books/salaries"
				test.state(other)
				facts.Others = []v1alpha1.Transfer{*other}
				if test.granted && peer == "" {
					facts.Others, facts.Local.Rivals = nil, []v1alpha1.Transfer{*other}
				}
				want := test.remote
				if peer == "" {
					want = test.local
				}
				decision := plan.DecideTransfer(transfer, facts, image)
				_, reason, message := verdict(t, decision.Status.Conditions)
				if waits := reason == v1alpha1.ReasonDestinationInUse; waits != want || (decision.Start == nil) != want {
					t.Errorf("to %q: %s: %s", peer, reason, message)
				}
				named := strings.Contains(message, "payroll-nightly") || strings.Contains(message, "salaries") ||
					strings.Contains(message, "evil")
				if named != (want && test.namespace == "bank") {
					t.Errorf("to %q: %s", peer, message)
				}
			}
		})
	}
}

// TestNoDeadlock: of two Transfers that began in the same moment, each before it saw the other, one goes on.
func TestNoDeadlock(t *testing.T) {
	for _, namespace := range []string{"bank", "evil"} {
		starting := at(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonStarting, ""),
			&v1alpha1.RunStatus{ID: "abcde", Attempt: 1, Route: v1alpha1.RoutePod})
		for _, test := range []struct {
			age   time.Duration
			waits bool
		}{{2 * time.Hour, true}, {time.Minute, false}} {
			transfer, facts := localTransfer("")
			starting(transfer)
			other := transfer.DeepCopy()
			other.UID, other.Namespace, other.Name = "another", namespace, "other"
			other.Spec.Destination.Namespace = "bank"
			other.CreationTimestamp = metav1.NewTime(now.Add(-test.age))
			if namespace == "bank" {
				facts.Others = []v1alpha1.Transfer{*other}
			} else {
				facts.Local.Rivals = []v1alpha1.Transfer{*other}
			}
			decision := plan.DecideTransfer(transfer, facts, image)
			_, reason, message := verdict(t, decision.Status.Conditions)
			if waits := reason == v1alpha1.ReasonDestinationInUse; waits != test.waits || (decision.Start == nil) != waits {
				t.Errorf("beside one of %s that is %s old: %s: %s", namespace, test.age, reason, message)
			}
		}
	}
}
