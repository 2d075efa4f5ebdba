// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package networkpolicy_test

import (
	"context"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
)

// TestKeeper: a second look writes nothing, what somebody changed is changed back, what is wanted no more goes, and
// what is somebody else's stays.
func TestKeeper(t *testing.T) {
	ctx := context.Background()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(
			ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, _ ...client.ApplyOption,
		) error {
			writes++
			return controllertest.ApplyNetworkPolicy(ctx, c, object)
		},
	}).Build()
	owner := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "t1"}}
	traffic := attempt.Traffic{Gateways: []string{"gateway.west.example:8443"}}
	keep := func(operatorNamespace string) *agentpod.Problem {
		t.Helper()
		keeper := &networkpolicy.Keeper{Client: c, Reader: c, OperatorNamespace: operatorNamespace}
		problem, err := keeper.Ensure(ctx, "Transfer", owner, nil, func(namespace string) networkingv1.NetworkPolicySpec {
			return networkpolicy.Attempt(namespace, v1alpha1.TransferLabel, owner.UID, traffic)
		})
		if err != nil {
			t.Fatal(err)
		}
		return problem
	}
	found := func() []networkingv1.NetworkPolicy {
		t.Helper()
		list := &networkingv1.NetworkPolicyList{}
		if err := c.List(ctx, list, client.InNamespace("bank")); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	for range 2 {
		if problem := keep(operator); problem != nil || len(found()) != 1 || writes != 1 {
			t.Fatalf("%v, %d policies, %d writes", problem, len(found()), writes)
		}
	}
	opened := found()[0]
	opened.Spec.Egress = nil
	if err := c.Update(ctx, &opened); err != nil {
		t.Fatal(err)
	}
	if keep(operator); len(found()[0].Spec.Egress) != 2 || writes != 2 {
		t.Errorf("%d rules after somebody removed them, %d writes", len(found()[0].Spec.Egress), writes)
	}
	traffic.Gateways = []string{"gateway.west.example:443"}
	if keep(operator); found()[0].Spec.Egress[0].Ports[0].Port.IntVal != 443 || writes != 3 {
		t.Errorf("egress %+v, %d writes", found()[0].Spec.Egress, writes)
	}
	if keep(""); len(found()) != 0 {
		t.Errorf("%d policies after they were switched off", len(found()))
	}
	for kind, want := range map[string]int{"Transfer": 1, "ObjectStore": 0} {
		keeper := &networkpolicy.Keeper{Client: c, Reader: c, OperatorNamespace: operator, Shares: true}
		if _, err := keeper.Ensure(ctx, kind, owner, nil, func(namespace string) networkingv1.NetworkPolicySpec {
			return networkpolicy.Attempt(namespace, v1alpha1.TransferLabel, owner.UID, attempt.Traffic{})
		}); err != nil {
			t.Fatal(err)
		}
		if got := len(found()[0].Spec.Egress); got != want {
			t.Errorf("%s with shares: %d rules of egress", kind, got)
		}
		keep("")
	}
	theirs := networkpolicy.Of("Transfer", owner, nil, networkingv1.NetworkPolicySpec{})
	theirs.OwnerReferences = nil
	if err := c.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	if problem := keep(operator); problem == nil || problem.Reason != v1alpha1.ReasonNameConflict {
		t.Errorf("somebody else's policy: %+v", problem)
	}
	if keep(""); len(found()) != 1 {
		t.Error("somebody else's policy was removed")
	}
}
