// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"testing"

	"github.com/lighterage/lighterage/test/render"
)

// Install creates the roles, bindings and admission policies that the chart renders with these values.
func (c *Cluster) Install(t testing.TB, values ...string) {
	t.Helper()
	objects, err := render.Chart(append(values, "image.registry=registry.example", "crds.install=false")...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		switch objects[i].GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy",
			"ValidatingAdmissionPolicyBinding":
			c.Create(t, objects[i].DeepCopy())
		}
	}
}
