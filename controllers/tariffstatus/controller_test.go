// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariffstatus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariffstatus"
)

func tariff(name string, isDefault bool, age time.Duration) v1alpha1.Tariff {
	t := v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "0.05"}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
		},
	}
	if isDefault {
		t.Annotations = map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}
	}
	return t
}

func policy(name, tariffName string, prices *v1alpha1.Prices) v1alpha1.CompressionPolicy {
	return v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.CompressionPolicySpec{TariffName: tariffName, Prices: prices},
	}
}

func TestJudge(t *testing.T) {
	plain, old, young := tariff("plain", false, time.Hour), tariff("old", true, time.Hour), tariff("young", true,
		time.Minute)
	mars, twice := tariff("mars", true, 0), tariff("twice", false, 0)
	mars.Spec.TimeZone = "Mars/Olympus"
	rule := v1alpha1.NetworkGiBRule{Price: "1", Direction: v1alpha1.DirectionSend}
	twice.Spec.NetworkGiB.Rules = []v1alpha1.NetworkGiBRule{rule, rule}
	for name, c := range map[string]struct {
		subject v1alpha1.Tariff
		all     []v1alpha1.Tariff
		reason  string
		names   string
	}{
		"named only":         {plain, []v1alpha1.Tariff{plain, old}, v1alpha1.ReasonAccepted, ""},
		"the default":        {old, []v1alpha1.Tariff{plain, old}, v1alpha1.ReasonAccepted, ""},
		"the older default":  {old, []v1alpha1.Tariff{young, old}, v1alpha1.ReasonAccepted, ""},
		"a younger default":  {young, []v1alpha1.Tariff{young, old}, v1alpha1.ReasonMultipleDefaults, `"old"`},
		"no such time zone":  {mars, []v1alpha1.Tariff{mars}, v1alpha1.ReasonInvalidSpec, "spec.timeZone"},
		"rule without a use": {twice, []v1alpha1.Tariff{twice}, v1alpha1.ReasonAccepted, "spec.networkGiB.rules[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tariffstatus.Judge(&c.subject, c.all)
			ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady)
			if ready.Reason != c.reason || !strings.Contains(ready.Message, c.names) ||
				(ready.Status == metav1.ConditionTrue) != (c.reason == v1alpha1.ReasonAccepted) ||
				meta.IsStatusConditionTrue(got, v1alpha1.ConditionStalled) == (c.reason == v1alpha1.ReasonAccepted) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestUsers(t *testing.T) {
	old, young := tariff("old", true, time.Hour), tariff("young", true, time.Minute)
	tariffs := []v1alpha1.Tariff{young, old}
	policies := []v1alpha1.CompressionPolicy{
		policy("inherits", "", nil), policy("states", "", &v1alpha1.Prices{}), policy("names-young", "young", nil),
		policy("compares", "old", &v1alpha1.Prices{}), policy("names-none", "gone", nil),
	}
	for subject, want := range map[*v1alpha1.Tariff][]string{&old: {"compares", "inherits"}, &young: {"names-young"}} {
		if got := tariffstatus.Users(subject, tariffs, policies); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", subject.Name, got, want)
		}
	}
}

// TestReconcile: status is whole and bounded, and is written once.
func TestReconcile(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	subject := tariff("t", true, 0)
	subject.Generation = 7
	objects := []client.Object{&subject}
	for i := range 40 {
		objects = append(objects, new(policy(fmt.Sprintf("p-%02d", i), "", nil)))
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&subject).Build()
	r := tariffstatus.NewReconciler(c, tariffstatus.Options{})
	var versions []string
	for range 2 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "t"}}); err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.Tariff
		if err := c.Get(t.Context(), client.ObjectKey{Name: "t"}, &got); err != nil {
			t.Fatal(err)
		}
		if s := got.Status; s.ObservedGeneration != 7 || s.PolicyCount != 40 || len(s.Policies) != 32 ||
			s.Policies[0] != "p-00" ||
			!meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
			t.Fatalf("%+v", s)
		}
		versions = append(versions, got.ResourceVersion)
	}
	if versions[0] != versions[1] {
		t.Error("it was written without a change")
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "gone"}}); err != nil {
		t.Error(err)
	}
}
