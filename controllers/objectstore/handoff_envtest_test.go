// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/objectstoreplan"
)

// modeJob waits until the store has exactly one Job of a mode, and returns it.
func modeJob(t *testing.T, store *v1alpha1.ObjectStore, mode, former string) *batchv1.Job {
	t.Helper()
	var found *batchv1.Job
	controllertest.Eventually(t, func() error {
		found = nil
		for _, job := range cluster.Jobs(t, store.Namespace, v1alpha1.ObjectStoreLabel, string(store.UID)) {
			if job.Labels[agentpod.ComponentLabel] != mode {
				continue
			}
			if found != nil {
				return fmt.Errorf("two Jobs of mode %s", mode)
			}
			found = &job
		}
		if found == nil || found.Name == former {
			return fmt.Errorf("no new Job of mode %s", mode)
		}
		return nil
	})
	return found
}

func TestHandOff(t *testing.T) {
	t.Parallel()
	ctx, namespace := context.Background(), cluster.Namespace(t)
	store := newStore(namespace)
	store.Spec.HandOff = "Perhaps"
	if err := cluster.Client.Create(ctx, store); !apierrors.IsInvalid(err) {
		t.Errorf("an unknown value: %v", err)
	}
	store.Spec.HandOff = v1alpha1.StoreHandOffReceive
	cluster.Create(t, store)
	expectHandOff := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(store), store); err != nil {
				return err
			}
			for _, condition := range store.Status.Conditions {
				if condition.Type == v1alpha1.ConditionHandOffReady {
					if condition.Status == status && condition.Reason == reason {
						return nil
					}
					return fmt.Errorf("%+v", condition)
				}
			}
			return errors.New("no condition HandOffReady")
		})
	}
	probe := modeJob(t, store, "probe", "")
	expectHandOff(metav1.ConditionFalse, v1alpha1.ReasonGatewayNotFound)
	operator := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lighterage-system"}}
	if err := cluster.Client.Create(ctx, operator); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	cluster.Create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Name, Name: objectstoreplan.GatewayService},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "gateway", Port: 8443}}},
	})
	cluster.EndPod(t, cluster.RunPod(t, probe, "node-1"), 0, report(t, "", 0))
	relay := modeJob(t, store, "relay", "")
	expect(t, store, v1alpha1.ConditionReady, v1alpha1.ReasonPromisesKept)
	policies := &networkingv1.NetworkPolicyList{}
	if err := cluster.Client.List(ctx, policies, client.InNamespace(namespace)); err != nil || len(policies.Items) != 1 {
		t.Fatal(policies.Items, err)
	}
	reached := map[int]bool{}
	for _, rule := range policies.Items[0].Spec.Egress {
		for _, port := range rule.Ports {
			reached[port.Port.IntValue()] = true
		}
	}
	if !reached[9000] || !reached[8443] {
		t.Errorf("the relay may reach ports %v", reached)
	}
	pod := cluster.RunPod(t, relay, "node-1")
	expectHandOff(metav1.ConditionTrue, v1alpha1.ReasonRelaying)
	cluster.EndPod(t, pod, 1, report(t, "", wirev1.FailureReason_FAILURE_REASON_STORE_DENIED))
	expectHandOff(metav1.ConditionFalse, v1alpha1.ReasonStoreDenied)

	// Another spec is probed before there is another relay.
	change := client.MergeFrom(store.DeepCopy())
	store.Spec.Prefix = "east/other"
	if err := cluster.Client.Patch(ctx, store, change); err != nil {
		t.Fatal(err)
	}
	probe = modeJob(t, store, "probe", probe.Name)
	cluster.EndPod(t, cluster.RunPod(t, probe, "node-1"), 0, report(t, "", 0))
	relay = modeJob(t, store, "relay", relay.Name)
	secret := &corev1.Secret{}
	for _, volume := range relay.Spec.Template.Spec.Volumes {
		if volume.Name == "config" {
			key := client.ObjectKey{Namespace: namespace, Name: volume.Secret.SecretName}
			if err := cluster.Client.Get(ctx, key, secret); err != nil {
				t.Fatal(err)
			}
		}
	}
	if config := string(secret.Data["config.json"]); !strings.Contains(config, "east/other") ||
		!strings.Contains(config, "lighterage-gateway.lighterage-system.svc:8443") {
		t.Errorf("%s", config)
	}

	change = client.MergeFrom(store.DeepCopy())
	store.Spec.HandOff = ""
	if err := cluster.Client.Patch(ctx, store, change); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		for _, job := range cluster.Jobs(t, namespace, v1alpha1.ObjectStoreLabel, string(store.UID)) {
			if job.Labels[agentpod.ComponentLabel] == "relay" {
				return errors.New("the relay is still there")
			}
		}
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its Secret is still there: %w", err)
		}
		return nil
	})
}
