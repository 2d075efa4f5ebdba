// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package apilint

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	root = "../.."
	crds = "config/crd/bases"
)

// removed are the fields and values that the API had in the previous state and has no more, each with the reason. A
// released version must have none: see docs/operations/upgrade.md.
var removed = map[string]string{}

// TestPreviousObjectsStayValid holds the API to its plan: objects of the state that hack/previous pins mean the same
// now. Within a version no field goes or changes its type, none becomes required, and no value of an enumeration goes.
func TestPreviousObjectsStayValid(t *testing.T) {
	pinned, err := os.ReadFile(filepath.Join(root, "hack/previous/commit"))
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(pinned))
	known := exec.CommandContext(t.Context(), "git", "cat-file", "-e", commit+"^{commit}")
	known.Dir = root
	if err := known.Run(); err != nil {
		t.Skipf("commit %s is not in this clone: fetch the whole history: git fetch --unshallow", commit)
	}
	names := strings.Fields(git(t, "ls-tree", "--name-only", commit, crds+"/"))
	if len(names) < 8 {
		t.Fatalf("commit %s has %d CRDs: %v", commit, len(names), names)
	}
	var breaches []string
	for _, name := range names {
		now, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("a kind is gone: %v", err)
			continue
		}
		before := parse(t, name, []byte(git(t, "show", commit+":"+name)))
		after := parse(t, name, now)
		for version, schema := range before {
			if after[version] == nil {
				t.Errorf("%s: version %s is gone", name, version)
				continue
			}
			breaches = append(breaches, compare(filepath.Base(name), *schema, *after[version])...)
		}
	}
	for _, breach := range breaches {
		if removed[breach] == "" {
			t.Errorf("%s: add a field under another name and keep this one", breach)
		}
	}
	for breach := range removed {
		if !slices.Contains(breaches, breach) {
			t.Errorf("%q is no breach any more: take it from the list", breach)
		}
	}
}

// TestCompare shows that what breaks objects is found.
func TestCompare(t *testing.T) {
	object := func(change func(*apiextensionsv1.JSONSchemaProps)) apiextensionsv1.JSONSchemaProps {
		s := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"a"}}
		s.Properties = map[string]apiextensionsv1.JSONSchemaProps{
			"a": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"x"`)}, {Raw: []byte(`"y"`)}}},
			"b": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
				Schema: &apiextensionsv1.JSONSchemaProps{Type: "integer"},
			}},
		}
		change(&s)
		return s
	}
	same := func(*apiextensionsv1.JSONSchemaProps) {}
	for name, test := range map[string]struct {
		change func(*apiextensionsv1.JSONSchemaProps)
		want   []string
	}{
		"nothing": {change: same},
		"added": {change: func(s *apiextensionsv1.JSONSchemaProps) {
			s.Properties["c"] = apiextensionsv1.JSONSchemaProps{}
		}},
		"optional": {change: func(s *apiextensionsv1.JSONSchemaProps) { s.Required = nil }},
		"required": {
			change: func(s *apiextensionsv1.JSONSchemaProps) { s.Required = append(s.Required, "b") },
			want:   []string{"k.b required"},
		},
		"gone": {change: func(s *apiextensionsv1.JSONSchemaProps) { delete(s.Properties, "b") }, want: []string{"k.b gone"}},
		"of another type": {
			change: func(s *apiextensionsv1.JSONSchemaProps) { s.Properties["b"].Items.Schema.Type = "string" },
			want:   []string{"k.b[] type integer"},
		},
		"without a value": {change: func(s *apiextensionsv1.JSONSchemaProps) {
			a := s.Properties["a"]
			a.Enum = a.Enum[:1]
			s.Properties["a"] = a
		}, want: []string{`k.a value "y"`}},
	} {
		if got := compare("k", object(same), object(test.change)); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// compare names what of a schema objects may have relied on and cannot any more.
func compare(path string, before, after apiextensionsv1.JSONSchemaProps) []string {
	var breaches []string
	if before.Type != after.Type && !after.XIntOrString {
		breaches = append(breaches, fmt.Sprintf("%s type %s", path, before.Type))
	}
	for _, value := range before.Enum {
		gone := !slices.ContainsFunc(after.Enum, func(v apiextensionsv1.JSON) bool {
			return string(v.Raw) == string(value.Raw)
		})
		if gone && len(after.Enum) > 0 {
			breaches = append(breaches, fmt.Sprintf("%s value %s", path, value.Raw))
		}
	}
	for _, field := range after.Required {
		if !slices.Contains(before.Required, field) && after.Properties[field].Default == nil {
			breaches = append(breaches, path+"."+field+" required")
		}
	}
	for _, field := range slices.Sorted(maps.Keys(before.Properties)) {
		now, there := after.Properties[field]
		if !there {
			breaches = append(breaches, path+"."+field+" gone")
			continue
		}
		breaches = append(breaches, compare(path+"."+field, before.Properties[field], now)...)
	}
	if before.Items != nil && after.Items != nil {
		breaches = append(breaches, compare(path+"[]", *before.Items.Schema, *after.Items.Schema)...)
	}
	return breaches
}

// parse returns the schemas of a CRD by version.
func parse(t *testing.T, name string, encoded []byte) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(encoded, &crd); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, version := range crd.Spec.Versions {
		schemas[version.Name] = version.Schema.OpenAPIV3Schema
	}
	return schemas
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
