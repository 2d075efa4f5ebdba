// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	root     = "../.."
	chartDir = "charts/lighterage"
)

// tool returns the path of a program of the build, which Go builds once and keeps in its cache.
func tool(modfile, name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		out, err := run("go", "tool", "-modfile="+modfile, "-n", name)
		return strings.TrimSpace(out), err
	})
}

var (
	helm      = tool("hack/tools/helm/go.mod", "helm")
	kustomize = tool("hack/tools/go.mod", "kustomize")
)

// run runs a program in the root of the tree and returns its standard output; the error has what else it said.
func run(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = root
	// Tests may run with a compiler and platform of their own.
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// template renders the chart with values set as on the command line.
func template(t *testing.T, set ...string) ([]unstructured.Unstructured, error) {
	t.Helper()
	program, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"template", "lighterage", chartDir, "--namespace", "lighterage-system"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	out, err := run(program, args...)
	if err != nil {
		return nil, err
	}
	return decode(t, out), nil
}

func decode(t *testing.T, text string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var o unstructured.Unstructured
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// find returns the object of a kind and name.
func find(objects []unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for i := range objects {
		if objects[i].GetKind() == kind && objects[i].GetName() == name {
			return &objects[i]
		}
	}
	return nil
}

// at follows a path of map keys and list indexes through an object.
func at(o any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := o.(map[string]any)
			o = m[key]
		case int:
			l, _ := o.([]any)
			if key >= len(l) {
				return nil
			}
			o = l[key]
		}
	}
	return o
}
