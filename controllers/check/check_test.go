// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// healthy are facts of which every check is ok.
func healthy(t *testing.T) *Facts {
	t.Helper()
	authority, _, err := pki.NewCA("east", now)
	if err != nil {
		t.Fatal(err)
	}
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reachable"}}
	f := &Facts{
		Now: now, Client: "v1.2.0", Wanted: []string{"Peer", "Transfer"}, OperatorNamespace: "lighterage-system",
		ServerTime: Fact[time.Time]{Value: now.Add(time.Second)}, Kubernetes: Fact[string]{Value: "v1.36.3"},
		Served: Fact[[]string]{Value: []string{"Transfer", "Peer", "Other"}},
		CA:     Fact[[]byte]{Value: authority.CertificatePEM},
	}
	f.Namespace.Value.Labels = map[string]string{enforceLabel: "restricted"}
	for _, name := range []string{"lighterage-manager", "lighterage-gateway"} {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"app.kubernetes.io/name": "lighterage", "app.kubernetes.io/version": "v1.2.0",
		}}}
		d.Status.ReadyReplicas = 1
		f.Deployments.Value = append(f.Deployments.Value, d)
		f.NetworkPolicies.Value = append(
			f.NetworkPolicies.Value, networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}},
		)
	}
	agents := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: nodeAgent}}
	agents.Status.DesiredNumberScheduled, agents.Status.NumberReady = 1, 1
	f.DaemonSets.Value = []appsv1.DaemonSet{agents}
	f.Nodes.Value = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	profile := v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	profile.Status.Conditions = ready
	profile.Status.Engines = []v1alpha1.EngineProfile{{Name: "dfltcc", Verified: true}}
	profile.Status.Accelerator = &v1alpha1.NodeAccelerator{
		AcceleratorProfile: v1alpha1.AcceleratorProfile{State: v1alpha1.AcceleratorVerified},
	}
	f.NodeProfiles.Value = []v1alpha1.NodeProfile{profile}
	peer := v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
	peer.Status.Conditions = ready
	f.Peers.Value = []v1alpha1.Peer{peer}
	store := v1alpha1.ObjectStore{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "s3"}}
	store.Status.Conditions = ready
	f.ObjectStores.Value = []v1alpha1.ObjectStore{store}
	f.StorageClasses.Value = []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{
		Name: "fast", Annotations: map[string]string{defaultClassAnnotation: "true"},
	}}}
	return f
}

// TestHealthy: nothing is found, and every check says something.
func TestHealthy(t *testing.T) {
	results := Run(healthy(t))
	seen := map[string]bool{}
	for _, r := range results {
		seen[r.Check] = true
		if r.Result != OK || r.Message == "" || r.Hint != "" || r.Docs != "" {
			t.Errorf("%+v", r)
		}
	}
	for _, c := range registry {
		if !seen[c.name] {
			t.Errorf("%s has no result", c.name)
		}
		if _, err := os.Stat("../../" + c.docs); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// forbidden is how an API server refuses who may not read something.
func forbidden(resource string) error {
	return apierrors.NewForbidden(corev1.Resource(resource), "", errors.New("user nobody cannot read it"))
}

// TestFindings breaks one fact at a time: only its check finds something.
func TestFindings(t *testing.T) {
	unreadable, notFound := forbidden("things"), apierrors.NewNotFound(corev1.Resource("things"), "one")
	notReady := []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "PeerUnreachable", Message: "no such host",
	}}
	for name, test := range map[string]struct {
		change func(*Facts)
		check  string
		level  Level
		says   string
	}{
		"old Kubernetes":    {func(f *Facts) { f.Kubernetes.Value = "v1.32.9" }, "kubernetes", Error, "1.33"},
		"odd Kubernetes":    {func(f *Facts) { f.Kubernetes.Value = "new" }, "kubernetes", Warning, "new"},
		"no API server":     {func(f *Facts) { f.Kubernetes.Err = unreadable }, "kubernetes", Error, "forbidden"},
		"not installed":     {func(f *Facts) { f.Served.Value = nil }, "kinds", Error, "no kind"},
		"a kind is missing": {func(f *Facts) { f.Served.Value = []string{"Peer"} }, "kinds", Warning, "lacks Transfer"},
		"kinds unreadable":  {func(f *Facts) { f.Served.Err = unreadable }, "kinds", Skipped, "forbidden"},
		"other plugin":      {func(f *Facts) { f.Client = "v1.1.0" }, "operator", Warning, "plugin v1.1.0"},
		"upgrading": {func(f *Facts) {
			f.Deployments.Value[0].Labels = map[string]string{"app.kubernetes.io/name": "lighterage"}
		}, "operator", Warning, "different"},
		"gateway down":         {func(f *Facts) { f.Deployments.Value[1].Status.ReadyReplicas = 0 }, "gateway", Error, "none of 1"},
		"one of two":           {func(f *Facts) { f.Deployments.Value[0].Spec.Replicas = new(int32(2)) }, "manager", Warning, "1 of 2"},
		"scaled to 0":          {func(f *Facts) { f.Deployments.Value[0].Spec.Replicas = new(int32(0)) }, "manager", Error, "scaled"},
		"no Pod Security":      {func(f *Facts) { f.Namespace.Value.Labels = nil }, "pod-security", Warning, "no Pod Security"},
		"privileged":           {func(f *Facts) { f.Namespace.Value.Labels[enforceLabel] = "privileged" }, "pod-security", Warning, "privileged"},
		"namespace unreadable": {func(f *Facts) { f.Namespace.Err = unreadable }, "pod-security", Skipped, "forbidden"},
		"open gateway":         {func(f *Facts) { f.NetworkPolicies.Value = f.NetworkPolicies.Value[:1] }, "network-policies", Warning, "lighterage-gateway"},
		"clock late":           {func(f *Facts) { f.ServerTime.Value = now.Add(20 * time.Second) }, "clock", Warning, "20s"},
		"clock wrong":          {func(f *Facts) { f.ServerTime.Value = now.Add(-time.Hour) }, "clock", Error, "1h"},
		"CA garbage":           {func(f *Facts) { f.CA.Value = []byte("x") }, "ca", Error, "no PEM"},
		"CA unreadable":        {func(f *Facts) { f.CA.Err = unreadable }, "ca", Skipped, "forbidden"},
		"CA missing":           {func(f *Facts) { f.CA.Err = notFound }, "ca", Error, pki.CAName},
		"CA, no answer":        {func(f *Facts) { f.CA.Err = context.DeadlineExceeded }, "ca", Skipped, "deadline"},
		"no namespace":         {func(f *Facts) { f.Namespace.Err = notFound }, "pod-security", Error, "lighterage-system"},
		"no kind of Peers": {func(f *Facts) {
			f.Peers.Err = &meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("Peer").GroupKind()}
		}, "peers", Skipped, "Peer"},
		"peer unreachable":     {func(f *Facts) { f.Peers.Value[0].Status.Conditions = notReady }, "peers", Error, "no such host"},
		"peer changed":         {func(f *Facts) { f.Peers.Value[0].Generation = 2 }, "peers", Error, "not looked"},
		"peer expires":         {func(f *Facts) { f.Peers.Value[0].Status.CAExpirationTime = &metav1.Time{Time: now.Add(time.Hour)} }, "peers", Warning, "2026-11-25"},
		"no node agents":       {func(f *Facts) { f.DaemonSets.Value = nil }, "node-agents", Warning, "not measured"},
		"a node agent down":    {func(f *Facts) { f.DaemonSets.Value[0].Status.NumberReady = 0 }, "node-agents", Warning, "0 of 1"},
		"node without profile": {func(f *Facts) { f.Nodes.Value[0].Name = "b" }, "node-agents", Warning, "NodeProfile: b"},
		"engine not verified":  {func(f *Facts) { f.NodeProfiles.Value[0].Status.Engines[0].Verified = false }, "engines", Error, "no engine"},
		"node agent silent":    {func(f *Facts) { f.NodeProfiles.Value[0].Status.Conditions = notReady }, "engines", Warning, "no such host"},
		"accelerator unused":   {func(f *Facts) { f.NodeProfiles.Value[0].Status.Accelerator.State = v1alpha1.AcceleratorNotUsed }, "accelerator", Warning, "not used"},
		"accelerator slow":     {func(f *Facts) { f.NodeProfiles.Value[0].Status.Accelerator.SlowerThanSoftware = true }, "accelerator", Warning, "slower"},
		"no default class":     {func(f *Facts) { f.StorageClasses.Value[0].Annotations = nil }, "storage-classes", Warning, "none of 1"},
		"two default classes":  {func(f *Facts) { f.StorageClasses.Value = append(f.StorageClasses.Value, f.StorageClasses.Value[0]) }, "storage-classes", Warning, "2 StorageClasses"},
		"store without relay": {func(f *Facts) {
			s := &f.ObjectStores.Value[0].Status
			s.Conditions = append(slices.Clone(s.Conditions), metav1.Condition{
				Type: v1alpha1.ConditionHandOffReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonGatewayNotFound,
			})
		}, "object-stores", Error, "GatewayNotFound"},
		"store not ready": {func(f *Facts) { f.ObjectStores.Value[0].Status.Conditions = nil }, "object-stores", Error, "bank/s3"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(t)
			test.change(f)
			found := false
			for _, r := range Run(f) {
				switch {
				case r.Result == OK:
				case r.Check != test.check || r.Result != test.level || !strings.Contains(r.Message, test.says) || r.Docs == "":
					t.Errorf("%+v", r)
				default:
					found = true
				}
			}
			if !found {
				t.Errorf("%s found nothing", test.check)
			}
		})
	}
}

// TestNoRights: with nothing but an API server that answers, everything else is skipped.
func TestNoRights(t *testing.T) {
	err := forbidden("things")
	f := &Facts{Kubernetes: Fact[string]{Value: "v1.36.3"}}
	f.ServerTime.Err, f.Served.Err, f.Namespace.Err, f.Deployments.Err, f.DaemonSets.Err = err, err, err, err, err
	f.NetworkPolicies.Err, f.CA.Err, f.Nodes.Err, f.NodeProfiles.Err, f.Peers.Err = err, err, err, err, err
	f.ObjectStores.Err, f.StorageClasses.Err = err, err
	results := Run(f)
	if Count(results, Skipped) != len(registry)-1 || Count(results, OK) != 1 || Count(results, Error) != 0 {
		t.Errorf("%+v", results)
	}
}

// TestHints: what to do depends on why something cannot be read.
func TestHints(t *testing.T) {
	seen := map[string]string{}
	for name, err := range map[string]error{
		"forbidden":    forbidden("things"),
		"unauthorized": apierrors.NewUnauthorized("expired"),
		"no kind":      &meta.NoKindMatchError{},
		"no answer":    context.DeadlineExceeded,
	} {
		hint := skipped("things", err)[0].Hint
		if other := seen[hint]; hint == "" || other != "" {
			t.Errorf("%s and %s: %q", name, other, hint)
		}
		seen[hint] = name
	}
	timeout := apierrors.NewTimeoutError("slow", 1)
	if hint := skipped("things", timeout)[0].Hint; seen[hint] != "no answer" {
		t.Errorf("a server that is slow: %q", hint)
	}
}
