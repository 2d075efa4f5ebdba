// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestProject holds the file PROJECT against the definitions of the API's kinds.
func TestProject(t *testing.T) {
	type resource struct {
		Kind    string
		Plural  string
		Version string
		Domain  string
		API     struct {
			Namespaced bool
		}
	}
	var project struct{ Resources []resource }
	text, err := os.ReadFile(filepath.Join(root, "PROJECT"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &project); err != nil {
		t.Fatal(err)
	}
	listed := map[string]resource{}
	for _, one := range project.Resources {
		if _, twice := listed[one.Kind]; twice {
			t.Errorf("PROJECT lists kind %s twice", one.Kind)
		}
		listed[one.Kind] = one
	}
	paths, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d definitions: %v", len(paths), err)
	}
	for _, path := range paths {
		var crd apiextensionsv1.CustomResourceDefinition
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		kind := crd.Spec.Names.Kind
		one, ok := listed[kind]
		delete(listed, kind)
		switch {
		case !ok:
			t.Errorf("PROJECT lacks kind %s: add it under resources", kind)
		case one.Domain != crd.Spec.Group || one.Version != crd.Spec.Versions[0].Name:
			t.Errorf("PROJECT says that kind %s is of %s/%s", kind, one.Domain, one.Version)
		case one.API.Namespaced != (crd.Spec.Scope == apiextensionsv1.NamespaceScoped):
			t.Errorf("PROJECT has the wrong scope for kind %s, which is %s", kind, crd.Spec.Scope)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("PROJECT lists kind %s, which has no definition in config/crd/bases", kind)
	}
}
