// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render gives tests the objects that Helm and kustomize make of the chart and of config/default.
package render

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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/lighterage/lighterage/test/source"
)

// ChartDir is the chart's directory, in Root.
const ChartDir = "charts/lighterage"

// Namespace is that of the release.
const Namespace = "lighterage-system"

// Root of the tree.
var Root = source.Root()

// Helm and Kustomize return the paths of the programs, which Go builds once and keeps in its cache.
var (
	Helm      = tool("hack/tools/helm/go.mod", "helm")
	Kustomize = tool("hack/tools/go.mod", "kustomize")
)

func tool(modfile, name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		if err := look(); err != nil {
			return "", err
		}
		out, err := Run("go", "tool", "-modfile="+modfile, "-n", name)
		return strings.TrimSpace(out), err
	})
}

// look looks at the files that the programs are going to read: go test takes a former result for the present one when
// the files that the tests themselves looked at are as they were, and does not know of others.
func look() error {
	for _, directory := range []string{ChartDir, "config", "hack/tools"} {
		if err := filepath.WalkDir(filepath.Join(Root, directory), func(_ string, _ fs.DirEntry, err error) error {
			return err
		}); err != nil {
			return fmt.Errorf("look at what is rendered: %w", err)
		}
	}
	return nil
}

// Run runs a program in the root of the tree and returns its standard output; the error has what else it said.
func Run(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = Root
	// Tests may run with a compiler and platform of their own.
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// renderings are what Chart gave, by the values: most of what a test takes is to start helm.
var renderings sync.Map

// Chart renders the chart with values set as on the command line, each choice of values once. Nobody may change the
// objects.
func Chart(set ...string) ([]unstructured.Unstructured, error) {
	program, err := Helm()
	if err != nil {
		return nil, err
	}
	args := []string{"template", "lighterage", ChartDir, "--namespace", Namespace}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	render := sync.OnceValues(func() ([]unstructured.Unstructured, error) {
		out, err := Run(program, args...)
		if err != nil {
			return nil, err
		}
		return decode(out)
	})
	first, _ := renderings.LoadOrStore(strings.Join(args, "\x00"), render)
	return first.(func() ([]unstructured.Unstructured, error))()
}

// Config is what kustomize makes of config/default. Nobody may change the objects.
var Config = sync.OnceValues(func() ([]unstructured.Unstructured, error) { return Kustomized("config/default") })

// Kustomized is what kustomize makes of a directory of the tree.
func Kustomized(directory string) ([]unstructured.Unstructured, error) {
	program, err := Kustomize()
	if err != nil {
		return nil, err
	}
	out, err := Run(program, "build", directory)
	if err != nil {
		return nil, err
	}
	return decode(out)
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

// Find returns the object of a kind and name, nil if there is none.
func Find(objects []unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for i := range objects {
		if objects[i].GetKind() == kind && objects[i].GetName() == name {
			return &objects[i]
		}
	}
	return nil
}
