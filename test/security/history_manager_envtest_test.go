// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package security

import (
	"errors"
	"fmt"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/staging"
)

// The manager makes and removes snapshots of destinations with the rights of pointInTime.enabled and under the
// admission policies, and no others.
func TestManagerKeepsHistory(t *testing.T) {
	cluster := install(t)
	if err := cluster.InstallSnapshots(ctx); err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	text, err := os.ReadFile("../../config/pointintime/pointintime_role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(text, role); err != nil {
		t.Fatal(err)
	}
	// In one namespace, so that other tests have the manager without it.
	role.Name = "history-of-" + namespace
	cluster.Create(t, role)
	bind(t, cluster, namespace, role.Name, managerAccount)

	manager := as(t, cluster, managerAccount)
	transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger", UID: "uid"}}
	transfer.Spec.Destination.PersistentVolumeClaim.ClaimName = "copy"
	keeper := staging.Cluster{Client: manager, Reader: manager}
	keep := func(step *plan.HistoryStep) func() error {
		return func() error {
			problem, err := keeper.KeepHistory(ctx, plan.TransferHistory(transfer), step)
			if problem != nil {
				return errors.New(problem.Message)
			}
			return err
		}
	}
	snapshot := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"source": map[string]any{"persistentVolumeClaimName": "copy"},
		}}}
		o.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot",
		})
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	permitted(t, keep(&plan.HistoryStep{Take: &v1alpha1.SnapshotStatus{Name: "history", RunID: "abcde"}, Class: "fast"}))
	taken := snapshot("history")
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(taken), taken); err != nil {
		t.Fatal(err)
	}
	says(t, forbidden(t, func() error { return manager.Create(ctx, snapshot("any")) }, func() error {
		return cluster.Client.Delete(ctx, snapshot("any"))
	}), "managed-by")
	foreign := snapshot("foreign")
	cluster.Create(t, foreign)
	says(t, forbidden(t, func() error { return manager.Delete(ctx, snapshot("foreign")) }, func() error {
		return cluster.Client.Create(ctx, snapshot("foreign"))
	}), "managed-by")
	permitted(t, keep(&plan.HistoryStep{Remove: []string{"history", "foreign"}}))
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(taken), taken); !apierrors.IsNotFound(err) {
			return fmt.Errorf("history is not removed: %v", err)
		}
		return nil
	})
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Error(err)
	}
}
