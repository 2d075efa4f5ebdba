// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package security

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/test/render"
)

const crds = "../../config/crd/bases"

// installed is an API server with what the chart installs of roles, bindings and admission policies.
var installed = sync.OnceValues(func() (*controllertest.Cluster, error) {
	cluster, err := controllertest.Start(crds)
	if err != nil {
		return nil, err
	}
	afterAll = append(afterAll, cluster.Stop)
	objects, err := render.Chart(agentRegistry, "crds.install=false")
	if err != nil {
		return nil, err
	}
	for i := range objects {
		switch objects[i].GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy",
			"ValidatingAdmissionPolicyBinding":
			if err := cluster.Client.Create(context.Background(), objects[i].DeepCopy()); err != nil {
				return nil, fmt.Errorf("create %s %s: %w", objects[i].GetKind(), objects[i].GetName(), err)
			}
		}
	}
	return cluster, nil
})

func install(t *testing.T) *controllertest.Cluster {
	t.Helper()
	cluster, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// as is a client of somebody else.
func as(t *testing.T, cluster *controllertest.Cluster, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bind gives a user a ClusterRole in one namespace.
func bind(t *testing.T, cluster *controllertest.Cluster, namespace, role, user string) {
	t.Helper()
	cluster.Create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role + "-" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// consent annotates a namespace.
func consent(t *testing.T, cluster *controllertest.Cluster, namespace, value string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"lighterage.dev/allow-privileged-agents":"`+value+`"}}}`))
	if err := cluster.Client.Patch(context.Background(), object, patch); err != nil {
		t.Fatal(err)
	}
}

// permitted waits until the API server allows what it is going to allow: it decides by what it has cached of roles and
// namespaces.
func permitted(t *testing.T, do func() error) {
	t.Helper()
	controllertest.Eventually(t, do)
}

// forbidden waits until the API server refuses what it is going to refuse: a policy takes a moment to become active.
// The error is its message; what was admitted meanwhile is undone.
func forbidden(t *testing.T, do func() error, undo func() error) error {
	t.Helper()
	var refusal error
	controllertest.Eventually(t, func() error {
		refusal = do()
		switch {
		case refusal == nil:
			if undo != nil {
				if err := undo(); err != nil {
					return fmt.Errorf("undo what was admitted: %w", err)
				}
			}
			return fmt.Errorf("it was admitted")
		case apierrors.IsForbidden(refusal) || apierrors.IsInvalid(refusal):
			return nil
		}
		return refusal
	})
	return refusal
}
