// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestDocuments applies every object in the YAML blocks of README.md and docs/ as a server-side dry run with strict
// field validation, and holds that an HTTPRoute leads to an HTTPEndpoint of the same document. Objects of kinds that
// this API server does not have are passed over.
func TestDocuments(t *testing.T) {
	files := []string{"../../README.md"}
	err := filepath.WalkDir("../../docs", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, "../../"), func(t *testing.T) {
			objects := objectsOf(t, file)
			for _, object := range objects {
				dryRun(t, object)
				if object.GroupVersionKind().Group == v1alpha1.GroupVersion.Group {
					kinds[object.GetKind()] = true
				}
				if object.GetKind() == "HTTPRoute" {
					checkRoute(t, object, objects)
				}
			}
		})
	}
	for _, kind := range []string{
		"Transfer", "Queue", "HTTPEndpoint", "Peer", "PeerGrant", "CompressionPolicy", "CompressionTrial", "DataQuota",
		"Tariff",
		"ObjectStore", "TransferSet", "Drill", "LocalCompressionPolicy",
	} {
		if !kinds[kind] {
			t.Errorf("no document shows a %s", kind)
		}
	}
}

var yamlBlock = regexp.MustCompile("(?m)^( *)```yaml\n((?:.|\n)*?)\n *```")

// objectsOf returns the objects in the YAML blocks of a document. A block of something else than objects has neither
// kind nor spec at its top.
func objectsOf(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
		// A block in a list is indented.
		plain := regexp.MustCompile("(?m)^"+string(block[1])).ReplaceAll(block[2], nil)
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(plain), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%v in:\n%s", err, plain)
				break
			}
			switch _, hasSpec := object.Object["spec"]; {
			case object.GetAPIVersion() != "" && object.GetKind() != "":
				objects = append(objects, object)
			case object.GetAPIVersion() != "" || object.GetKind() != "" || hasSpec:
				t.Errorf("a part of an object cannot be checked: write all of it, with apiVersion, kind and metadata:\n%s", plain)
			}
		}
	}
	return objects
}

func dryRun(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	if name := object.GetNamespace(); name != "" {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := k8s.Create(context.Background(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	err := k8s.Create(context.Background(), object.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))
	foreign := object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group
	if err != nil && !apierrors.IsAlreadyExists(err) && !(foreign && meta.IsNoMatchError(err)) {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// checkRoute holds that the backends of an HTTPRoute are Services of HTTPEndpoints, at the ports at which these listen.
func checkRoute(t *testing.T, route *unstructured.Unstructured, objects []*unstructured.Unstructured) {
	t.Helper()
	serves := func(backend map[string]any) bool {
		for _, object := range objects {
			port, found, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "listener", "port")
			if object.GetKind() == "HTTPEndpoint" && object.GetNamespace() == route.GetNamespace() &&
				object.GetName() == backend["name"] &&
				err == nil && found && port == backend["port"] {
				return true
			}
		}
		return false
	}
	rules, _, err := unstructured.NestedSlice(route.Object, "spec", "rules")
	if err != nil || len(rules) == 0 {
		t.Fatalf("HTTPRoute %s has no rules (%v)", route.GetName(), err)
	}
	for _, rule := range rules {
		rule, _ := rule.(map[string]any)
		backends, _, err := unstructured.NestedSlice(rule, "backendRefs")
		if err != nil || len(backends) == 0 {
			t.Errorf("HTTPRoute %s has a rule without backends (%v)", route.GetName(), err)
		}
		for _, backend := range backends {
			if backend, ok := backend.(map[string]any); !ok || !serves(backend) {
				t.Errorf("HTTPRoute %s leads to %v, which is no HTTPEndpoint of the same document", route.GetName(), backend)
			}
		}
	}
}
