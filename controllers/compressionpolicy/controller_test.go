// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package compressionpolicy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/compressionpolicy"
	"github.com/lighterage/lighterage/controllers/index/indextest"
)

func policy(name string, isDefault bool, age time.Duration) v1alpha1.CompressionPolicy {
	p := v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
	}
	if isDefault {
		p.Annotations = map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"}
	}
	return p
}

func TestJudge(t *testing.T) {
	plain, old, young := policy("plain", false, time.Hour), policy("old", true, time.Hour),
		policy("young", true, time.Minute)
	negative := policy("negative", true, 2*time.Hour)
	size := resource.MustParse("-1")
	negative.Spec.Hardware = &v1alpha1.HardwareCompression{MinSize: &size}
	for name, c := range map[string]struct {
		subject v1alpha1.CompressionPolicy
		all     []v1alpha1.CompressionPolicy
		ready   bool
		reason  string
		words   string
	}{
		"named only": {
			plain, []v1alpha1.CompressionPolicy{plain, old}, true, v1alpha1.ReasonAccepted, "where it is named",
		},
		"the default": {old, []v1alpha1.CompressionPolicy{plain, old}, true, v1alpha1.ReasonAccepted, "where none is"},
		"oldest default": {
			old, []v1alpha1.CompressionPolicy{young, plain, old}, true, v1alpha1.ReasonAccepted, "oldest of several",
		},
		"younger default": {
			young, []v1alpha1.CompressionPolicy{young, plain, old}, false, v1alpha1.ReasonMultipleDefaults,
			"\"old\" is the default",
		},
		"invalid": {
			negative, []v1alpha1.CompressionPolicy{negative}, false, v1alpha1.ReasonInvalidSpec, "spec.hardware.minSize",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := compressionpolicy.Judge(&c.subject, c.all, nil)
			ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady)
			if (ready.Status == metav1.ConditionTrue) != c.ready || ready.Reason != c.reason ||
				!strings.Contains(ready.Message, c.words) {
				t.Errorf("Ready is %+v", ready)
			}
			if meta.IsStatusConditionTrue(got, v1alpha1.ConditionStalled) == c.ready {
				t.Error("Ready and Stalled agree")
			}
		})
	}
}

// TestJudgePrices: what is wrong with prices is said where it can be put right.
func TestJudgePrices(t *testing.T) {
	euro := v1alpha1.Tariff{ObjectMeta: metav1.ObjectMeta{Name: "euro"}, Spec: v1alpha1.TariffSpec{
		Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "1"}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "1"},
	}}
	inherited, broken := *euro.DeepCopy(), *euro.DeepCopy()
	inherited.Annotations = map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}
	broken.Annotations, broken.Spec.TimeZone = inherited.Annotations, "Mars/Olympus"
	dollars := &v1alpha1.Prices{Currency: "USD", CPUHour: "1", NetworkGiB: "1"}
	for name, c := range map[string]struct {
		spec   v1alpha1.CompressionPolicySpec
		tariff v1alpha1.Tariff
		reason string
	}{
		"named":                {v1alpha1.CompressionPolicySpec{TariffName: "euro"}, euro, v1alpha1.ReasonAccepted},
		"not there":            {v1alpha1.CompressionPolicySpec{TariffName: "gone"}, euro, v1alpha1.ReasonTariffNotFound},
		"named and broken":     {v1alpha1.CompressionPolicySpec{TariffName: "euro"}, broken, v1alpha1.ReasonTariffInvalid},
		"inherited and broken": {v1alpha1.CompressionPolicySpec{}, broken, v1alpha1.ReasonAccepted},
		"Cost by a broken one": {
			v1alpha1.CompressionPolicySpec{Objective: v1alpha1.ObjectiveCost}, broken, v1alpha1.ReasonTariffInvalid,
		},
		"Cost by the default": {
			v1alpha1.CompressionPolicySpec{Objective: v1alpha1.ObjectiveCost}, inherited, v1alpha1.ReasonAccepted,
		},
		"Cost without prices": {
			v1alpha1.CompressionPolicySpec{Objective: v1alpha1.ObjectiveCost}, euro, v1alpha1.ReasonInvalidSpec,
		},
		"Cost by prices of its own": {
			v1alpha1.CompressionPolicySpec{Objective: v1alpha1.ObjectiveCost, Prices: dollars}, broken, v1alpha1.ReasonAccepted,
		},
		"two currencies": {
			v1alpha1.CompressionPolicySpec{TariffName: "euro", Prices: dollars}, euro, v1alpha1.ReasonCurrencyMismatch,
		},
		"another currency than the default's": {
			v1alpha1.CompressionPolicySpec{Prices: dollars}, inherited, v1alpha1.ReasonAccepted,
		},
	} {
		subject := policy("p", false, 0)
		subject.Spec = c.spec
		got := compressionpolicy.Judge(&subject, []v1alpha1.CompressionPolicy{subject}, []v1alpha1.Tariff{c.tariff})
		if ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady); ready.Reason != c.reason {
			t.Errorf("%s: %s: %s", name, ready.Reason, ready.Message)
		}
	}
}

func TestJudgeLocal(t *testing.T) {
	local := func(change func(*v1alpha1.LocalCompressionPolicySpec)) *v1alpha1.LocalCompressionPolicy {
		p := &v1alpha1.LocalCompressionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "p"}}
		change(&p.Spec)
		return p
	}
	priced := policy("priced", true, time.Hour)
	priced.Spec.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "1", NetworkGiB: "1"}
	broken := policy("broken", true, time.Hour)
	broken.Spec.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "-1", NetworkGiB: "1"}
	tooSmall := resource.MustParse("-1")
	none := func(*v1alpha1.LocalCompressionPolicySpec) {}
	cost := func(s *v1alpha1.LocalCompressionPolicySpec) { s.Objective = v1alpha1.ObjectiveCost }
	for name, c := range map[string]struct {
		change func(*v1alpha1.LocalCompressionPolicySpec)
		all    []v1alpha1.CompressionPolicy
		reason string
	}{
		"empty":               {none, nil, v1alpha1.ReasonAccepted},
		"Cost without prices": {cost, nil, v1alpha1.ReasonInvalidSpec},
		"Cost at those of the default policy": {
			cost, []v1alpha1.CompressionPolicy{policy("p", false, 0), priced}, v1alpha1.ReasonAccepted,
		},
		"prices that cannot be used": {none, []v1alpha1.CompressionPolicy{broken}, v1alpha1.ReasonInvalidSpec},
		"a size": {func(s *v1alpha1.LocalCompressionPolicySpec) {
			s.Hardware = &v1alpha1.HardwareCompression{MinSize: &tooSmall}
		}, nil, v1alpha1.ReasonInvalidSpec},
	} {
		got := compressionpolicy.JudgeLocal(local(c.change), c.all, nil)
		if ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady); ready.Reason != c.reason {
			t.Errorf("%s: %s: %s", name, ready.Reason, ready.Message)
		}
	}
}

// TestReconcileLocal: it counts what names it in its namespace, and a CompressionPolicy with its name counts the
// others.
func TestReconcileLocal(t *testing.T) {
	ctx, scheme := context.Background(), runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	transfer := func(namespace, kind string) *v1alpha1.Transfer {
		return &v1alpha1.Transfer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "t"},
			Status: v1alpha1.TransferStatus{
				Policy: &v1alpha1.PolicyStatus{Kind: kind, Name: "p"},
				Run:    &v1alpha1.RunStatus{Usage: &v1alpha1.UsageStatus{WireBytes: 7}},
			},
		}
	}
	local := &v1alpha1.LocalCompressionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "p"}}
	shared := policy("p", false, 0)
	c := indextest.In(
		fake.NewClientBuilder().WithScheme(scheme), &v1alpha1.Transfer{}, &v1alpha1.Queue{}, &v1alpha1.HTTPEndpoint{},
	).WithObjects(
		local, &shared, transfer("bank", v1alpha1.LocalPolicyKind), transfer("shop", v1alpha1.LocalPolicyKind),
		transfer("yard", ""),
	).WithStatusSubresource(local, &shared).Build()
	key := client.ObjectKeyFromObject(local)
	var version string
	for range 2 {
		if _, err := compressionpolicy.NewLocalReconciler(c, compressionpolicy.Options{}).Reconcile(
			ctx, ctrl.Request{NamespacedName: key},
		); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, key, local); err != nil {
			t.Fatal(err)
		}
		if !meta.IsStatusConditionTrue(local.Status.Conditions, v1alpha1.ConditionReady) ||
			local.Status.UsedBy == nil || local.Status.UsedBy.WireBytes != 7 {
			t.Errorf("%+v", local.Status)
		}
		if version != "" && local.ResourceVersion != version {
			t.Error("it was written without a change")
		}
		version = local.ResourceVersion
	}
	if _, err := compressionpolicy.NewReconciler(c, compressionpolicy.Options{}).Reconcile(
		ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: "p"}},
	); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, client.ObjectKey{Name: "p"}, &shared); err != nil || shared.Status.UsedBy == nil ||
		shared.Status.UsedBy.WireBytes != 7 {
		t.Errorf("%v, %+v", err, shared.Status)
	}
}

func TestReconcile(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	subject := policy("p", true, 0)
	transfer := func(name, policy string) *v1alpha1.Transfer {
		return &v1alpha1.Transfer{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name},
			Status: v1alpha1.TransferStatus{
				Policy: &v1alpha1.PolicyStatus{Name: policy},
				Run:    &v1alpha1.RunStatus{Usage: &v1alpha1.UsageStatus{WireBytes: 7}},
			},
		}
	}
	c := indextest.In(
		fake.NewClientBuilder().WithScheme(scheme), &v1alpha1.Transfer{}, &v1alpha1.Queue{}, &v1alpha1.HTTPEndpoint{},
	).WithObjects(&subject, transfer("a", "p"), transfer("b", "other"), transfer("c", "")).
		WithStatusSubresource(&subject).Build()
	r := compressionpolicy.NewReconciler(c, compressionpolicy.Options{})
	var versions []string
	for range 2 {
		if _, err := r.Reconcile(
			context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "p"}},
		); err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.CompressionPolicy
		if err := c.Get(context.Background(), client.ObjectKey{Name: "p"}, &got); err != nil {
			t.Fatal(err)
		}
		if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionReady) {
			t.Fatalf("conditions %+v", got.Status.Conditions)
		}
		if used := got.Status.UsedBy; used == nil || used.WireBytes != 7 || len(used.Objects) != 1 ||
			used.Objects[0] != (v1alpha1.UsingObjects{Kind: "Transfer", Count: 1}) {
			t.Errorf("used by %+v", used)
		}
		versions = append(versions, got.ResourceVersion)
	}
	if versions[0] != versions[1] {
		t.Error("it was written without a change")
	}
	if _, err := r.Reconcile(
		context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "gone"}},
	); err != nil {
		t.Error(err)
	}
}
