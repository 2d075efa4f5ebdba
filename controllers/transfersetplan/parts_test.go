// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
)

const operator = "lighterage-system"

// yard is a cluster with a set of several namespaces and its parts.
type yard struct {
	*testing.T
	set        *v1alpha1.TransferSet
	namespaces []transfersetplan.Namespace
	parts      []v1alpha1.TransferSet
}

// newYard has namespaces that are all selected.
func newYard(t *testing.T, namespaces ...string) *yard {
	y := &yard{T: t, set: newSet("move", time.Hour, func(s *v1alpha1.TransferSetSpec) {
		s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"move": "yes"}}
	})}
	y.set.Namespace = operator
	for _, name := range append(namespaces, operator) {
		y.namespaces = append(y.namespaces, transfersetplan.Namespace{
			Name: name, Labels: map[string]string{"move": "yes"}, Watched: true,
		})
	}
	return y
}

func (y *yard) decide() *transfersetplan.Parts {
	y.Helper()
	d, err := transfersetplan.DecideParts(y.set, transfersetplan.PartFacts{
		Now: now, Operator: operator, Namespaces: y.namespaces, Sets: y.parts,
	})
	if err != nil {
		y.Fatal(err)
	}
	return d
}

// round does what is decided, which is to be so.
func (y *yard) round(want string) {
	y.Helper()
	d := y.decide()
	var did []string
	gone := map[string]bool{}
	for _, s := range d.Delete {
		did, gone[s.Namespace] = append(did, "delete "+s.Namespace), true
	}
	for _, u := range d.Update {
		did = append(did, "update "+u.Before.Namespace)
		*y.part(u.Before.Namespace) = *u.After
		y.part(u.Before.Namespace).Generation++
	}
	// What was decided points to the parts.
	y.parts = slices.DeleteFunc(y.parts, func(p v1alpha1.TransferSet) bool { return gone[p.Namespace] })
	for _, s := range d.Create {
		did = append(did, "create "+s.Namespace)
		s.Generation = 1
		y.parts = append(y.parts, *s)
	}
	if got := strings.Join(did, ", "); got != want {
		y.Errorf("did %q, want %q", got, want)
	}
}

func (y *yard) part(namespace string) *v1alpha1.TransferSet {
	y.Helper()
	for i := range y.parts {
		if y.parts[i].Namespace == namespace {
			return &y.parts[i]
		}
	}
	y.Fatalf("no part in %s", namespace)
	return nil
}

// report does what the controller of a part would.
func (y *yard) report(namespace string, members v1alpha1.TransferSetMembers, wanted []metav1.Condition) {
	y.Helper()
	part := y.part(namespace)
	point := metav1.NewTime(now.Add(-time.Duration(members.Selected) * time.Hour))
	part.Status = v1alpha1.TransferSetStatus{
		ObservedGeneration: part.Generation, Members: &members, Bytes: 10, BytesTotal: 20, WireBytes: 5,
		Costs:      []v1alpha1.CurrencyCost{{Currency: "EUR", CPU: "0.5", Network: "1", Saved: "2"}},
		Conditions: conditions.Merge(nil, wanted, part.Generation, now),
	}
	if members.Selected > 0 && members.Complete == members.Selected {
		part.Status.RecoveryPoint = &point
	}
}

func (y *yard) expect(condition, reason string) v1alpha1.TransferSetStatus {
	y.Helper()
	status := y.decide().Status()
	if err := controllertest.Expect(status.Conditions, condition, reason); err != nil {
		y.Error(err)
	}
	return status
}

func complete(n int32) v1alpha1.TransferSetMembers {
	return v1alpha1.TransferSetMembers{Selected: n, Complete: n}
}

// TestParts: each namespace that is found gets a part, which follows the set and goes when it is found no more.
func TestParts(t *testing.T) {
	y := newYard(t, "shop", "bank", "odd", "ends")
	y.namespaces[2].Labels = nil
	y.namespaces[3].Ends = true
	y.set.Spec.Template.Destination = v1alpha1.TransferSetDestination{
		ObjectStore: &v1alpha1.ObjectStorePath{Name: "s3", Path: "/base"},
	}
	y.round("create bank, create shop")
	part := y.part("bank")
	if part.Spec.NamespaceSelector != nil || part.Name != "move" || len(part.OwnerReferences) > 0 ||
		part.Spec.Template.Destination.ObjectStore.Path != "/base/bank" || part.Spec.MaxConcurrent != 2 {
		t.Errorf("made %+v", part)
	}
	if y.set.Spec.Template.Destination.ObjectStore.Path != "/base" {
		t.Error("the set was changed")
	}
	y.expect(v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	y.round("")
	y.report("bank", complete(2), conditions.Ready(v1alpha1.ReasonMembersComplete, "all"))
	y.expect(v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning) // shop has not looked yet
	y.report("shop", complete(3), conditions.Ready(v1alpha1.ReasonMembersComplete, "all"))
	status := y.expect(v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete)
	if status.Namespaces != 2 || *status.Members != complete(5) || status.Bytes != 20 || status.BytesTotal != 40 ||
		status.WireBytes != 10 || len(status.Costs) != 1 || status.Costs[0].CPU != "1.0000" ||
		status.RecoveryPoint == nil || !status.RecoveryPoint.Time.Equal(now.Add(-3*time.Hour)) {
		t.Errorf("status %+v", status)
	}
	y.round("")
	y.set.Spec.Suspend = true
	y.round("update bank, update shop")
	if !y.part("shop").Spec.Suspend || y.part("shop").Spec.NamespaceSelector != nil {
		t.Errorf("changed to %+v", y.part("shop").Spec)
	}
	y.expect(v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	y.namespaces[0].Labels = nil
	y.round("delete shop")
	y.namespaces = y.namespaces[4:] // the operator's
	y.round("delete bank")
	y.expect("", v1alpha1.ReasonNoNamespaces)
}

// TestPartStates: what parts say becomes the state of the set.
func TestPartStates(t *testing.T) {
	resting := conditions.Resting(v1alpha1.ReasonNoClaims, "none")
	ready := conditions.Ready(v1alpha1.ReasonMembersComplete, "all")
	stalled := conditions.Stalled(v1alpha1.ReasonMembersFailed, "one failed")
	for name, c := range map[string]struct {
		bank, shop        v1alpha1.TransferSetMembers
		ofBank, ofShop    []metav1.Condition
		condition, reason string
		after             time.Duration
	}{
		"no claims": {
			ofBank: resting, ofShop: resting, reason: v1alpha1.ReasonNoClaims,
		},
		"no claims in one": {
			shop: complete(1), ofBank: resting, ofShop: ready,
			condition: v1alpha1.ConditionReady, reason: v1alpha1.ReasonMembersComplete,
		},
		"one runs": {
			bank:   v1alpha1.TransferSetMembers{Selected: 2, Complete: 1, Running: 1},
			ofBank: conditions.Reconciling(v1alpha1.ReasonMembersRunning, "1"), shop: complete(1), ofShop: ready,
			condition: v1alpha1.ConditionReconciling, reason: v1alpha1.ReasonMembersRunning, after: 30 * time.Second,
		},
		"one stalls": {
			bank: v1alpha1.TransferSetMembers{Selected: 1, Failed: 1}, ofBank: stalled, shop: complete(1), ofShop: ready,
			condition: v1alpha1.ConditionStalled, reason: v1alpha1.ReasonMembersFailed,
		},
		"a part is wrong": {
			ofBank: conditions.Stalled(v1alpha1.ReasonTooManySets, "65"), shop: complete(1), ofShop: ready,
			condition: v1alpha1.ConditionStalled, reason: v1alpha1.ReasonTooManySets,
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, "bank", "shop")
			y.round("create bank, create shop")
			y.report("bank", c.bank, c.ofBank)
			y.report("shop", c.shop, c.ofShop)
			if c.bank.Failed > 0 {
				y.part("bank").Status.Failures = []v1alpha1.TransferSetFailure{
					{ClaimName: "ledger", TransferName: "move-ledger", Reason: "NotGranted", Message: "no grant"},
				}
			}
			status := y.expect(c.condition, c.reason)
			if after := y.decide().RequeueAfter(); after != c.after {
				t.Errorf("again after %s", after)
			}
			failed := c.condition == v1alpha1.ConditionStalled
			if (len(status.Failures) == 1 && status.Failures[0].Namespace == "bank") != failed {
				t.Errorf("failures %+v", status.Failures)
			}
			if (status.RecoveryPoint != nil) != (name == "no claims in one") && c.bank.Selected > 0 {
				t.Errorf("recovery point %v", status.RecoveryPoint)
			}
		})
	}
}

// TestNoPart: namespaces in which there can be no part are named, and the others go on.
func TestNoPart(t *testing.T) {
	y := newYard(t, "bank", "far", "shop", "strict")
	y.namespaces[1].Watched = false
	foreign := newSet("move", 0)
	foreign.Namespace = "shop"
	y.parts = append(y.parts, *foreign)
	y.round("create bank, create strict")
	y.report("bank", complete(1), conditions.Ready(v1alpha1.ReasonMembersComplete, "all"))
	y.round("")
	d := y.decide()
	d.Reject(y.part("strict"), "exceeded quota")
	status := d.Status()
	var failures []string
	for _, f := range status.Failures {
		failures = append(failures, f.Namespace+f.ClaimName+" "+f.Reason)
	}
	want := []string{
		"far " + v1alpha1.ReasonNamespaceNotWatched, "shop " + v1alpha1.ReasonSetConflict,
		"strict " + v1alpha1.ReasonMembersRejected,
	}
	if !slices.Equal(failures, want) || d.RequeueAfter() != time.Minute || status.RecoveryPoint != nil ||
		status.Namespaces != 4 || *status.Members != complete(1) {
		t.Errorf("failures %q in %+v", failures, status)
	}
	// The selector, and not who may watch, says what is deleted.
	y.set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"move": "no"}}
	y.round("delete bank, delete strict")
	if len(y.parts) != 1 {
		t.Error("the foreign one is gone")
	}
}

// TestEditedParts: what has all marks of a part and another spec is no part that is done, and is left as it is until
// the set changes.
func TestEditedParts(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.TransferSetSpec){
		"another destination": func(s *v1alpha1.TransferSetSpec) { s.Template.Destination.ObjectStore.Name = "other" },
		"another's place":     func(s *v1alpha1.TransferSetSpec) { s.Template.Destination.ObjectStore.Path = "/base/shop" },
		"nothing of it":       func(s *v1alpha1.TransferSetSpec) { s.Template.Exclude = []string{"**"} },
		"no claim": func(s *v1alpha1.TransferSetSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"nothing": "has-this"}}
		},
		"suspended": func(s *v1alpha1.TransferSetSpec) { s.Suspend = true },
	} {
		y := newYard(t, "bank", "shop")
		y.set.Spec.Template.Destination = v1alpha1.TransferSetDestination{
			ObjectStore: &v1alpha1.ObjectStorePath{Name: "s3", Path: "/base"},
		}
		y.round("create bank, create shop")
		y.report("shop", complete(1), conditions.Ready(v1alpha1.ReasonMembersComplete, "all"))
		change(&y.part("bank").Spec)
		y.report("bank", complete(1), conditions.Ready(v1alpha1.ReasonMembersComplete, "all"))
		y.round("")
		status := y.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict)
		if len(status.Failures) != 1 || status.Failures[0].Namespace != "bank" || status.RecoveryPoint != nil {
			t.Errorf("%s: %+v", name, status)
		}
		y.set.Spec.Template.Streams = 3
		y.round("update bank, update shop")
		y.expect(v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	}
}

// TestRefusedPart: what the API server rejects for now is shown, and anything that needs somebody before it.
func TestRefusedPart(t *testing.T) {
	y := newYard(t, "bank", "shop")
	y.round("create bank, create shop")
	y.report("shop", complete(1), conditions.Ready(v1alpha1.ReasonMembersComplete, "all"))
	look := func(condition, reason, namespaces string) {
		t.Helper()
		d := y.decide()
		d.Refuse(y.part("bank"), "failed calling webhook")
		status := d.Status()
		if err := controllertest.Expect(status.Conditions, condition, reason); err != nil {
			t.Error(err)
		}
		found := ""
		for _, f := range status.Failures {
			found += f.Namespace + " "
		}
		if found != namespaces || *status.Members != complete(1) || status.RecoveryPoint != nil {
			t.Errorf("failures of %s in %+v", found, status)
		}
	}
	look(v1alpha1.ConditionReconciling, v1alpha1.ReasonRefused, "bank ")
	y.part("shop").Status.Conditions = conditions.Merge(nil, conditions.Stalled(v1alpha1.ReasonTooManySets, "65"), 1, now)
	look(v1alpha1.ConditionStalled, v1alpha1.ReasonTooManySets, "bank shop ")
}

// TestForgedParts: what lacks one mark of a part is never written, deleted or summed up.
func TestForgedParts(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.TransferSet){
		"no label":      func(s *v1alpha1.TransferSet) { delete(s.Labels, v1alpha1.TransferSetLabel) },
		"not ours":      func(s *v1alpha1.TransferSet) { delete(s.Labels, "app.kubernetes.io/managed-by") },
		"no digest":     func(s *v1alpha1.TransferSet) { s.Annotations = nil },
		"another owner": func(s *v1alpha1.TransferSet) { s.OwnerReferences = []metav1.OwnerReference{{Controller: new(true)}} },
	} {
		y := newYard(t, "bank")
		y.round("create bank")
		if parts := transfersetplan.PartsOf(y.set, operator, y.parts); len(parts) != 1 {
			t.Fatalf("%d parts", len(parts))
		}
		change(y.part("bank"))
		y.report("bank", complete(7), conditions.Ready(v1alpha1.ReasonMembersComplete, "all"))
		y.set.Spec.Suspend = true
		y.round("")
		if status := y.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict); status.Members.Selected != 0 {
			t.Errorf("%s: %+v", name, status)
		}
		if parts := transfersetplan.PartsOf(y.set, operator, y.parts); len(parts) > 0 {
			t.Errorf("%s: a part", name)
		}
	}
}

// TestNamespaceSelectorElsewhere: whatever admission let pass, nothing is made for a set of another namespace.
func TestNamespaceSelectorElsewhere(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.TransferSet){
		"a tenant's": func(s *v1alpha1.TransferSet) { s.Namespace = "bank" },
		"all to one": func(s *v1alpha1.TransferSet) { s.Spec.Template.Destination.Namespace = "shop" },
		"too large": func(s *v1alpha1.TransferSet) {
			s.Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: slices.Repeat([]string{"x"}, 1025)},
			}
		},
	} {
		y := newYard(t, "bank", "shop")
		change(y.set)
		y.round("")
		y.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestPartsOfTenants: a set of a tenant's namespace, and one without a selector, have no parts, whatever has their
// name.
func TestPartsOfTenants(t *testing.T) {
	y := newYard(t, "bank", "shop")
	y.round("create bank, create shop")
	plain := y.set.DeepCopy()
	plain.Spec.NamespaceSelector = nil
	elsewhere := y.set.DeepCopy()
	elsewhere.Namespace = "odd"
	for _, set := range []*v1alpha1.TransferSet{plain, elsewhere, y.part("bank")} {
		if parts := transfersetplan.PartsOf(set, operator, y.parts); len(parts) > 0 {
			t.Errorf("%s/%s has %d parts", set.Namespace, set.Name, len(parts))
		}
	}
}

// TestManyFailures: status has the first 16 of all namespaces.
func TestManyFailures(t *testing.T) {
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	y := newYard(t, names...)
	y.round("create " + strings.Join(names, ", create "))
	for _, name := range names {
		y.report(name, v1alpha1.TransferSetMembers{Selected: 5, Failed: 5}, conditions.Stalled("MembersFailed", "all"))
		for i := range 5 {
			y.part(name).Status.Failures = append(y.part(name).Status.Failures, v1alpha1.TransferSetFailure{
				ClaimName: fmt.Sprintf("c%d", i), Reason: "NotGranted",
			})
		}
	}
	status := y.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonMembersFailed)
	if n := len(status.Failures); n != 16 || status.Failures[15].Namespace != "n3" || status.Members.Failed != 25 {
		t.Errorf("%d: %+v", n, status.Failures)
	}
}

// TestRivalsOfParts: a set of several namespaces has no claims of its own, so it is nobody's rival in the operator's.
func TestRivalsOfParts(t *testing.T) {
	several := newSet("all", time.Hour, func(s *v1alpha1.TransferSetSpec) {
		s.NamespaceSelector = &metav1.LabelSelector{}
	})
	set := newSet("move", 0)
	if got := selected(transfersetplan.Select(set, claims("a"), []v1alpha1.TransferSet{*several, *set})); got != "a" {
		t.Errorf("selected %q", got)
	}
}

// TestPartsAreAskedForGroups: the annotation of the set reaches each part once, so that a part can be asked by itself.
func TestPartsAreAskedForGroups(t *testing.T) {
	y := newYard(t, "bank", "shop")
	y.set.Spec.Group = &v1alpha1.TransferSetGroup{VolumeGroupSnapshotClassName: "fast"}
	y.round("create bank, create shop")
	y.set.Annotations = map[string]string{v1alpha1.RunAnnotation: "1"}
	y.round("update bank, update shop")
	y.part("bank").Annotations[v1alpha1.RunAnnotation] = "by itself"
	y.round("")
	if got := y.part("shop").Annotations[v1alpha1.RunAnnotation]; got != "1" {
		t.Errorf("asked for %q", got)
	}
	y.set.Annotations[v1alpha1.RunAnnotation] = "2"
	y.round("update bank, update shop")
	if got := y.part("bank").Annotations[v1alpha1.RunAnnotation]; got != "2" {
		t.Errorf("asked for %q", got)
	}
	y.set.Spec.Group = nil
	y.round("update bank, update shop")
	y.round("")
}
