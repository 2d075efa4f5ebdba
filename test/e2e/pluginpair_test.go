// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/check"
	"github.com/lighterage/lighterage/controllers/link"
)

// TestPluginOnBothClusters: clusters that are joined are found joined, data move between them both ways, and nothing is
// left of that.
func TestPluginOnBothClusters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := pair.Contexts(path); err != nil {
		t.Fatal(err)
	}
	both := []string{"--kubeconfig", path, "--context", "east", "--to", "west"}
	east.says(t, append([]string{"connect"}, both...), "unchanged", "Reachable", "west to east")
	verify := append([]string{"verify", "--size", "8Mi"}, both...)
	east.says(t, verify, "8.00 MiB, verified", "east to west", "west to east")
	for _, c := range []*cluster{east, west} {
		var left corev1.NamespaceList
		err := c.List(context.Background(), &left, client.MatchingLabels{link.MadeByLabel: link.MadeByVerify})
		if err != nil || len(left.Items) > 0 {
			t.Errorf("cluster %s: %d namespaces are left: %v", c.name, len(left.Items), err)
		}
	}
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	out := east.says(t, []string{"gather", "--file", bundle, "--kubeconfig", path, "--context", "west"}, bundle)
	if strings.Count(out, "\n") != 1 {
		t.Errorf("gather wrote %q", out)
	}
	checked(t, append([]string{"check", "-o", "json"}, both...), "Peer east: reachable",
		"cluster east sends to cluster west", "cluster west sends to cluster east")
}

// checked runs check, which must say that these are in order, and find no error but in the ObjectStores of other tests.
func checked(t *testing.T, args []string, inOrder ...string) {
	t.Helper()
	out, complaint, _ := east.plugin(t, args...) // it fails for those errors as well
	var report struct{ Results []check.Result }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s %s", err, out, complaint)
	}
	for _, result := range report.Results {
		if result.Result == check.Error && result.Check != "object-stores" {
			t.Errorf("%+v", result)
		}
	}
	for _, words := range inOrder {
		if !slices.ContainsFunc(report.Results, func(r check.Result) bool {
			return r.Result == check.OK && strings.Contains(r.Message, words)
		}) {
			t.Errorf("check does not say %q: %s", words, out)
		}
	}
}
