// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// M10: every kind of the API is in the roles for people, so that nobody has to grant lighterage.dev/*. Kinds of the
// cluster are the platform team's, and what only the operator creates is not for people to write.
func TestEveryKindIsInTheUsersRoles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d CRDs: %v", len(files), err)
	}
	chart, _ := both(t)
	view, edit, admin := role(t, chart, "lighterage-view"), role(t, chart, "lighterage-edit"),
		role(t, chart, "lighterage-admin")
	write := []string{"create", "delete", "deletecollection", "patch", "update"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		name := crd.Spec.Names.Plural
		if got := view[name]; !slices.Equal(got, []string{"get", "list", "watch"}) {
			t.Errorf("lighterage-view allows %v on %s: add it to config/rbac/view_role.yaml", got, name)
		}
		writers := len(edit[name]) + len(admin[name])
		switch {
		case crd.Spec.Scope == apiextensionsv1.ClusterScoped || platform[name]:
			if writers > 0 {
				t.Errorf("%s is for the platform team, and tenants may write it: %v %v", name, edit[name], admin[name])
			}
		case written[name]:
			if writers > 0 {
				t.Errorf("%s are the manager's, and tenants may write them: %v %v", name, edit[name], admin[name])
			}
		case name == "deliveries":
			if !slices.Equal(admin[name], []string{"delete", "deletecollection"}) || len(edit[name]) > 0 {
				t.Errorf("deliveries: %v %v", edit[name], admin[name])
			}
		default:
			if !slices.Equal(edit[name], write) == !slices.Equal(admin[name], write) {
				t.Errorf(
					"%s belongs into one of config/rbac/edit_role.yaml and admin_role.yaml, with %v; there are %v and %v", name, write,
					edit[name], admin[name],
				)
			}
		}
	}
}

// written are the namespaced kinds that the manager alone writes.
var written = map[string]bool{"statements": true}

// platform are the namespaced kinds that the platform team writes.
var platform = map[string]bool{"dataquotas": true}

// role maps resources to sorted verbs.
func role(t *testing.T, objects []unstructured.Unstructured, name string) map[string][]string {
	t.Helper()
	found := find(objects, "ClusterRole", name)
	if found == nil {
		t.Fatalf("there is no ClusterRole %s", name)
	}
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &role); err != nil {
		t.Fatal(err)
	}
	verbs := map[string][]string{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			verbs[resource] = append(verbs[resource], rule.Verbs...)
			slices.Sort(verbs[resource])
		}
	}
	return verbs
}

// TestAggregation: Kubernetes adds the roles to its own by these labels.
func TestAggregation(t *testing.T) {
	t.Parallel()
	chart, config := both(t)
	for source, objects := range map[string][]unstructured.Unstructured{"chart": chart, "config/default": config} {
		for name, want := range map[string][]string{
			"lighterage-view": {"view", "edit", "admin"}, "lighterage-edit": {"edit", "admin"}, "lighterage-admin": {"admin"},
		} {
			labels := find(objects, "ClusterRole", name).GetLabels()
			for _, into := range []string{"view", "edit", "admin"} {
				aggregated := labels["rbac.authorization.k8s.io/aggregate-to-"+into] == "true"
				if aggregated != slices.Contains(want, into) {
					t.Errorf("%s: %s is aggregated to %s: %v", source, name, into, aggregated)
				}
			}
		}
	}
}

// TestNobodyMayExec: no role lets anybody into a running container, whatever is opted in to. Hooks are Jobs for that.
func TestNobodyMayExec(t *testing.T) {
	t.Parallel()
	all, err := template(t, registry, withoutCRDs,
		"pointInTime.enabled=true,claimTemplates.enabled=true,populator.enabled=true,hooks.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	chart, config := both(t)
	ways := []string{
		"pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/ephemeralcontainers", "pods/*", "*",
	}
	for source, objects := range map[string][]unstructured.Unstructured{
		"chart": chart, "chart with all": all, "config/default": config,
	} {
		roles := 0
		for _, o := range objects {
			if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
				continue
			}
			roles++
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				for _, way := range ways {
					if slices.Contains(rule.Resources, way) {
						t.Errorf("%s: %s %s allows %v on %s", source, o.GetKind(), o.GetName(), rule.Verbs, way)
					}
				}
			}
		}
		if roles == 0 {
			t.Errorf("%s has no roles", source)
		}
	}
}
