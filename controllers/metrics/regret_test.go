// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestRegrets: of a namespace the greatest regret of each kind is shown, and of Transfers that of those that run.
func TestRegrets(t *testing.T) {
	i, registry := inventory()
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "bank", Name: name, UID: types.UID(name)}
	}
	lost := func(percent string) *v1alpha1.DecisionsStatus {
		return &v1alpha1.DecisionsStatus{RegretPercent: percent, BestAlternative: "none"}
	}
	a, b, other := &v1alpha1.Queue{ObjectMeta: named("a")}, &v1alpha1.Queue{ObjectMeta: named("b")},
		&v1alpha1.Queue{ObjectMeta: named("c")}
	a.Status.Decisions, b.Status.Decisions, other.Status.Decisions = lost("2.5"), lost("-4.0"), &v1alpha1.DecisionsStatus{}
	running, ended := &v1alpha1.Transfer{ObjectMeta: named("d")}, &v1alpha1.Transfer{ObjectMeta: named("e")}
	running.Status.Phase, running.Status.Decisions = v1alpha1.TransferTransferring, lost("10.0")
	ended.Status.Phase, ended.Status.Decisions = v1alpha1.TransferComplete, lost("50.0")
	front := &v1alpha1.HTTPEndpoint{ObjectMeta: named("f")}
	front.Status.Decisions = lost("0.0")
	for _, o := range []any{a, b, other, running, ended, front} {
		i.Observe(o)
	}
	const queue = "lighterage_decisions_regret_ratio{Queue,bank}"
	show := func(want map[string]float64) {
		t.Helper()
		got := gathered(t, registry)
		for name, value := range want {
			if shown, ok := got[name]; !ok || shown != value {
				t.Errorf("%s is %v (%v), want %v", name, shown, ok, value)
			}
		}
	}
	show(map[string]float64{
		queue: 0.025,
		"lighterage_decisions_regret_ratio{Transfer,bank}":     0.1,
		"lighterage_decisions_regret_ratio{HTTPEndpoint,bank}": 0,
	})
	i.Forget(a)
	show(map[string]float64{queue: -0.04})
	i.Forget(b)
	if value, ok := gathered(t, registry)[queue]; ok {
		t.Errorf("%s is %v", queue, value)
	}
}
