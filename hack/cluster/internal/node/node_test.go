// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
	"github.com/lighterage/lighterage/hack/cluster/internal/node"
)

var programs = node.Programs{Kubernetes: "/k", Containerd: "/c", Etcd: "/usr/bin/etcd", Runc: "/usr/sbin/runc"}

func TestFilesRender(t *testing.T) {
	for _, c := range layout.Clusters() {
		for _, n := range c.Nodes {
			files, err := node.Files(c, n, programs)
			if err != nil {
				t.Fatal(err)
			}
			for path, data := range files {
				if !strings.HasPrefix(path, n.Dir()+"/") {
					t.Errorf("%s: %s is outside the node's folder", n.Name, path)
				}
				if strings.Contains(string(data), "{{") || strings.Contains(string(data), "<no value>") {
					t.Errorf("%s: %s is not filled in:\n%s", n.Name, path, data)
				}
			}

			var kubelet struct {
				Address, CgroupRoot, ContainerRuntimeEndpoint string
				ClusterDNS                                    []string
			}
			if err := yaml.Unmarshal(files[n.Path("etc", "kubelet.yaml")], &kubelet); err != nil {
				t.Fatal(err)
			}
			if kubelet.Address != n.Address.String() || kubelet.CgroupRoot != "/lighterage/"+n.Name ||
				kubelet.ClusterDNS[0] != c.DNS().String() || kubelet.ContainerRuntimeEndpoint != "unix://"+n.ContainerdSocket() {
				t.Errorf("%s: kubelet %+v", n.Name, kubelet)
			}

			var cni struct {
				Plugins []struct {
					IPAM struct {
						Ranges [][]struct{ Subnet netip.Prefix }
					}
				}
			}
			if err := json.Unmarshal(files[n.Path("etc", "cni", "10-pods.conflist")], &cni); err != nil {
				t.Fatal(err)
			}
			if got := cni.Plugins[0].IPAM.Ranges[0][0].Subnet; got != n.Pods {
				t.Errorf("%s: pods get addresses of %s, want %s", n.Name, got, n.Pods)
			}

			toml := string(files[n.Path("etc", "containerd.toml")])
			for _, want := range []string{
				`address = "` + n.ContainerdSocket() + `"`, `sandbox = "` + layout.Registry() + `/lab/pause:1"`,
			} {
				if !strings.Contains(toml, want) {
					t.Errorf("%s: containerd.toml lacks %s", n.Name, want)
				}
			}
		}
	}
}

func TestUnitNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range layout.Clusters() {
		n := c.ControlPlane()
		names := []string{
			node.Etcd(n, "", programs).Name, node.APIServer(c, "", programs).Name,
			node.ControllerManager(c, "", programs).Name, node.Scheduler(c, "", programs).Name,
		}
		for _, n := range c.Nodes {
			names = append(
				names, node.Containerd(n, "", programs).Name, node.Kubelet(c, n, "", programs).Name,
				node.Proxy(n, "", programs).Name,
			)
		}
		for _, name := range names {
			if seen[name] {
				t.Errorf("two units are named %s", name)
			}
			seen[name] = true
		}
	}
}
