// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
		if err := look(); err != nil {
			return "", err
		}
		out, err := run("go", "tool", "-modfile="+modfile, "-n", name)
		return strings.TrimSpace(out), err
	})
}

// look looks at the files that the programs are going to read: go test takes a former result for the present one when the files that the
// tests themselves looked at are as they were, and does not know of others.
func look() error {
	for _, directory := range []string{chartDir, "config", "hack/tools"} {
		if err := filepath.WalkDir(filepath.Join(root, directory), func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			return fmt.Errorf("look at what is rendered: %w", err)
		}
	}
	return nil
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

// renderings are what template gave, by the values: most of what a test takes is to start helm.
var renderings sync.Map

// template renders the chart with values set as on the command line, each choice of values once. Nobody may change the objects.
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
	render := sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		out, err := run(program, args...)
		if err != nil {
			return nil, err
		}
		return decode(out)
	})
	first, _ := renderings.LoadOrStore(strings.Join(args, "\x00"), render)
	return first.(func() ([]unstructured.Unstructured, error))()
}

func decode(text string) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var o unstructured.Unstructured
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode object %d of what was rendered: %w", len(objects)+1, err)
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
