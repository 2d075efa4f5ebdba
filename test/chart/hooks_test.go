// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestHooks: CronJobs are read only where that is asked for, and each name that may be a hook has a binding by which
// Jobs are compared with their CronJob.
func TestHooks(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]struct{ roles, names []string }{
		"hooks.enabled=false": {nil, []string{"lighterage-after", "lighterage-before"}},
		"hooks.enabled=true,hooks.cronJobs={freeze,thaw,dump}": {
			[]string{"ClusterRole", "ClusterRoleBinding"}, []string{"dump", "freeze", "thaw"},
		},
		"hooks.enabled=true,watchNamespaces={bank}": {
			[]string{"ClusterRole", "ClusterRoleBinding", "Role bank", "Role lighterage-system", "RoleBinding bank",
				"RoleBinding lighterage-system"},
			[]string{"lighterage-after", "lighterage-before"},
		},
	} {
		objects, err := template(t, registry, withoutCRDs, values)
		if err != nil {
			t.Fatal(err)
		}
		var roles, names []string
		list := ""
		for i := range objects {
			o := &objects[i]
			spec, _ := o.Object["spec"].(map[string]any)
			switch {
			case strings.Contains(o.GetKind(), "Role") && strings.HasPrefix(o.GetName(), "lighterage-hooks"):
				roles = append(roles, strings.TrimSpace(o.GetKind()+" "+o.GetNamespace()))
			case o.GetKind() == "ValidatingAdmissionPolicyBinding" && spec["paramRef"] != nil:
				param, _ := spec["paramRef"].(map[string]any)
				names = append(names, fmt.Sprint(param["name"]))
				if selector := fmt.Sprint(spec["matchResources"]); !strings.Contains(
					selector, fmt.Sprintf("lighterage.dev/hook:%s]", param["name"]),
				) || param["parameterNotFoundAction"] != "Deny" {
					t.Errorf("%s: %v", values, spec)
				}
			case o.GetKind() == "ValidatingAdmissionPolicy" && o.GetName() == "lighterage-hooks":
				list = fmt.Sprint(spec["validations"])
			}
		}
		slices.Sort(roles)
		slices.Sort(names)
		if !slices.Equal(roles, want.roles) || !slices.Equal(names, want.names) {
			t.Errorf("%s: %q, bindings for %q", values, roles, names)
		}
		for _, name := range names {
			if !strings.Contains(list, "'"+name+"'") {
				t.Errorf("%s: %s is not in %s", values, name, list)
			}
		}
	}
	if _, err := template(t, registry, withoutCRDs, "hooks.cronJobs={it's}"); err == nil {
		t.Error("a name that would be CEL is accepted")
	}
}
