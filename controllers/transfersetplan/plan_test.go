// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
)

var now = time.Date(2026, 11, 26, 4, 0, 0, 0, time.UTC)

// newSet selects all claims and moves them to a Peer. Sets with lower ages are younger.
func newSet(name string, age time.Duration, change ...func(*v1alpha1.TransferSetSpec)) *v1alpha1.TransferSet {
	set := &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, UID: types.UID(name), Generation: 1,
			CreationTimestamp: metav1.NewTime(now.Add(-age)),
		},
		Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{}, MaxConcurrent: 2, MemberPolicy: v1alpha1.MembersDelete,
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
		},
	}
	for _, c := range change {
		c(&set.Spec)
	}
	return set
}

func claims(names ...string) []corev1.PersistentVolumeClaim {
	var all []corev1.PersistentVolumeClaim
	for _, name := range names {
		all = append(all, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, Labels: map[string]string{"name": name},
		}})
	}
	return all
}

// selected are the claims of a selection, with the rival behind a slash.
func selected(s transfersetplan.Selection) string {
	var all []string
	for _, m := range s.Members {
		all = append(all, strings.TrimSuffix(m.Claim+"/"+m.Rival, "/"))
	}
	return strings.Join(all, " ")
}

func TestSelect(t *testing.T) {
	odd := claims("b", "a", "copied", "queued", "gone", "to-a")
	odd[2].Labels[v1alpha1.RunLabel], odd[3].Labels[v1alpha1.QueueLabel] = "abcde", "uid"
	odd[4].DeletionTimestamp = &metav1.Time{Time: now}
	in := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "name", Operator: metav1.LabelSelectorOpIn, Values: names},
		}}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.TransferSetSpec)
		want   string
		reason string
	}{
		"all but what comes and goes": {func(*v1alpha1.TransferSetSpec) {}, "a b to-a", ""},
		"some":                        {func(s *v1alpha1.TransferSetSpec) { s.Selector = in("b", "none") }, "b", ""},
		"into this namespace": {func(s *v1alpha1.TransferSetSpec) {
			s.Template.Destination = v1alpha1.TransferSetDestination{
				Namespace: "bank", PersistentVolumeClaim: &v1alpha1.TransferSetClaim{NamePrefix: "to-"},
			}
		}, "a b", ""},
		"into another one": {func(s *v1alpha1.TransferSetSpec) {
			s.Template.Destination = v1alpha1.TransferSetDestination{
				Namespace: "shop", PersistentVolumeClaim: &v1alpha1.TransferSetClaim{NamePrefix: "to-"},
			}
		}, "a b to-a", ""},
		"onto itself": {func(s *v1alpha1.TransferSetSpec) {
			s.Template.Destination = v1alpha1.TransferSetDestination{Namespace: "bank"}
		}, "", v1alpha1.ReasonInvalidSpec},
		"no selector": {func(s *v1alpha1.TransferSetSpec) { s.Selector = nil }, "", v1alpha1.ReasonInvalidSpec},
		"an unknown operator": {func(s *v1alpha1.TransferSetSpec) {
			s.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
		}, "", v1alpha1.ReasonInvalidSpec},
		"too many values": {func(s *v1alpha1.TransferSetSpec) {
			s.Selector = in(make([]string, 2000)...)
		}, "", v1alpha1.ReasonInvalidSpec},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet("move", 0, test.change)
			got := transfersetplan.Select(set, odd, []v1alpha1.TransferSet{*set})
			switch {
			case selected(got) != test.want:
				t.Errorf("selected %q", selected(got))
			case test.reason == "" && got.Problem != nil, test.reason != "" && (got.Problem == nil ||
				got.Problem.Reason != test.reason):
				t.Errorf("problem %+v", got.Problem)
			}
		})
	}
}

// TestRivals: of two sets that would write to the same place the older one has it.
func TestRivals(t *testing.T) {
	type change = func(*v1alpha1.TransferSetSpec)
	to := func(destination v1alpha1.TransferSetDestination) change {
		return func(s *v1alpha1.TransferSetSpec) { s.Template.Destination = destination }
	}
	claim := func(peer, prefix, path string) change {
		return to(v1alpha1.TransferSetDestination{
			Peer: peer, PersistentVolumeClaim: &v1alpha1.TransferSetClaim{NamePrefix: prefix, Path: path},
		})
	}
	store := func(path string) change {
		return to(v1alpha1.TransferSetDestination{ObjectStore: &v1alpha1.ObjectStorePath{Name: "s3", Path: path}})
	}
	only := func(name string, also change) change {
		return func(s *v1alpha1.TransferSetSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}
			also(s)
		}
	}
	const all, none = "a/old b/old x-a/old", "a b x-a"
	toWest := claim("west", "", "/")
	for name, test := range map[string]struct {
		older, mine change
		want        string
	}{
		"the same":          {toWest, toWest, all},
		"without a claim":   {to(v1alpha1.TransferSetDestination{Peer: "west"}), toWest, all},
		"one claim":         {only("b", toWest), toWest, "a b/old x-a"},
		"by its own name":   {to(v1alpha1.TransferSetDestination{Peer: "west", Namespace: "bank"}), toWest, all},
		"another Peer":      {claim("east", "", "/"), toWest, none},
		"another namespace": {to(v1alpha1.TransferSetDestination{Peer: "west", Namespace: "shop"}), toWest, none},

		"directories apart":   {claim("west", "", "/one"), claim("west", "", "/two"), none},
		"a directory within":  {claim("west", "", "/one"), claim("west", "", "/one/two"), all},
		"by the prefix":       {only("a", claim("west", "x-", "/")), toWest, "a b x-a/old"},
		"a store":             {only("a", store("/")), store("/"), "a/old b x-a"},
		"stores apart":        {store("/one"), store("/two"), none},
		"a store within":      {only("a", store("/")), store("/a"), all},
		"a store within none": {only("b", store("/")), store("/a"), none},
		"a store around":      {only("b", store("/a/deep")), store("/"), "a/old b x-a"},
		"store and claim":     {store("/"), claim("", "x-", "/"), "a b"},
		"one that is invalid": {func(s *v1alpha1.TransferSetSpec) { s.Selector = nil }, toWest, none},
	} {
		t.Run(name, func(t *testing.T) {
			older, mine := newSet("old", time.Hour, test.older), newSet("mine", time.Minute, test.mine)
			all := []v1alpha1.TransferSet{*mine, *older}
			if got := selected(transfersetplan.Select(mine, claims("a", "b", "x-a"), all)); got != test.want {
				t.Errorf("%q", got)
			}
			for _, m := range transfersetplan.Select(older, claims("a", "b", "x-a"), all).Members {
				if m.Rival != "" {
					t.Errorf("the older one has a rival: %+v", m)
				}
			}
			older.DeletionTimestamp = &metav1.Time{Time: now}
			all[1] = *older
			if got := selected(transfersetplan.Select(mine, claims("a", "b"), all)); got != "a b" {
				t.Errorf("while the older one is being deleted: %q", got)
			}
		})
	}
}

// TestManySets: what a tenant can cause is bounded, and does not stop the oldest sets.
func TestManySets(t *testing.T) {
	var sets []v1alpha1.TransferSet
	for i := range transfersetplan.MaxSets + 1 {
		sets = append(sets, *newSet(fmt.Sprintf("set-%03d", i), time.Hour))
	}
	last := &sets[transfersetplan.MaxSets]
	if got := transfersetplan.Select(last, nil, sets); got.Problem == nil ||
		got.Problem.Reason != v1alpha1.ReasonTooManySets {
		t.Errorf("%+v", got.Problem)
	}
	if got := transfersetplan.Select(&sets[transfersetplan.MaxSets-1], nil, sets); got.Problem != nil {
		t.Errorf("%+v", got.Problem)
	}
}

func TestMemberName(t *testing.T) {
	long := strings.Repeat("c", 253)
	one, other := transfersetplan.MemberName("move", long), transfersetplan.MemberName("move", long[:252]+"d")
	if len(one) > 253 || one == other || !strings.HasPrefix(one, "move-ccc") {
		t.Errorf("%q and %q", one, other)
	}
	if got := transfersetplan.MemberName("move", "ledger"); got != "move-ledger" {
		t.Error(got)
	}
}

// bed is a namespace in which decisions are executed.
type bed struct {
	t      *testing.T
	set    *v1alpha1.TransferSet
	claims []corev1.PersistentVolumeClaim
	sets   []v1alpha1.TransferSet
	facts  transfersetplan.Facts
}

func newBed(t *testing.T, set *v1alpha1.TransferSet, names ...string) *bed {
	return &bed{t: t, set: set, claims: claims(names...), facts: transfersetplan.Facts{Now: now}}
}

// decide returns what was decided, as words.
func (b *bed) decide() (*transfersetplan.Decision, []string) {
	b.t.Helper()
	d, err := transfersetplan.Decide(b.set, transfersetplan.Select(b.set, b.claims, b.sets), b.facts)
	if err != nil {
		b.t.Fatal(err)
	}
	var done []string
	for _, t := range d.Create {
		done = append(done, "create "+t.Name)
	}
	for _, u := range d.Update {
		done = append(done, "update "+u.Before.Name)
	}
	for _, t := range d.Delete {
		done = append(done, "delete "+t.Name)
	}
	return d, done
}

// round executes a decision, which must be this one, and shows it in the set's status. The next one must be to do
// nothing.
func (b *bed) round(want ...string) {
	b.t.Helper()
	d, done := b.decide()
	if !slices.Equal(done, want) {
		b.t.Fatalf("decided %q, want %q", done, want)
	}
	for _, t := range d.Create {
		b.facts.Transfers = append(b.facts.Transfers, *t)
	}
	for _, u := range d.Update {
		*b.member(u.Before.Name) = *u.After
	}
	b.facts.Transfers = slices.DeleteFunc(b.facts.Transfers, func(t v1alpha1.Transfer) bool {
		return slices.Contains(done, "delete "+t.Name)
	})
	d, done = b.decide()
	if len(done) > 0 {
		b.t.Fatalf("decided after that %q", done)
	}
	b.set.Status = d.Status()
	if again, _ := b.decide(); !cmp.Equal(b.set.Status, again.Status()) {
		b.t.Errorf("the status changes by itself: %s", cmp.Diff(b.set.Status, again.Status()))
	}
}

func (b *bed) member(name string) *v1alpha1.Transfer {
	b.t.Helper()
	i := slices.IndexFunc(b.facts.Transfers, func(t v1alpha1.Transfer) bool { return t.Name == name })
	if i < 0 {
		b.t.Fatalf("there is no Transfer %s", name)
	}
	return &b.facts.Transfers[i]
}

func (b *bed) complete(names ...string) {
	for _, name := range names {
		s := &b.member(name).Status
		s.Phase, s.Conditions = v1alpha1.TransferComplete, conditions.Ready(v1alpha1.ReasonSucceeded, "done")
		s.RecoveryPoint = &metav1.Time{Time: now.Add(-time.Hour)}
		s.Progress = &v1alpha1.Progress{Bytes: 100, BytesTotal: 100}
		s.Run = &v1alpha1.RunStatus{
			Usage: &v1alpha1.UsageStatus{WireBytes: 40}, Cost: &v1alpha1.CostStatus{Currency: "EUR", CPU: "0.5", Network: "1"},
		}
	}
}

func (b *bed) expect(condition, reason string) {
	b.t.Helper()
	if err := controllertest.Expect(b.set.Status.Conditions, condition, reason); err != nil {
		b.t.Error(err)
	}
}

// TestLife: members are made as places become free, follow the template, and go with their claims.
func TestLife(t *testing.T) {
	b := newBed(t, newSet("move", 0), "a", "b", "c")
	b.round("create move-a", "create move-b")
	b.expect(v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	if owner := metav1.GetControllerOf(b.member("move-a")); owner == nil || owner.UID != b.set.UID {
		t.Errorf("owner %v", owner)
	}
	b.complete("move-a")
	b.round("create move-c")
	b.complete("move-b", "move-c")
	b.round()
	b.expect(v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete)
	want := v1alpha1.TransferSetStatus{
		ObservedGeneration: 1, Conditions: b.set.Status.Conditions,
		Members: &v1alpha1.TransferSetMembers{Selected: 3, Complete: 3},
		Bytes:   300, BytesTotal: 300, WireBytes: 120, RecoveryPoint: &metav1.Time{Time: now.Add(-time.Hour)},
		Costs: []v1alpha1.CurrencyCost{{Currency: "EUR", CPU: "1.5000", Network: "3.0000", Saved: "0.0000"}},
	}
	if diff := cmp.Diff(want, b.set.Status); diff != "" {
		t.Error(diff)
	}

	b.set.Spec.Template.Streams = 3
	b.round("update move-a", "update move-b", "update move-c")
	if got := b.member("move-b").Spec.Streams; got != 3 {
		t.Errorf("%d streams", got)
	}
	b.member("move-b").Spec.Streams = 5 // by hand
	b.claims = claims("a", "b", "d")
	b.round("create move-d", "delete move-c")
	if b.set.Status.RecoveryPoint != nil {
		t.Error("a recovery point though move-d has none")
	}
	b.set.Spec.MemberPolicy = v1alpha1.MembersRetain
	b.round("update move-a", "update move-b", "update move-d")
	if got := b.member("move-a").OwnerReferences; len(got) > 0 {
		t.Errorf("retained members have owners: %v", got)
	}
	if got := b.member("move-b").Spec.Streams; got != 5 {
		t.Errorf("what somebody set by hand is lost without a change of the template: %d", got)
	}
	b.claims = nil
	b.round()
	b.expect("", v1alpha1.ReasonNoClaims)
	if diff := cmp.Diff(&v1alpha1.TransferSetMembers{Retained: 3}, b.set.Status.Members); diff != "" {
		t.Error(diff)
	}
	b.set.Spec.MemberPolicy = v1alpha1.MembersDelete
	b.round("delete move-a", "delete move-b", "delete move-d")
}

func TestSuspended(t *testing.T) {
	b := newBed(t, newSet("move", 0), "a", "b", "c")
	b.round("create move-a", "create move-b")
	b.complete("move-a")
	b.set.Spec.Suspend = true
	b.round("update move-a", "update move-b")
	if !b.member("move-b").Spec.Suspend {
		t.Error("the member is not suspended")
	}
	b.expect("", v1alpha1.ReasonSuspended)
}

// TestPausedByHand: a change of the template does not resume a member that somebody paused.
func TestPausedByHand(t *testing.T) {
	b := newBed(t, newSet("move", 0), "a")
	b.round("create move-a")
	b.member("move-a").Spec.Pause = true
	b.set.Spec.Template.Streams = 3
	b.round("update move-a")
	if got := b.member("move-a").Spec; !got.Pause || got.Streams != 3 {
		t.Errorf("%+v", got)
	}
}

// TestScheduled: the first run does not wait for the time of the schedule, and the next ones do.
func TestScheduled(t *testing.T) {
	b := newBed(t, newSet("move", 0, func(s *v1alpha1.TransferSetSpec) {
		s.Template.Schedule = &v1alpha1.TransferSchedule{Cron: "@daily"}
	}), "a")
	b.round("create move-a")
	if b.member("move-a").Annotations[v1alpha1.RunAnnotation] == "" {
		t.Error("no run is asked for")
	}
	delete(b.member("move-a").Annotations, v1alpha1.RunAnnotation)
	b.round()
}

// TestForeign: a Transfer that the set did not make is not touched, whatever labels it has.
func TestForeign(t *testing.T) {
	b := newBed(t, newSet("move", 0), "a", "b")
	b.facts.Taken = map[string]bool{"move-a": true}
	b.round("create move-b")
	b.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict)
	b.facts.Taken = nil
	copied := *b.member("move-b").DeepCopy()
	copied.Name = "mine"
	bare := v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: "move-a", Labels: map[string]string{v1alpha1.TransferSetLabel: "move"},
	}}
	bare.Spec.Source.PersistentVolumeClaim.ClaimName = "a"
	b.facts.Transfers = append(b.facts.Transfers, copied, bare)
	b.round()
	b.claims = nil
	b.round("delete move-b")

	// One of a set that had the name before will be deleted with it.
	b = newBed(t, newSet("move", 0), "a")
	b.round("create move-a")
	b.set.UID = "another"
	b.round()
	b.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict)
	b.member("move-a").OwnerReferences = nil // as a backup has it, or memberPolicy Retain
	b.round("update move-a")
	b.expect(v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
}

// TestRivalComes: an older set that selects the claim later takes it.
func TestRivalComes(t *testing.T) {
	b := newBed(t, newSet("move", time.Minute), "a")
	b.round("create move-a")
	b.sets = []v1alpha1.TransferSet{*newSet("old", time.Hour)}
	b.round("delete move-a")
	b.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict)
	if f := b.set.Status.Failures; len(f) != 1 || f[0].ClaimName != "a" || !strings.Contains(f[0].Message, "old") {
		t.Errorf("%+v", f)
	}
}

// TestTroubled: what has failed gives its place to the next one, until that has happened too often.
func TestTroubled(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	b := newBed(t, newSet("move", 0), names...)
	made := 0
	for range 40 {
		d, done := b.decide()
		if len(done) == 0 {
			break
		}
		for _, created := range d.Create {
			created.Status.Conditions = conditions.Stalled(v1alpha1.ReasonNotGranted, strings.Repeat("no grant ", 100))
			b.facts.Transfers = append(b.facts.Transfers, *created)
			made++
		}
	}
	if made < 16 || made > 17 {
		t.Errorf("%d members are made that all fail", made)
	}
	b.round()
	b.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonMembersFailed)
	f := b.set.Status.Failures
	if len(f) != 16 || f[0].Reason != v1alpha1.ReasonNotGranted || len(f[0].Message) > 256 {
		t.Errorf("%d failures: %+v", len(f), f)
	}
	for i := range b.facts.Transfers {
		b.complete(b.facts.Transfers[i].Name)
	}
	if _, done := b.decide(); len(done) != 2 {
		t.Errorf("after that %q", done)
	}
}

// TestRejected: a member that the API server rejects is shown, and tried again.
func TestRejected(t *testing.T) {
	b := newBed(t, newSet("move", 0), "a", "b")
	d, _ := b.decide()
	d.Reject(&v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Name: "move-a"}}, "exceeded quota")
	b.set.Status = d.Status()
	b.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonMembersRejected)
	if d.RequeueAfter() != time.Minute || b.set.Status.Members.Failed != 1 || b.set.Status.Members.Waiting != 1 {
		t.Errorf("after %s: %+v", d.RequeueAfter(), b.set.Status.Members)
	}
}

// TestLarge: a status is bounded, whatever the number of claims, and nothing takes time that grows with its square.
func TestLarge(t *testing.T) {
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("claim-%04d", i))
	}
	b := newBed(t, newSet("move", 0, func(s *v1alpha1.TransferSetSpec) { s.MaxConcurrent = 1000 }), names...)
	began := time.Now()
	for range 5 {
		d, _ := b.decide()
		for _, t := range d.Create {
			b.facts.Transfers = append(b.facts.Transfers, *t)
		}
		for i := range b.facts.Transfers {
			b.facts.Transfers[i].Status.Phase = v1alpha1.TransferComplete
			b.facts.Transfers[i].Status.RecoveryPoint = &metav1.Time{Time: now}
		}
	}
	b.round()
	b.expect(v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}
