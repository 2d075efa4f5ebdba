// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestReadme applies the README's HTTPEndpoint and HTTPRoute, and holds them against each other: the route names the endpoint's Service.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, block := range regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(block[1]), object); err == nil {
			found[object.GetKind()] = object
		}
	}
	endpoint, route := found["HTTPEndpoint"], found["HTTPRoute"]
	if endpoint == nil || route == nil {
		t.Fatal("the README has no HTTPEndpoint, or no HTTPRoute")
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: endpoint.GetNamespace()}}
	if err := k8s.Create(context.Background(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for _, object := range []*unstructured.Unstructured{endpoint, route} {
		if err := k8s.Create(context.Background(), object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Errorf("%s of the README: %v", object.GetKind(), err)
		}
	}
	rules, err := yaml.Marshal(route.Object["spec"])
	if err != nil || route.GetNamespace() != endpoint.GetNamespace() || !strings.Contains(string(rules), "name: "+endpoint.GetName()) {
		t.Errorf("the HTTPRoute does not name Service %s/%s (%v):\n%s", endpoint.GetNamespace(), endpoint.GetName(), err, rules)
	}
}
