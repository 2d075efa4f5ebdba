// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package arch_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// shares are modules whose programs and tests consist of Kubernetes' libraries, as the operator does. Go compiles these
// libraries once for all modules that have the same versions of them and of what they import; for each other module it
// takes minutes more.
var shares = map[string][]string{
	"hack/bench":              nil,
	"hack/cluster":            nil,
	"hack/cluster/kubernetes": nil,
	"hack/cluster/sidecars":   nil,
	"hack/images":             nil,
	"hack/tools": {
		// What kustomize itself is made of.
		"github.com/go-errors/errors", "sigs.k8s.io/kustomize/api", "sigs.k8s.io/kustomize/kyaml",
	},
	"hack/tools/helm": {
		"github.com/go-errors/errors", "sigs.k8s.io/kustomize/kyaml", "go.opentelemetry.io/proto/otlp",
	},
	"test/console": nil,
	"test/gitops":  nil,
}

// TestModulesShareLibraries holds these modules to the versions that the operator has of what both require.
func TestModulesShareLibraries(t *testing.T) {
	operator := versions(t, ".")
	for dir, but := range shares {
		same := 0
		for path, version := range versions(t, dir) {
			switch want := operator[path]; {
			case want == "":
			case want == version:
				same++
			case !slices.Contains(but, path):
				t.Errorf("%s has %s %s, and the operator %s: set it by `go mod edit -require=%s@%s`, or -replace where a library "+
					"requires a later one, and `go mod tidy`", dir, path, version, want, path, want)
			}
		}
		if same == 0 {
			t.Errorf("%s shares no library with the operator", dir)
		}
	}
}

// versions are those of the modules that the go.mod in a folder requires, by path, as replaced.
func versions(t *testing.T, dir string) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(root, dir, "go.mod")).Output()
	if err != nil {
		t.Fatalf("read go.mod of %s: %v", dir, err)
	}
	type required struct{ Path, Version string }
	var mod struct {
		Require []required
		Replace []struct{ Old, New required }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatalf("read go.mod of %s: %v", dir, err)
	}
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	for _, r := range mod.Replace {
		// A module of this tree, or one that nothing requires, has no version here.
		if r.New.Version != "" && versions[r.Old.Path] != "" {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}
