// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

var issued = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// wanted is attempt 2 of run bbbbb.
func wanted() request {
	return request{
		peer: "east", issued: issued, namespace: "vault",
		transfer: v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "bbbbb", Attempt: 2},
		claim:    v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
	}
}

// attempt makes a Delivery of the same Transfer.
func attempt(run string, number int32, at time.Time, changes ...func(*v1alpha1.Delivery)) v1alpha1.Delivery {
	r := wanted()
	r.transfer.Run, r.transfer.Attempt, r.issued = run, number, at
	delivery := newDelivery(r)
	for _, change := range changes {
		change(delivery)
	}
	return *delivery
}

func deleting(d *v1alpha1.Delivery) { d.DeletionTimestamp = &metav1.Time{Time: issued} }

func phase(p v1alpha1.DeliveryPhase) func(*v1alpha1.Delivery) {
	return func(d *v1alpha1.Delivery) { d.Status.Phase = p }
}

func stalled(d *v1alpha1.Delivery) {
	d.Status.Conditions = []metav1.Condition{
		{
			Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDestinationInUse,
			Message: "fix",
		},
	}
}

func outdated(d *v1alpha1.Delivery) {
	d.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSuperseded},
	}
}

func ready(d *v1alpha1.Delivery) {
	d.Status.ServerName, d.Status.Endpoint = "x.receive.lighterage.internal", "10.0.0.1:8443"
}

func namedOnly(d *v1alpha1.Delivery) { d.Status.ServerName = "x.receive.lighterage.internal" }

func elsewhere(d *v1alpha1.Delivery) { d.Spec.Destination.PersistentVolumeClaim.Path = "/elsewhere" }

// outside is in a namespace whose tenants have nothing to do with the request.
func outside(d *v1alpha1.Delivery) { d.Namespace = "evil" }

func aged(minutes int) func(*v1alpha1.Delivery) {
	return func(d *v1alpha1.Delivery) {
		d.Name = fmt.Sprintf("aged-%d", minutes)
		d.CreationTimestamp = metav1.NewTime(issued.Add(-time.Duration(minutes) * time.Minute))
	}
}

// H3: some of the cases are Deliveries that somebody made by hand, with names, labels and times of their choice.
func TestDecide(t *testing.T) {
	grants := []v1alpha1.PeerGrant{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{"bank"}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim}},
		},
	}}
	own := func(changes ...func(*v1alpha1.Delivery)) v1alpha1.Delivery {
		return attempt("bbbbb", 2, issued, changes...)
	}
	ended := phase(v1alpha1.DeliveryFailed)
	before, after := issued.Add(-time.Minute), issued.Add(time.Minute)
	const (
		granted    = wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED
		aborted    = wirev1.FailureReason_FAILURE_REASON_ABORTED
		superseded = wirev1.FailureReason_FAILURE_REASON_SUPERSEDED
		inUse      = wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE
		incoherent = wirev1.FailureReason_FAILURE_REASON_INVALID_DATA
	)
	type list = []v1alpha1.Delivery
	cases := map[string]struct {
		view   view
		refuse wirev1.FailureReason
		// do is: create, wait, ready; remove says how many Deliveries go.
		do     string
		remove int
		// newest attempt that a refusal names.
		newest uint32
	}{
		"first":                    {view: view{}, do: "create"},
		"own, not ready":           {view: view{attempts: list{own()}}, do: "wait"},
		"own, without an endpoint": {view: view{attempts: list{own(namedOnly)}}, do: "wait"},
		"own, ready":               {view: view{attempts: list{own(ready)}}, do: "ready"},
		"own, stalled":             {view: view{attempts: list{own(stalled)}}, refuse: inUse},
		"own, complete": {
			view: view{attempts: list{own(ready, phase(v1alpha1.DeliveryComplete))}}, refuse: aborted,
		},
		"own, going":                 {view: view{attempts: list{own(ready, deleting)}}, refuse: aborted},
		"own, for another directory": {view: view{attempts: list{own(elsewhere)}}, refuse: incoherent},
		"own, stalled, by an older agent": {
			view: view{attempts: list{attempt("bbbbb", 2, before, stalled)}}, do: "wait", remove: 1,
		},
		"own, going, of an older agent":   {view: view{attempts: list{attempt("bbbbb", 2, before, deleting)}}, do: "wait"},
		"own, ready, of an older agent":   {view: view{attempts: list{attempt("bbbbb", 2, before, ready)}}, do: "ready"},
		"own, ended by traces of a newer": {view: view{attempts: list{own(ended, outdated)}}, refuse: superseded},
		"own, gone":                       {view: view{seen: true}, refuse: aborted},
		"older attempt":                   {view: view{attempts: list{attempt("bbbbb", 1, before)}}, do: "wait", remove: 1},
		"older attempt, going":            {view: view{attempts: list{attempt("bbbbb", 1, before, deleting)}}, do: "wait"},
		"older attempt beside own": {
			view: view{attempts: list{attempt("bbbbb", 1, before), own(ready)}}, do: "ready", remove: 1,
		},
		"newer attempt": {
			view: view{attempts: list{attempt("bbbbb", 3, after)}}, refuse: superseded, newest: 3,
		},
		"newer attempt beside own": {
			view: view{attempts: list{own(ready), attempt("bbbbb", 3, after)}}, refuse: superseded, newest: 3,
		},
		"newer attempt, ended": {
			view: view{attempts: list{attempt("bbbbb", 3, after, ended)}}, refuse: superseded, newest: 3,
		},
		"newer attempt, going": {
			view: view{attempts: list{attempt("bbbbb", 3, after, deleting)}}, refuse: superseded, newest: 3,
		},
		"both ended": {
			view: view{
				attempts: list{own(ready, ended), attempt("bbbbb", 4, after, ended), attempt("bbbbb", 3, after, ended)},
			},
			refuse: superseded, newest: 4,
		},
		"newer attempt ended beside own": {
			view: view{attempts: list{own(ready), attempt("bbbbb", 3, after, ended)}}, refuse: superseded, newest: 3,
		},
		"newer attempt and newer run": {
			view: view{attempts: list{attempt("aaaaa", 1, after), attempt("bbbbb", 3, after, ended)}}, refuse: superseded,
			newest: 3,
		},
		"newer run, ended": {
			view: view{attempts: list{attempt("aaaaa", 1, after, ended)}}, do: "wait", remove: 1,
		},
		"older run":        {view: view{attempts: list{attempt("zzzzz", 9, before)}}, do: "wait", remove: 1},
		"newer run":        {view: view{attempts: list{attempt("aaaaa", 1, after)}}, refuse: superseded},
		"newer run, going": {view: view{attempts: list{attempt("aaaaa", 1, after, deleting)}}, do: "wait"},
		"forged name": {
			view: view{attempts: list{attempt("aaaaa", 1, after, func(d *v1alpha1.Delivery) { d.Name += "0" })}}, do: "create",
		},
		"forged label": {
			view: view{attempts: list{attempt("aaaaa", 1, after, func(d *v1alpha1.Delivery) {
				d.Labels[plan.SenderLabel] = "0"
			})}},
			do: "create",
		},
		"forged, issued in the future": {
			view: view{attempts: list{attempt("aaaaa", 1, issued.Add(pki.ClockSkew+time.Hour))}}, do: "wait", remove: 1,
		},
		"older run elsewhere": {
			view: view{attempts: list{attempt("zzzzz", 9, before, outside)}}, do: "create", remove: 1,
		},
		"older run elsewhere, going": {
			view: view{attempts: list{attempt("zzzzz", 9, before, outside, deleting)}}, do: "create",
		},
		"newer run elsewhere":     {view: view{attempts: list{attempt("aaaaa", 1, after, outside)}}, do: "create"},
		"newer attempt elsewhere": {view: view{attempts: list{attempt("bbbbb", 3, after, outside)}}, do: "create"},
		"own, elsewhere":          {view: view{attempts: list{own(outside, ready)}}, do: "create", remove: 1},
		"run of unknown age": {
			view: view{attempts: list{attempt("aaaaa", 1, after, func(d *v1alpha1.Delivery) { d.Annotations = nil })}},
			do:   "wait", remove: 1,
		},
		"crowd at work": {view: view{neighbours: list{own(), own()}}, do: "wait"},
		"crowd, one ended": {
			view: view{neighbours: list{own(), own(phase(v1alpha1.DeliveryFailed))}}, do: "wait", remove: 1,
		},
		"crowd, a place being freed": {
			view: view{neighbours: list{own(phase(v1alpha1.DeliveryFailed)), own(deleting)}}, do: "wait",
		},
		"crowd below the limit": {view: view{neighbours: list{own()}}, do: "create"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.view.grants, c.view.limit, c.view.now = grants, 2, issued
			next := decide(wanted(), c.view)
			if next.refuse == nil && c.refuse != 0 || next.refuse != nil && next.refuse.failure.GetReason() != c.refuse {
				t.Fatalf("refusal %v, want %v", next.refuse, c.refuse)
			}
			if next.refuse != nil {
				if next.refuse.failure.GetMessage() == "" || next.create || next.ready != "" || len(next.remove) > 0 {
					t.Errorf("a refusal without words or with deeds: %+v", next)
				}
				if got := next.refuse.failure.GetNewestAttempt(); got != c.newest {
					t.Errorf("the newest attempt is %d, want %d", got, c.newest)
				}
				return
			}
			do := "wait"
			switch {
			case next.create:
				do = "create"
			case next.ready != "":
				do = "ready"
			}
			if do != c.do || len(next.remove) != c.remove {
				t.Errorf("%s and remove %d, want %s and remove %d", do, len(next.remove), c.do, c.remove)
			}
			if do == "wait" && next.pending == "" {
				t.Error("it does not say what is waited for")
			}
			c.view.grants = nil
			if refused := decide(wanted(), c.view).refuse; refused == nil || refused.failure.GetReason() != granted {
				t.Errorf("without a grant: %v", refused)
			}
		})
	}
	crowd := view{grants: grants, limit: 3, neighbours: list{
		own(phase(v1alpha1.DeliveryFailed), aged(1)), own(phase(v1alpha1.DeliveryComplete), aged(3)), own(aged(5)),
	}}
	if next := decide(wanted(), crowd); len(next.remove) != 1 || next.remove[0].Name != "aged-3" {
		t.Errorf("the oldest that has ended should go: %+v", next.remove)
	}
}

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "/", ".": "/", "/": "/", "/a/b": "/a/b", "/a//b/": "/a/b", "/..a": "/..a", "a": "/a", "a/b/": "/a/b", "//a": "/a",
	} {
		if got, err := cleanPath(in); got != want || err != nil {
			t.Errorf("%q: %q %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"..", "../a", "a/../..", "./a", "/..", "/a/..", "/./a", "/a/.", "/\x00", strings.Repeat("/a", 3000),
	} {
		if got, err := cleanPath(in); err == nil {
			t.Errorf("%.20q was accepted as %q", in, got)
		}
	}
}
