// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestPulls: the gateway may touch Transfers where that is asked for, and only in the namespaces that are watched.
func TestPulls(t *testing.T) {
	t.Parallel()
	for values, want := range map[string][]string{
		"pulls.enabled=false":                       nil,
		"pulls.enabled=true":                        {"ClusterRole"},
		"pulls.enabled=true,watchNamespaces={bank}": {"Role bank", "Role lighterage-system"},
	} {
		objects, err := template(t, registry, withoutCRDs, values)
		if err != nil {
			t.Fatal(err)
		}
		var roles []string
		for i := range objects {
			o := &objects[i]
			ofGateway := o.GetLabels()["app.kubernetes.io/component"] == "gateway"
			if !ofGateway || o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
				continue
			}
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				t.Fatal(err)
			}
			touches := func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "transfers") }
			if slices.ContainsFunc(role.Rules, touches) {
				roles = append(roles, strings.TrimSpace(o.GetKind()+" "+o.GetNamespace()))
			}
		}
		slices.Sort(roles)
		if !slices.Equal(roles, want) {
			t.Errorf("%s: %q may touch Transfers, want %q", values, roles, want)
		}
	}
}
