// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// samples are the objects of config/samples by their files.
func samples(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]*unstructured.Unstructured{}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if len(object.Object) > 0 {
				found[file] = append(found[file], object)
			}
		}
	}
	return found
}

// TestSamples applies every sample as a server-side dry run with strict field validation.
func TestSamples(t *testing.T) {
	kinds := map[string]bool{}
	for file, objects := range samples(t) {
		for _, object := range objects {
			if err := k8s.Create(context.Background(), object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			kinds[object.GetKind()] = true
		}
	}
	for _, kind := range []string{
		"Transfer", "Peer", "PeerGrant", "CompressionPolicy", "HTTPEndpoint", "Queue", "DataQuota", "Tariff",
		"LocalCompressionPolicy",
	} {
		if !kinds[kind] {
			t.Errorf("there is no sample of a %s in config/samples", kind)
		}
	}
}

// TestUnseen: an object that no controller has seen says so, because kstatus takes one without a status for ready.
func TestUnseen(t *testing.T) {
	ctx, seen := context.Background(), map[string]bool{}
	for file, objects := range samples(t) {
		for _, object := range objects {
			if seen[object.GetKind()] || object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
				continue
			}
			seen[object.GetKind()] = true
			if object.GetNamespace() != "" {
				object.SetNamespace("default")
			}
			object.SetName("unseen")
			if err := k8s.Create(ctx, object); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if err := k8s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			observed, _, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
			if err != nil || observed != -1 {
				t.Errorf("%s: status.observedGeneration of the %s is %d (%v)", file, object.GetKind(), observed, err)
			}
			if err := k8s.Delete(ctx, object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
