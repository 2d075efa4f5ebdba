// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ofNoNamespace are resources of Kubernetes that the operator has rights to and that are of no namespace; kinds of the
// API say it themselves.
var ofNoNamespace = []string{
	"namespaces", "nodes", "nodes/status", "persistentvolumes", "servicecidrs", "volumeattachments", "tokenreviews",
	"subjectaccessreviews", "priorityclasses",
}

// M5: with watchNamespaces, ClusterRoles have rights to what is of no namespace only, and Roles in the namespaces have
// all others.
func TestWatchNamespaces(t *testing.T) {
	t.Parallel()
	all, err := template(t, registry)
	if err != nil {
		t.Fatal(err)
	}
	clusterKinds := slices.Clone(ofNoNamespace)
	for i := range all {
		if all[i].GetKind() == "CustomResourceDefinition" && at(all[i].Object, "spec", "scope") == "Cluster" {
			plural, _ := at(all[i].Object, "spec", "names", "plural").(string)
			clusterKinds = append(clusterKinds, plural, plural+"/status")
		}
	}
	some, err := template(t, registry, withoutCRDs, "watchNamespaces={shop,bank}", "accelerator.slotsPerNode=2")
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"lighterage-manager", "lighterage-gateway"} {
		before := rights(t, all, "ClusterRole", account, "")
		after := rights(t, some, "ClusterRole", account, "")
		for right := range after {
			resource := strings.Split(right, " ")[1]
			if !slices.Contains(clusterKinds, resource) {
				t.Errorf(
					"%s may %s in every namespace: add %s to lighterage.clusterResources, or not to it", account, right, resource,
				)
			}
		}
		for _, namespace := range []string{"bank", "shop", "lighterage-system"} {
			there := rights(t, some, "Role", account+"-watched", namespace)
			for right := range there {
				if slices.Contains(clusterKinds, strings.Split(right, " ")[1]) {
					t.Errorf("a Role cannot allow %s", right)
				}
			}
			for right := range before {
				if !after[right] && !there[right] {
					t.Errorf("%s may not %s any more in namespace %s", account, right, namespace)
				}
			}
			for right := range there {
				if !before[right] {
					t.Errorf("%s may %s in namespace %s, and may not where all are watched", account, right, namespace)
				}
			}
			if !bound(some, account, namespace) {
				t.Errorf("%s is not bound in namespace %s", account, namespace)
			}
		}
		if args := arguments(t, some, account); !slices.Contains(args, "--watch-namespaces=bank,lighterage-system,shop") {
			t.Errorf("%s is told %v", account, args)
		}
		if args := arguments(t, all, account); slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "--watch")
		}) {
			t.Errorf("%s is told %v", account, args)
		}
	}
}

// What agents must not dial is read from namespace default, watched or not.
func TestWatchNamespacesKnowsTheAPIServer(t *testing.T) {
	t.Parallel()
	objects, err := template(t, registry, withoutCRDs, "watchNamespaces={bank}")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"get services  kubernetes": true, "get endpointslices discovery.k8s.io kubernetes": true}
	if got := rights(t, objects, "Role", "lighterage-api-server", "default"); !maps.Equal(got, want) {
		t.Errorf("rights in namespace default: %v", got)
	}
}

// rights of a role, as verb, resource, group and names.
func rights(t *testing.T, objects []unstructured.Unstructured, kind, name, namespace string) map[string]bool {
	t.Helper()
	for i := range objects {
		if objects[i].GetKind() != kind || objects[i].GetName() != name || objects[i].GetNamespace() != namespace {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &role); err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					found[strings.Join(
						[]string{verb, resource, strings.Join(rule.APIGroups, ","), strings.Join(rule.ResourceNames, ",")}, " ",
					)] = true
				}
			}
		}
		return found
	}
	t.Fatalf("there is no %s %s in namespace %q", kind, name, namespace)
	return nil
}

func bound(objects []unstructured.Unstructured, account, namespace string) bool {
	return slices.ContainsFunc(objects, func(o unstructured.Unstructured) bool {
		return o.GetKind() == "RoleBinding" && o.GetNamespace() == namespace && o.GetName() == account+"-watched" &&
			at(o.Object, "subjects", 0, "name") == account && at(o.Object, "subjects", 0, "namespace") == "lighterage-system"
	})
}
