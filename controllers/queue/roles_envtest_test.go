// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestRolesValidation: roles name clients once and with operations, and messages say what to write.
func TestRolesValidation(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	put := []v1alpha1.QueueOperation{v1alpha1.QueueOperationPut}
	for what, test := range map[string]struct {
		change func(*v1alpha1.QueueAuthentication)
		says   string
	}{
		"sound": {func(a *v1alpha1.QueueAuthentication) {
			a.Tokens.Roles = []v1alpha1.QueueTokenRole{
				{Token: "till.eu_1", Operations: put},
				{Token: "*", Operations: []v1alpha1.QueueOperation{"Get", "Put"}},
			}
			a.ClientCertificates = &v1alpha1.QueueClientCertificates{CABundle: authority(t, "clients"),
				Roles: []v1alpha1.QueueCertificateRole{
					{Certificate: "CN:till", Operations: put}, {Certificate: "DNS:till.example", Operations: put},
					{Certificate: "URI:spiffe://shop/till", Operations: put}, {Certificate: "*", Operations: put},
				}}
		}, ""},
		"no operations": {
			func(a *v1alpha1.QueueAuthentication) { a.Tokens.Roles = []v1alpha1.QueueTokenRole{{Token: "till"}} }, "operations",
		},
		"an unknown operation": {func(a *v1alpha1.QueueAuthentication) {
			a.Tokens.Roles = []v1alpha1.QueueTokenRole{{Token: "till", Operations: []v1alpha1.QueueOperation{"Purge"}}}
		}, `"Put", "Get"`},
		"a token twice": {func(a *v1alpha1.QueueAuthentication) {
			a.Tokens.Roles = []v1alpha1.QueueTokenRole{{Token: "till", Operations: put}, {Token: "till", Operations: put}}
		}, "Duplicate"},
		"no key": {func(a *v1alpha1.QueueAuthentication) {
			a.Tokens.Roles = []v1alpha1.QueueTokenRole{{Token: "../x", Operations: put}}
		}, "spec.authentication.tokens.roles"},
		"a bare name": {func(a *v1alpha1.QueueAuthentication) {
			a.ClientCertificates = &v1alpha1.QueueClientCertificates{
				CABundle: authority(t, "clients"), Roles: []v1alpha1.QueueCertificateRole{{Certificate: "till", Operations: put}},
			}
		}, "write for example CN:till"},
	} {
		q := newQueue(func(s *v1alpha1.QueueSpec) { test.change(&s.Authentication) })
		q.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "orders"}
		err := cluster.Client.Create(ctx, q)
		if test.says == "" && err != nil || test.says != "" && (!apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
