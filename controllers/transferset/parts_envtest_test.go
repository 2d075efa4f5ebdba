// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transferset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// several makes a set of the namespaces of fixtures, which it labels.
func several(t *testing.T, name string, fixtures []*fixture, change ...func(*v1alpha1.TransferSetSpec)) (
	*fixture, *v1alpha1.TransferSet,
) {
	t.Helper()
	for _, f := range fixtures {
		f.label(name, "yes")
	}
	here := &fixture{t, controllertest.OperatorNamespace}
	return here, here.set(name, append(change, func(s *v1alpha1.TransferSetSpec) {
		s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}
	})...)
}

// label the namespace. An empty value takes the label away.
func (f *fixture) label(key, value string) {
	f.Helper()
	text := `"` + value + `"`
	if value == "" {
		text = "null"
	}
	f.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}},
		`{"metadata":{"labels":{"`+key+`":`+text+`}}}`)
}

// part of a set, once it is there.
func (f *fixture) part(name string) *v1alpha1.TransferSet {
	f.Helper()
	part := &v1alpha1.TransferSet{}
	controllertest.Eventually(f, func() error {
		return cluster.Client.Get(context.Background(), client.ObjectKey{Namespace: f.namespace, Name: name}, part)
	})
	return part
}

// gone waits until an object is.
func (f *fixture) gone(o client.Object) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
		if !apierrors.IsNotFound(err) {
			return errors.Join(err, fmt.Errorf("%s/%s is there", o.GetNamespace(), o.GetName()))
		}
		return nil
	})
}

// TestSeveralNamespaces: one object moves the claims of all namespaces with a label, sums them up, and takes everything
// with it that it made, and nothing else.
func TestSeveralNamespaces(t *testing.T) {
	bank, shop := newFixture(t, "ledger", "audit"), another(t, "orders")
	here, set := several(t, "several", []*fixture{bank, shop})
	here.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	bank.expect(bank.part("several"), v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning,
		"several-audit", "several-ledger")
	shop.expect(shop.part("several"), v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "several-orders")
	bank.end(v1alpha1.TransferComplete, "several-audit", "several-ledger")
	here.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	shop.end(v1alpha1.TransferFailed, "several-orders")
	here.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonMembersFailed)
	controllertest.Eventually(t, func() error { // the two namespaces are looked at one after the other
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if n := set.Status.Members.Complete; n != 2 {
			return fmt.Errorf("%d are complete", n)
		}
		return nil
	})
	if failures := set.Status.Failures; len(failures) != 1 || failures[0].Namespace != shop.namespace ||
		failures[0].ClaimName != "orders" || set.Status.Namespaces != 2 {
		t.Errorf("status %+v", set.Status)
	}
	shop.end(v1alpha1.TransferComplete, "several-orders")
	shop.ended("several-orders")
	here.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete)
	if set.Status.Bytes != 30 || set.Status.RecoveryPoint == nil {
		t.Errorf("status %+v", set.Status)
	}
	// A second look, to which a namespace leads, writes nothing.
	count := func() int {
		return len(here.without(set)) + len(writes.of(bank.namespace)) + len(writes.of(shop.namespace))
	}
	before := 0
	controllertest.Eventually(t, func() error {
		before = count()
		time.Sleep(300 * time.Millisecond)
		if after := count(); after > before {
			return fmt.Errorf("%d writes more", after-before)
		}
		return nil
	})
	bank.label("nothing", "new")
	time.Sleep(time.Second)
	if after := count(); after > before {
		t.Errorf("a second look wrote %q", writes.of(controllertest.OperatorNamespace))
	}

	here.patch(set, `{"spec":{"template":{"streams":3}}}`)
	controllertest.Eventually(t, func() error {
		if n := shop.transfer("several-orders").Spec.Streams; n != 3 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
	// A namespace leaves, and a part that somebody deletes is made again.
	part := shop.part("several")
	shop.label("several", "")
	shop.gone(part)
	old := bank.part("several")
	bank.remove(old.DeepCopy())
	controllertest.Eventually(t, func() error {
		if bank.part("several").UID == old.UID {
			return errors.New("it is not made again")
		}
		return nil
	})
	mine := shop.set("several")
	here.remove(set)
	here.gone(set)
	bank.gone(old)
	if shop.part("several").UID != mine.UID {
		t.Error("what somebody else made is gone")
	}
}

// TestFinalizersOfTenants: a tenant who gives its part, or another set of that name, the finalizer and deletes it has
// no other namespace's part deleted.
func TestFinalizersOfTenants(t *testing.T) {
	bank, shop, odd := newFixture(t, "ledger"), another(t, "orders"), another(t)
	here, set := several(t, "finalized", []*fixture{bank, shop})
	before := shop.part("finalized")
	edited, plain := bank.part("finalized"), odd.set("finalized")
	selecting := another(t).set("finalized", func(s *v1alpha1.TransferSetSpec) {
		s.NamespaceSelector = &metav1.LabelSelector{}
	})
	for _, tenants := range []*v1alpha1.TransferSet{edited, plain, selecting} {
		here.patch(tenants, `{"metadata":{"finalizers":["`+v1alpha1.Finalizer+`"]}}`)
		uid := tenants.UID
		here.remove(tenants)
		controllertest.Eventually(t, func() error {
			err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(tenants), tenants)
			if err == nil && tenants.UID == uid {
				return fmt.Errorf("%s is there", tenants.Namespace)
			}
			return client.IgnoreNotFound(err)
		})
		// The finalizer goes after whatever else is deleted.
		if after := shop.part("finalized"); after.UID != before.UID || after.DeletionTimestamp != nil {
			t.Fatalf("the set of %s took another namespace's part with it", tenants.Namespace)
		}
	}
	here.remove(set)
	here.gone(set)
}

// TestForgedPart: who puts something else in the place of a part, labels and all, does not have the set count it as
// done. What the API server makes of a part's spec is no change of it.
func TestForgedPart(t *testing.T) {
	bank := newFixture(t, "ledger")
	here, set := several(t, "forged", []*fixture{bank}, func(s *v1alpha1.TransferSetSpec) {
		s.Template.Source = &v1alpha1.TransferSetSource{Path: "/data"}
		s.Template.Destination.PersistentVolumeClaim = &v1alpha1.TransferSetClaim{NamePrefix: "from-"}
		s.Template.Include, s.Template.Exclude = []string{"**"}, []string{"*.tmp"}
		s.Template.Compression = &v1alpha1.Compression{}
		s.Template.CheckpointInterval = ptr.To(resource.MustParse("65536Ki"))
		s.Template.BandwidthLimit = ptr.To(resource.MustParse("1000Mi"))
		s.Template.PodTemplate = &v1alpha1.AgentPodTemplate{}
	})
	bank.expect(bank.part("forged"), v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "forged-ledger")
	bank.end(v1alpha1.TransferComplete, "forged-ledger")
	here.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete)
	part := bank.part("forged")
	bank.patch(part, `{"spec":{"template":{"exclude":["**"]}}}`)
	here.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict)
	if failures := set.Status.Failures; len(failures) != 1 || failures[0].Namespace != bank.namespace {
		t.Errorf("failures %+v", failures)
	}
	bank.remove(bank.part("forged"))
	bank.remove(bank.transfer("forged-ledger")) // nobody collects garbage here
	here.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	here.remove(set)
	here.gone(set)
}

// TestSeveralRetain: where members are retained they lose nothing with the sets that made them, also in the moment
// after memberPolicy was changed.
func TestSeveralRetain(t *testing.T) {
	bank := newFixture(t, "ledger")
	here, set := several(t, "retain", []*fixture{bank})
	bank.expect(bank.part("retain"), v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "retain-ledger")
	here.patch(set, `{"spec":{"memberPolicy":"Retain"}}`)
	here.remove(set)
	part := bank.part("retain")
	controllertest.Eventually(t, func() error {
		if part = bank.part("retain"); !slices.Contains(part.Finalizers, metav1.FinalizerOrphanDependents) {
			return fmt.Errorf("finalizers %q", part.Finalizers)
		}
		return nil
	})
	if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Errorf("the set did not wait: %v", err)
	}
	bank.patch(part, `{"metadata":{"finalizers":null}}`) // as the garbage collector does
	here.gone(set)
}

// TestSeveralConflicts: a set of a tenant with the name is left alone, and the set says so until it is gone. Of two
// sets that find one claim the older part has it.
func TestSeveralConflicts(t *testing.T) {
	bank, shop := newFixture(t, "ledger"), another(t, "orders")
	foreign := bank.set("taken", func(s *v1alpha1.TransferSetSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"nothing": "has-this"}}
	})
	here, set := several(t, "taken", []*fixture{bank, shop})
	here.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict)
	shop.expect(shop.part("taken"), v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "taken-orders")
	bank.remove(foreign)
	here.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	bank.expect(bank.part("taken"), v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "taken-ledger")

	time.Sleep(1100 * time.Millisecond) // the API server's times are of seconds
	_, second := several(t, "second", []*fixture{bank})
	here.expect(second, v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict)
	if found := bank.members("second"); len(found) > 0 {
		t.Errorf("members %q", found)
	}
	here.remove(set)
	here.gone(set)
	// Nobody collects garbage here.
	bank.remove(bank.transfer("taken-ledger"))
	here.expect(second, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	here.remove(second)
	here.gone(second)
}

// TestSelectorOfTenant: a set with a selector of namespaces does nothing in a tenant's namespace, whatever admission
// let pass.
func TestSelectorOfTenant(t *testing.T) {
	bank, shop := newFixture(t, "ledger"), another(t, "orders")
	shop.label("of-tenant", "yes")
	set := bank.set("of-tenant", func(s *v1alpha1.TransferSetSpec) {
		s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of-tenant": "yes"}}
	})
	bank.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)
	if found := shop.members("of-tenant"); len(found) > 0 || len(set.Finalizers) > 0 {
		t.Errorf("made %q, finalizers %q", found, set.Finalizers)
	}
	for text, fix := range map[string]string{
		`{"spec":{"namespaceSelector":null}}`: "neither added nor removed",
	} {
		patch := client.RawPatch("application/merge-patch+json", []byte(text))
		err := cluster.Client.Patch(context.Background(), set.DeepCopy(), patch, client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), fix) {
			t.Errorf("%s: %v", text, err)
		}
	}
	several := set.DeepCopy()
	several.ObjectMeta = metav1.ObjectMeta{Namespace: controllertest.OperatorNamespace, Name: "to-one"}
	several.Spec.Template.Destination.Namespace = "shop"
	err := cluster.Client.Create(context.Background(), several, client.DryRunAll)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "remove template.destination.namespace") {
		t.Errorf("all to one namespace: %v", err)
	}
}

// TestSeveralRejected: what the API server rejects in one namespace is shown, and the other ones go on.
func TestSeveralRejected(t *testing.T) {
	bank, shop := newFixture(t, "ledger"), another(t, "orders")
	example := &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: bank.namespace, GenerateName: "any-"},
		Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{},
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
		},
	}
	cluster.NoneOf(t, "count/transfersets.lighterage.dev", example)
	here, set := several(t, "rejected", []*fixture{bank, shop})
	here.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonMembersRejected)
	if failures := set.Status.Failures; len(failures) != 1 || failures[0].Namespace != bank.namespace ||
		!strings.Contains(failures[0].Message, "exceeded quota") {
		t.Errorf("failures %+v", failures)
	}
	shop.expect(shop.part("rejected"), v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "rejected-orders")
	here.remove(set)
	here.gone(set)
}

// TestSeveralRefused: a webhook that fails in one namespace keeps no later one from its part, and is shown.
func TestSeveralRefused(t *testing.T) {
	bank, shop := newFixture(t, "ledger"), another(t, "ledger")
	if bank.namespace > shop.namespace {
		bank, shop = shop, bank
	}
	end := cluster.FailingWebhook(t, v1alpha1.GroupVersion.Group, "transfersets", &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: bank.namespace, GenerateName: "any-"},
		Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{},
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
		},
	})
	here, set := several(t, "refused", []*fixture{bank, shop})
	here.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonRefused)
	if failures := set.Status.Failures; len(failures) != 1 || failures[0].Namespace != bank.namespace ||
		!strings.Contains(failures[0].Message, "failing.example.com") {
		t.Errorf("failures %+v", failures)
	}
	shop.part("refused")
	end()
	here.patch(set, `{"spec":{"template":{"streams":3}}}`) // at once, whatever the backoff is by now
	bank.expect(bank.part("refused"), v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "refused-ledger")
	here.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning)
	here.remove(set)
	here.gone(set)
}
