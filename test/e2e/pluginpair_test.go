// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/link"
)

// TestPluginOnBothClusters: clusters that are joined are found joined, data move between them both ways, and nothing is
// left of that.
func TestPluginOnBothClusters(t *testing.T) {
	t.Parallel()
	both := clientcmdapi.NewConfig()
	for _, name := range []string{"east", "west"} {
		one, err := clientcmd.LoadFromFile(filepath.Join(root, ".cluster", name+".kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		current := one.Contexts[one.CurrentContext]
		both.Clusters[name], both.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		both.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*both, path); err != nil {
		t.Fatal(err)
	}
	pair := []string{"--kubeconfig", path, "--context", "east", "--to", "west"}
	east.says(t, append([]string{"connect"}, pair...), "unchanged", "Reachable", "west to east")
	verify := append([]string{"verify", "--size", "8Mi"}, pair...)
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
	east.says(t, append([]string{"check"}, pair...), "0 errors", "Peer east: reachable", "cluster east sends to cluster west",
		"cluster west sends to cluster east")
}
