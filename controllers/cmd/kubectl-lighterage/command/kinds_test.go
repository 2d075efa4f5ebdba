// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/check"
)

// TestKinds: all kinds of the API can be named, by their resources and in their scopes, and no word stands for two.
func TestKinds(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for name := range scheme.KnownTypes(v1alpha1.GroupVersion) {
		if _, listed := scheme.KnownTypes(v1alpha1.GroupVersion)[name+"List"]; listed {
			missing[name] = true
		}
	}
	words := map[string]bool{}
	for _, k := range allKinds {
		if !missing[k.name] {
			t.Errorf("%s is named twice, or is no kind", k.name)
		}
		delete(missing, k.name)
		definition, err := os.ReadFile("../../../../config/crd/bases/lighterage.dev_" + k.words[0] + ".yaml")
		if err != nil {
			t.Error(err)
		}
		var crd struct {
			Spec struct {
				Scope string
				Names struct {
					Kind, Singular string
					ShortNames     []string
				}
			}
		}
		if err := yaml.Unmarshal(definition, &crd); err != nil {
			t.Error(err)
		}
		if crd.Spec.Names.Kind != k.name || (crd.Spec.Scope == "Cluster") != k.cluster {
			t.Errorf("%s: %+v", k.name, crd)
		}
		for _, word := range append([]string{crd.Spec.Names.Singular, k.name}, crd.Spec.Names.ShortNames...) {
			if !k.is(word) {
				t.Errorf("%s does not name a %s", word, k.name)
			}
		}
		for _, word := range k.words {
			if words[word] {
				t.Errorf("%s names several kinds", word)
			}
			words[word] = true
		}
	}
	if len(missing) > 0 {
		t.Errorf("these cannot be named: %v", missing)
	}
}

// TestExplainKinds: an object of every kind is read and explained, on a terminal of 40 columns as well.
func TestExplainKinds(t *testing.T) {
	for _, k := range allKinds {
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		made, err := scheme.New(v1alpha1.GroupVersion.WithKind(k.name))
		if err != nil {
			t.Fatal(err)
		}
		object, _ := made.(client.Object)
		object.SetName("one")
		if !k.cluster {
			object.SetNamespace("bank")
		}
		p, out, _ := opened(t, nil, object)
		cmd := newExplain(p)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{k.words[1] + "/one"})
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), k.name+" ") {
			t.Errorf("%s: %v: %s", k.name, err, out.String())
		}
		cmd.SetArgs([]string{k.words[1], "none"})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "kubectl get "+k.words[0]) {
			t.Errorf("%s: %v", k.name, err)
		}
		var narrow strings.Builder
		if err := writeNarrow(&narrow, out.String()+"  "+strings.Repeat("word ", 40)+"\n", 40); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(narrow.String()) {
			if len(strings.TrimSpace(line)) > 40 && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s: %q", k.name, line)
			}
		}
	}
}

// TestListed: lists are found by the type of what they list.
func TestListed(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "bank", "one"
	peer := &v1alpha1.Peer{}
	peer.Name = "west"
	p, _, _ := opened(t, nil, pod, peer)
	var pods check.Fact[[]corev1.Pod]
	var peers check.Fact[[]v1alpha1.Peer]
	listed(t.Context(), p.cluster, &pods, client.InNamespace("bank"))
	listed(t.Context(), p.cluster, &peers)
	if pods.Err != nil || peers.Err != nil || len(pods.Value) != 1 || len(peers.Value) != 1 ||
		peers.Value[0].Name != "west" {
		t.Errorf("%+v %+v", pods, peers)
	}
	var unknown check.Fact[[]corev1.NodeList]
	if listed(t.Context(), p.cluster, &unknown); unknown.Err == nil {
		t.Error("a type without a list was listed")
	}
}
