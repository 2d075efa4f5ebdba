// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSameAsKustomize holds config/default and the chart with its default values to the same objects: rules, arguments,
// ports, mounts and all. What Helm adds to metadata, and where images come from, may differ.
func TestSameAsKustomize(t *testing.T) {
	t.Parallel()
	chart, config := both(t)
	byKustomize, byHelm := essentials(config), essentials(chart)
	// Helm makes the namespace when it is told to; its labels are the user's.
	delete(byKustomize, "Namespace lighterage-system")
	if len(byHelm) < 15 {
		t.Errorf("the chart has %d objects: something is missing", len(byHelm))
	}
	for key, want := range byKustomize {
		got, ok := byHelm[key]
		if !ok {
			t.Errorf("the chart has no %s", key)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs between config/default (-) and the chart (+):\n%s", key, diff)
		}
	}
	for key := range byHelm {
		if _, ok := byKustomize[key]; !ok {
			t.Errorf("config/default has no %s", key)
		}
	}
}

// both returns what the chart makes by default, and what config/default does. Nobody may change them.
func both(t *testing.T) (chart, config []unstructured.Unstructured) {
	t.Helper()
	chart, err := template(t, registry)
	if err != nil {
		t.Fatal(err)
	}
	config, err = built()
	if err != nil {
		t.Fatal(err)
	}
	return chart, config
}

// essentials maps kind and name to what matters of an object.
func essentials(objects []unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for _, o := range objects {
		o := o.DeepCopy()
		o.SetLabels(nil)
		o.SetAnnotations(nil)
		key := o.GetKind() + " " + o.GetName()
		if template, ok := at(o.Object, "spec", "template", "metadata").(map[string]any); ok {
			delete(template, "labels")
		}
		out[key] = withoutRegistry(o.Object)
	}
	return out
}

// withoutRegistry removes the registry of the test from every string.
func withoutRegistry(v any) any {
	switch x := v.(type) {
	case string:
		return strings.ReplaceAll(x, "registry.example/team/", "")
	case []any:
		for i := range x {
			x[i] = withoutRegistry(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = withoutRegistry(x[k])
		}
	}
	return v
}

// TestSelectors checks that in both every selector selects the pods that it is meant for.
func TestSelectors(t *testing.T) {
	t.Parallel()
	chart, config := both(t)
	for name, objects := range map[string][]unstructured.Unstructured{"chart": chart, "config/default": config} {
		pods := map[string]map[string]any{}
		for _, o := range objects {
			labels, _ := at(o.Object, "spec", "template", "metadata", "labels").(map[string]any)
			if labels == nil {
				continue
			}
			pods[o.GetName()] = labels
			selector, _ := at(o.Object, "spec", "selector", "matchLabels").(map[string]any)
			if !selects(selector, labels) {
				t.Errorf("%s: %s %s does not select its pods", name, o.GetKind(), o.GetName())
			}
		}
		service := find(objects, "Service", "lighterage-gateway")
		selector, _ := at(service.Object, "spec", "selector").(map[string]any)
		for workload, labels := range pods {
			if selects(selector, labels) != (workload == "lighterage-gateway") {
				t.Errorf("%s: the gateway's Service and the pods of %s: %v", name, workload, selector)
			}
		}
	}
}

func selects(selector, labels map[string]any) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// TestCopies holds the chart's copies to what make generate wrote into config.
func TestCopies(t *testing.T) {
	for from, to := range map[string]string{
		"config/crd/bases/*.yaml": "files/crds", "config/rbac/*_role.yaml": "files/rbac",
		"config/pointintime/*_role.yaml":      "files/pointintime",
		"config/claimtemplates/*_role.yaml":   "files/claimtemplates",
		"config/populator/*_role.yaml":        "files/populator",
		"config/hooks/*_role.yaml":            "files/hooks",
		"config/pulls/*_role.yaml":            "files/pulls",
		"config/prometheus/dashboards/*.json": "files/prometheus/dashboards",
	} {
		sources, err := filepath.Glob(filepath.Join(root, from))
		if err != nil || len(sources) == 0 {
			t.Fatalf("%s: %d files, %v", from, len(sources), err)
		}
		copies, err := os.ReadDir(filepath.Join(root, chartDir, to))
		if err != nil || len(copies) != len(sources) {
			t.Errorf("%s has %d files and %s %d: run make generate", from, len(sources), to, len(copies))
		}
		for _, source := range sources {
			want, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(root, chartDir, to, filepath.Base(source)))
			if err != nil || string(got) != string(want) {
				t.Errorf("%s is not copied into the chart: run make generate (%v)", source, err)
			}
		}
	}
}
