// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestPointInTime: the right to make and delete claims is given only where that is asked for, and in the namespaces
// that are watched.
func TestPointInTime(t *testing.T) {
	t.Parallel()
	optIn(t, "lighterage-point-in-time", map[string][]string{
		"pointInTime.enabled=false": nil,
		"pointInTime.enabled=true":  {"ClusterRole", "ClusterRoleBinding"},
		"pointInTime.enabled=true,watchNamespaces={bank}": {
			"ClusterRole", "ClusterRoleBinding", "Role bank", "RoleBinding bank", "Role lighterage-system",
			"RoleBinding lighterage-system",
		},
	})
}

// TestClaimTemplates: so is the right to create claims and to enlarge them, which is none to delete.
func TestClaimTemplates(t *testing.T) {
	t.Parallel()
	rules := optIn(t, "lighterage-claim-templates", map[string][]string{
		"claimTemplates.enabled=false": nil,
		"claimTemplates.enabled=true":  {"ClusterRole", "ClusterRoleBinding"},
		"claimTemplates.enabled=true,watchNamespaces={bank}": {
			"ClusterRole", "ClusterRoleBinding", "Role bank", "RoleBinding bank", "Role lighterage-system",
			"RoleBinding lighterage-system",
		},
	})
	for _, rule := range rules {
		if fmt.Sprint(rule["resources"], rule["verbs"]) != "[persistentvolumeclaims] [create patch]" {
			t.Errorf("%v", rule)
		}
	}
}

// TestPopulator: so is the right to give volumes to claims.
func TestPopulator(t *testing.T) {
	t.Parallel()
	rules := optIn(t, "lighterage-populator", map[string][]string{
		"populator.enabled=false": nil,
		"populator.enabled=true":  {"ClusterRole", "ClusterRoleBinding"},
		"populator.enabled=true,watchNamespaces={bank}": {
			"ClusterRole", "ClusterRoleBinding", "Role bank", "RoleBinding bank", "Role lighterage-system",
			"RoleBinding lighterage-system",
		},
	})
	for _, rule := range rules {
		if fmt.Sprint(rule["resources"]) == "[persistentvolumes]" && fmt.Sprint(rule["verbs"]) != "[patch]" {
			t.Errorf("%v", rule)
		}
	}
}

// optIn holds that objects with names that begin so are there by values as wanted, and are the manager's. It returns
// their rules.
func optIn(t *testing.T, name string, wanted map[string][]string) (all []map[string]any) {
	t.Helper()
	for values, want := range wanted {
		objects, err := template(t, registry, withoutCRDs, values)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for i := range objects {
			o := &objects[i]
			if !strings.HasPrefix(o.GetName(), name) {
				continue
			}
			found = append(found, strings.TrimSpace(o.GetKind()+" "+o.GetNamespace()))
			all = append(all, rulesOf(o)...)
			for _, rule := range rulesOf(o) {
				ofCluster := slices.Contains([]string{
					"[volumesnapshotclasses]", "[volumegroupsnapshotclasses]", "[storageclasses]", "[persistentvolumes]",
				}, fmt.Sprint(rule["resources"]))
				if strings.HasPrefix(o.GetKind(), "Role") && ofCluster ||
					o.GetKind() == "ClusterRole" && len(want) > 2 && !ofCluster {
					t.Errorf("%s: %s %s has %v", values, o.GetKind(), o.GetNamespace(), rule)
				}
			}
			if subjects := fmt.Sprint(o.Object["subjects"]); o.Object["subjects"] != nil &&
				!strings.Contains(subjects, "lighterage-manager") {
				t.Errorf("%s: %s is of %s", values, o.GetKind(), subjects)
			}
		}
		slices.Sort(found)
		slices.Sort(want)
		if !slices.Equal(found, want) {
			t.Errorf("%s: %q, want %q", values, found, want)
		}
	}
	return all
}

func rulesOf(o *unstructured.Unstructured) []map[string]any {
	list, _ := o.Object["rules"].([]any)
	var rules []map[string]any
	for _, one := range list {
		if rule, ok := one.(map[string]any); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}
