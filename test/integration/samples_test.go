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
)

// TestSamples applies every sample as a server-side dry run with strict field validation.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
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
			var object unstructured.Unstructured
			if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if len(object.Object) == 0 {
				continue
			}
			if err := k8s.Create(context.Background(), &object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			kinds[object.GetKind()] = true
		}
	}
	for _, kind := range []string{
		"Transfer", "Peer", "PeerGrant", "CompressionPolicy", "HTTPEndpoint", "Queue", "DataQuota", "Tariff",
	} {
		if !kinds[kind] {
			t.Errorf("there is no sample of a %s in config/samples", kind)
		}
	}
}
