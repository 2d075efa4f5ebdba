// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package argocd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/compressionpolicy"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/dataquota"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/ledger"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/node"
	"github.com/lighterage/lighterage/controllers/peer"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/tariffstatus"
)

// reconciled is an object after its reconciler has seen it, beside others.
func reconciled[O client.Object](
	t *testing.T, object O, reconciler func(client.Client) reconcile.Reconciler, others ...client.Object,
) O {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api := indextest.In(
		fake.NewClientBuilder().WithScheme(scheme), &v1alpha1.Transfer{}, &v1alpha1.Queue{}, &v1alpha1.Delivery{},
		&corev1.Pod{},
	).WithObjects(append(others, object)...).WithStatusSubresource(object).Build()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	if _, err := reconciler(api).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), request.NamespacedName, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// cluster is named's without a namespace.
func cluster(name string) metav1.ObjectMeta {
	meta := named(name)
	meta.Namespace = ""
	return meta
}

// gateways answer, or do not.
type gateways struct {
	agentclient.PeerGateway
	err error
}

func (g gateways) Hello(context.Context, agentclient.Gateway) (*wirev1.HelloResponse, error) {
	return &wirev1.HelloResponse{ProtocolVersion: wirev1.ProtocolVersion, Version: "v9", KnownAs: "us"}, g.err
}

func peers(t *testing.T) []sample {
	ca, _, err := pki.NewCA("west", now)
	if err != nil {
		t.Fatal(err)
	}
	seen := func(endpoint string, bundle []byte, err error) *v1alpha1.Peer {
		return reconciled(
			t, &v1alpha1.Peer{ObjectMeta: cluster("west"), Spec: v1alpha1.PeerSpec{Endpoint: endpoint, CABundle: bundle}},
			func(c client.Client) reconcile.Reconciler {
				return peer.NewReconciler(c, peer.Options{
					Gateways: gateways{err: err}, Clock: clocktesting.NewFakePassiveClock(now),
				})
			})
	}
	const endpoint = "gateway.west.example:8443"
	return []sample{
		{"reachable", seen(endpoint, ca.CertificatePEM, nil), "Healthy"},
		{"receives only", seen("", ca.CertificatePEM, nil), "Healthy"},
		{"unreachable", seen(endpoint, ca.CertificatePEM, errors.New("connection refused")), "Progressing"},
		{"untrusted", seen(endpoint, ca.CertificatePEM, agentclient.ErrUntrusted), "Degraded"},
		{"no CA", seen(endpoint, []byte("none"), nil), "Degraded"},
	}
}

func grants(t *testing.T) []sample {
	seen := func(expires *metav1.Time, others ...client.Object) *v1alpha1.PeerGrant {
		return reconciled(t, &v1alpha1.PeerGrant{ObjectMeta: named("from-east"), Spec: v1alpha1.PeerGrantSpec{
			From:           []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{"bank"}}},
			ExpirationTime: expires,
		}}, func(c client.Client) reconcile.Reconciler {
			return peergrant.NewReconciler(c, peergrant.Options{Clock: clocktesting.NewFakePassiveClock(now)})
		}, others...)
	}
	east := &v1alpha1.Peer{ObjectMeta: cluster("east")}
	past := metav1.NewTime(now.Add(-time.Minute))
	return []sample{
		{"resolved", seen(nil, east), "Healthy"},
		{"no peer", seen(nil), "Progressing"},
		{"expired", seen(&past, east), "Degraded"},
	}
}

func dataQuotas(t *testing.T) []sample {
	quota := &v1alpha1.DataQuota{ObjectMeta: named("team"), Spec: v1alpha1.DataQuotaSpec{
		Hard: v1alpha1.DataQuotaResources{RunningTransfers: ptr.To[int32](1)},
	}}
	return []sample{{"in force", reconciled(t, quota, func(c client.Client) reconcile.Reconciler {
		return dataquota.NewReconciler(dataquota.Options{
			Client: c, Metrics: metrics.NewQuotas(prometheus.NewRegistry()), Clock: clocktesting.NewFakePassiveClock(now),
		})
	}), "Healthy"}}
}

func profiles(t *testing.T) []sample {
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "z15-a", UID: "uid-1"}}
	machine.Status.NodeInfo.Architecture = "amd64"
	seen := func(failing time.Duration, answer error) *v1alpha1.NodeProfile {
		profile := &v1alpha1.NodeProfile{ObjectMeta: cluster("z15-a")}
		if failing > 0 {
			profile.Status.Conditions = conditions.Merge(nil, conditions.Reconciling("NodeAgentUnreachable", "x"), 1,
				now.Add(-failing))
		}
		ask := func(context.Context, agentclient.Target) (*wirev1.NodeMeasurement, error) {
			return &wirev1.NodeMeasurement{
				Version: "v9", Architecture: "amd64", Cores: 4, MeasuredTime: timestamppb.New(now),
			}, answer
		}
		pod := running()
		pod.Namespace, pod.Spec.NodeName = "lighterage-system", "z15-a"
		pod.Labels = map[string]string{node.ComponentLabel: node.NodeAgent}
		return reconciled(t, profile, func(c client.Client) reconcile.Reconciler {
			return node.NewReconciler(c, node.Options{
				Profiles: controllertest.Asking[*wirev1.NodeMeasurement](ask), Namespace: "lighterage-system",
				Clock: clocktesting.NewFakePassiveClock(now),
			})
		}, machine.DeepCopy(), pod)
	}
	silent := errors.New("no answer")
	return []sample{
		{"measured", seen(0, nil), "Healthy"},
		{"starting", seen(0, silent), "Progressing"},
		{"silent", seen(24*time.Hour, silent), "Degraded"},
	}
}

func policies(*testing.T) []sample {
	judged := func(edit func(*v1alpha1.CompressionPolicySpec)) *v1alpha1.CompressionPolicy {
		p := &v1alpha1.CompressionPolicy{ObjectMeta: cluster("z-first")}
		edit(&p.Spec)
		p.Status.Conditions = conditions.Merge(nil, compressionpolicy.Judge(p, nil, nil), p.Generation, now)
		p.Status.ObservedGeneration = p.Generation
		return p
	}
	return []sample{
		{"accepted", judged(func(*v1alpha1.CompressionPolicySpec) {}), "Healthy"},
		{"no tariff", judged(func(s *v1alpha1.CompressionPolicySpec) { s.TariffName = "none" }), "Degraded"},
	}
}

func localPolicies(*testing.T) []sample {
	judged := func(objective v1alpha1.CompressionObjective) *v1alpha1.LocalCompressionPolicy {
		p := &v1alpha1.LocalCompressionPolicy{ObjectMeta: named("small-first")}
		p.Spec.Objective = objective
		p.Status.Conditions = conditions.Merge(nil, compressionpolicy.JudgeLocal(p, nil, nil), p.Generation, now)
		p.Status.ObservedGeneration = p.Generation
		return p
	}
	return []sample{
		{"accepted", judged(v1alpha1.ObjectiveBytes), "Healthy"},
		{"no prices", judged(v1alpha1.ObjectiveCost), "Degraded"},
	}
}

func tariffs(*testing.T) []sample {
	judged := func(price string) *v1alpha1.Tariff {
		tariff := &v1alpha1.Tariff{ObjectMeta: cluster("public"), Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: price}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
		}}
		tariff.Status.Conditions = conditions.Merge(nil, tariffstatus.Judge(tariff, nil), tariff.Generation, now)
		tariff.Status.ObservedGeneration = tariff.Generation
		return tariff
	}
	return []sample{{"accepted", judged("0.05"), "Healthy"}, {"not a price", judged("free"), "Degraded"}}
}

func statements(t *testing.T) []sample {
	month := v1alpha1.Statement{ObjectMeta: named(ledger.MonthOf(now))}
	booking := ledger.Booking{Now: now, NamespaceUID: "uid-2"}
	open := ledger.Next([]v1alpha1.Statement{month}, booking, 13).Write
	booking.Now = now.AddDate(0, 1, 0)
	closed := ledger.Next([]v1alpha1.Statement{*open}, booking, 13).Write
	if closed == nil || closed.Status.State != v1alpha1.StatementClosed {
		t.Fatalf("%+v", closed)
	}
	return []sample{{"open", open, "Healthy"}, {"closed", closed, "Healthy"}}
}
