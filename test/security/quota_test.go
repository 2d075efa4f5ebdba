// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestTenantsCannotWriteWhatQuotasRestOn plays a tenant who would raise its own limits, or write into a status what it
// holds and since when it waits. None of the roles that are added to those for tenants allows either.
func TestTenantsCannotWriteWhatQuotasRestOn(t *testing.T) {
	t.Parallel()
	reads := []string{"get", "list", "watch"}
	for _, name := range []string{"view", "edit", "admin"} {
		text, err := os.ReadFile("../../config/rbac/" + name + "_role.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(text, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			writes := slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool { return slices.Contains(reads, verb) })
			for _, resource := range rule.Resources {
				if len(writes) > 0 && (resource == "dataquotas" || strings.ContainsAny(resource, "*/")) {
					t.Errorf("%s: tenants may %v %s", name, writes, resource)
				}
			}
		}
		if len(role.Rules) == 0 {
			t.Errorf("%s has no rules", name)
		}
	}
}
