// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// admit installs the admission policies and waits until one refuses what it is to refuse.
func admit(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	for _, name := range []string{"agents", "deliveries", "network-policies", "objects", "privilege"} {
		apply(t, cluster, filepath.Join(admissionDirectory, name+".yaml"))
	}
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + controllertest.OperatorNamespace + ":lighterage-manager",
	}
	manager, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}}
		job.Spec.Template.Spec = corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "any", Image: "any"}},
		}
		if err := manager.Create(context.Background(), job, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policies are not in force: %w", err)
		}
		return nil
	})
}

// checkMetrics: M9. The manager's metrics are guarded, and come from whom the published CA knows.
func checkMetrics(t *testing.T, cluster *controllertest.Cluster, address string) {
	t.Helper()
	var published corev1.ConfigMap
	key := client.ObjectKey{Namespace: controllertest.OperatorNamespace, Name: pki.CAName}
	if err := cluster.Client.Get(context.Background(), key, &published); err != nil {
		t.Fatal(err)
	}
	cluster.CheckMetrics(t, address, pki.ManagerServerName, []byte(published.Data[pki.CAKey]))
}
