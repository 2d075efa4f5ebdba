// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FreeAddress is one that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// CheckMetrics checks that who serves metrics at an address proves a name by a CA, and answers only whom the API server
// authenticates and allows to get them, which takes the ClusterRole lighterage-metrics-reader.
func (c *Cluster) CheckMetrics(t testing.TB, address, serverName string, ca []byte) {
	t.Helper()
	ctx := context.Background()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	browser := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: serverName}},
	}
	t.Cleanup(browser.CloseIdleConnections)
	scrape := func(token string, want int) {
		t.Helper()
		Eventually(t, func() error {
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
		c.Create(t, account) //nolint:contextcheck // as all tests create
		request := &authenticationv1.TokenRequest{}
		if err := c.Client.SubResource("token").Create(ctx, account, request); err != nil {
			t.Fatal(err)
		}
		return request.Status.Token
	}
	prometheus := token("prometheus")
	c.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "lighterage-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "prometheus"}},
	})
	scrape("", http.StatusUnauthorized)
	// controller-runtime's filter takes the review's "invalid token" for a failure
	scrape("forged", http.StatusInternalServerError)
	scrape(token("stranger"), http.StatusForbidden)
	scrape(prometheus, http.StatusOK)
}
