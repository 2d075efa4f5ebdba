// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// admit installs the admission policies and waits until one refuses what it is to refuse.
func admit(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	for _, name := range []string{"agents", "deliveries", "network-policies", "objects", "privilege"} {
		apply(t, cluster, filepath.Join(admissionDirectory, name+".yaml"))
	}
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + controllertest.OperatorNamespace + ":lighterage-manager"}
	manager, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}}
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "any", Image: "any"}}}
		if err := manager.Create(context.Background(), job, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policies are not in force: %w", err)
		}
		return nil
	})
}

// checkMetrics: M9. Metrics are for whom the API server authenticates, and allows to get them, and come from whom the cluster's CA knows.
func checkMetrics(t *testing.T, cluster *controllertest.Cluster, address string) {
	t.Helper()
	ctx := context.Background()
	var published corev1.ConfigMap
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: controllertest.OperatorNamespace, Name: pki.CAName}, &published); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(published.Data["ca.crt"]))
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: pki.ManagerServerName}}}
	t.Cleanup(browser.CloseIdleConnections)
	scrape := func(token string, want int) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", http.NoBody)
			if err != nil {
				return err
			}
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			response, err := browser.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != want {
				return fmt.Errorf("%s, want %d", response.Status, want)
			}
			return nil
		})
	}
	token := func(name string) string {
		t.Helper()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		cluster.Create(t, account)
		request := &authenticationv1.TokenRequest{}
		if err := cluster.Client.SubResource("token").Create(ctx, account, request); err != nil {
			t.Fatal(err)
		}
		return request.Status.Token
	}
	prometheus := token("prometheus")
	cluster.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "lighterage-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "prometheus"}},
	})
	scrape("", http.StatusUnauthorized)
	scrape("forged", http.StatusInternalServerError) // controller-runtime's filter takes the review's "invalid token" for a failure
	scrape(token("stranger"), http.StatusForbidden)
	scrape(prometheus, http.StatusOK)
}
