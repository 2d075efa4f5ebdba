// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package trial_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/pki"
)

func newEndpoint(namespace string) *v1alpha1.HTTPEndpoint {
	return &v1alpha1.HTTPEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec: v1alpha1.HTTPEndpointSpec{
			Backend: v1alpha1.HTTPBackend{Service: &v1alpha1.HTTPService{Name: "shop", Port: 8080}},
		},
	}
}

// TestWaitsForReplicas: a trial of an HTTPEndpoint begins when there is one with a replica that is ready, and asks
// that.
func TestWaitsForReplicas(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := cluster.Namespace(t)
	trial := newTrial(namespace)
	trial.Spec.Source = v1alpha1.TrialSource{HTTPEndpoint: &v1alpha1.TrialHTTPEndpoint{Name: "shop"}}
	cluster.Create(t, trial)
	if d := trial.Spec.Source.HTTPEndpoint.Duration; d == nil || d.Duration != time.Minute {
		t.Errorf("duration %v", d)
	}
	expect(t, trial, v1alpha1.TrialPending, v1alpha1.ConditionStalled, v1alpha1.ReasonSourceNotFound)
	endpoint := newEndpoint(namespace)
	cluster.Create(t, endpoint)
	expect(t, trial, v1alpha1.TrialPending, v1alpha1.ConditionStalled, v1alpha1.ReasonSourceNotReady)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "shop-1",
	}, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry.example/agent:test"}}},
		},
	}}
	cluster.Create(t, set)
	pod := func(name string) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.HTTPEndpointLabel: string(endpoint.UID)},
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")),
				},
			},
			Spec: set.Spec.Template.Spec,
		}
		if name == "stranger" {
			p.OwnerReferences = nil
		}
		cluster.Create(t, p)
		return p
	}
	for name, ip := range map[string]string{"stranger": "10.1.2.4", "shop-1-unready": "10.1.2.5", "shop-1-x": "10.1.2.3"} {
		p := pod(name)
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		if name != "shop-1-unready" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		if err := cluster.Client.Status().Update(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, trial, v1alpha1.TrialStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: trial.Namespace, Name: attempt.SecretName(job(t, trial).Name, trial)}
	if err := cluster.Client.Get(ctx, key, secret); err != nil {
		t.Fatal(err)
	}
	config := string(secret.Data["config.json"])
	if !strings.Contains(config, `"10.1.2.3:9443"`) || strings.Contains(config, "10.1.2.4") ||
		strings.Contains(config, "10.1.2.5") ||
		!strings.Contains(config, pki.HTTPServerName(string(endpoint.UID))) || !strings.Contains(config, "TRIAL_UNIT_BODY") {
		t.Errorf("%s", config)
	}
}

// TestSources: the API server takes one source and says what is wrong with others.
func TestSources(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	claim := &v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}
	endpoint, queue := &v1alpha1.TrialHTTPEndpoint{Name: "shop"}, &v1alpha1.TrialQueue{Name: "orders"}
	for name, test := range map[string]struct {
		source  v1alpha1.TrialSource
		include []string
		says    string
	}{
		"claim":    {source: v1alpha1.TrialSource{PersistentVolumeClaim: claim}, include: []string{"*.x"}},
		"endpoint": {source: v1alpha1.TrialSource{HTTPEndpoint: endpoint}},
		"queue":    {source: v1alpha1.TrialSource{Queue: queue}},
		"none":     {says: "spec.source"},
		"two": {
			source: v1alpha1.TrialSource{HTTPEndpoint: endpoint, Queue: queue},
			says:   "exactly one of persistentVolumeClaim, httpEndpoint and queue must be given",
		},
		"patterns": {
			source: v1alpha1.TrialSource{Queue: queue}, include: []string{"*.x"}, says: "include and exclude choose among files",
		},
		"too long": {
			source: v1alpha1.TrialSource{
				HTTPEndpoint: &v1alpha1.TrialHTTPEndpoint{Name: "shop", Duration: &metav1.Duration{Duration: time.Hour}},
			},
			says: "between 1s and 10m",
		},
		"strange name": {
			source: v1alpha1.TrialSource{Queue: &v1alpha1.TrialQueue{Name: "Orders!"}}, says: "spec.source.queue.name",
		},
	} {
		trial := newTrial(namespace)
		trial.Name = strings.ReplaceAll(name, " ", "-")
		trial.Spec.Source, trial.Spec.Include = test.source, test.include
		err := cluster.Client.Create(context.Background(), trial, client.DryRunAll)
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
