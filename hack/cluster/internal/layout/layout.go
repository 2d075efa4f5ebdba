// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layout is the plan of the local clusters: their names, nodes,
// addresses and folders. It touches nothing.
package layout

import (
	"fmt"
	"net/netip"
	"path/filepath"
)

const (
	// StateDir holds everything the clusters write. It is short because unix
	// socket paths are limited to 107 bytes.
	StateDir = "/var/lib/ltg"

	// Bridge is the device that joins all nodes and the host.
	Bridge = "ltg0"

	// Prefix begins the name of every network namespace and device made here.
	Prefix = "ltg-"

	// CgroupRoot is the cgroup, below each hierarchy's root, that holds every
	// process of the clusters and nothing else.
	CgroupRoot = "lighterage"

	// RegistryPort is the port of the image registry on the bridge.
	RegistryPort = 5000

	// ObjectStorePort is the port of the S3 server on the bridge.
	ObjectStorePort = 7070

	// Bucket is the one that the S3 server has.
	Bucket = "lighterage"

	// APIServerPort is the port of every kube-apiserver.
	APIServerPort = 6443
)

// Network contains every address the clusters use.
var Network = netip.MustParsePrefix("10.213.0.0/16")

// NodeNetwork contains the host's end of the bridge and all nodes.
var NodeNetwork = netip.MustParsePrefix("10.213.0.0/24")

// Host is the host's address on the bridge.
var Host = netip.MustParseAddr("10.213.0.1")

// Cluster is one cluster.
type Cluster struct {
	Name string
	// Pods contains the PodCIDR of every node of the cluster.
	Pods netip.Prefix
	// Services is the range of the cluster's virtual addresses.
	Services netip.Prefix
	// Nodes are the cluster's machines; the first runs the control plane.
	Nodes []Node
}

// Node is one machine of a cluster: a network namespace with a kubelet.
type Node struct {
	Name    string
	Address netip.Addr
	// Pods is the range this node gives addresses from.
	Pods netip.Prefix
}

// Clusters returns the plan: east with two nodes, west with one.
func Clusters() []Cluster {
	return []Cluster{
		{
			Name:     "east",
			Pods:     netip.MustParsePrefix("10.213.16.0/20"),
			Services: netip.MustParsePrefix("10.213.32.0/20"),
			Nodes: []Node{
				{Name: "east-1", Address: netip.MustParseAddr("10.213.0.11"), Pods: netip.MustParsePrefix("10.213.16.0/24")},
				{Name: "east-2", Address: netip.MustParseAddr("10.213.0.12"), Pods: netip.MustParsePrefix("10.213.17.0/24")},
			},
		},
		{
			Name:     "west",
			Pods:     netip.MustParsePrefix("10.213.48.0/20"),
			Services: netip.MustParsePrefix("10.213.64.0/20"),
			Nodes: []Node{
				{Name: "west-1", Address: netip.MustParseAddr("10.213.0.21"), Pods: netip.MustParsePrefix("10.213.48.0/24")},
			},
		},
	}
}

// ControlPlane is the node that runs etcd, the API server and its companions.
func (c Cluster) ControlPlane() Node { return c.Nodes[0] }

// Server is the URL of the API server, the same from the host and from nodes.
func (c Cluster) Server() string {
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(c.ControlPlane().Address, APIServerPort))
}

// KubernetesService is the address of the Service default/kubernetes: the
// first of the range, as the API server chooses it.
func (c Cluster) KubernetesService() netip.Addr { return c.Services.Addr().Next() }

// DNS is the address of the cluster's name server: the tenth of the range.
func (c Cluster) DNS() netip.Addr {
	a := c.Services.Addr()
	for range 10 {
		a = a.Next()
	}
	return a
}

// Dir is the folder of what belongs to the whole cluster: keys, volumes.
func (c Cluster) Dir() string { return filepath.Join(StateDir, c.Name) }

// PKIDir is the folder of the cluster's keys, certificates and kubeconfigs.
func (c Cluster) PKIDir() string { return filepath.Join(c.Dir(), "pki") }

// VolumesDir is the folder of the cluster's PersistentVolumes.
func (c Cluster) VolumesDir() string { return filepath.Join(c.Dir(), "volumes") }

// CSIDir is the folder of the cluster's volumes that can be snapshotted.
func (c Cluster) CSIDir() string { return filepath.Join(c.Dir(), "csi") }

// Dir is the folder of everything the node writes.
func (n Node) Dir() string { return filepath.Join(StateDir, n.Name) }

// Path names a file or folder of the node.
func (n Node) Path(elem ...string) string {
	return filepath.Join(append([]string{n.Dir()}, elem...)...)
}

// NetNS is the name of the node's network namespace, and of the host's end of
// the pair of devices that joins it to the bridge.
func (n Node) NetNS() string { return Prefix + n.Name }

// Cgroup is the node's cgroup below CgroupRoot.
func (n Node) Cgroup() string { return filepath.Join(CgroupRoot, n.Name) }

// ContainerdSocket is the address of the node's container runtime.
func (n Node) ContainerdSocket() string { return n.Path("run", "containerd.sock") }

// CSISocket is where a CSI driver serves the node.
func (n Node) CSISocket(driver string) string {
	return n.Path("kubelet", "plugins", driver, "csi.sock")
}

// CSIRegistration is where the node's kubelet looks for a CSI driver.
func (n Node) CSIRegistration(driver string) string {
	return n.Path("kubelet", "plugins_registry", driver+"-reg.sock")
}

// Registry is the host and port of the image registry.
func Registry() string { return netip.AddrPortFrom(Host, RegistryPort).String() }

// ObjectStore is the host and port of the S3 server.
func ObjectStore() string { return netip.AddrPortFrom(Host, ObjectStorePort).String() }

// ObjectStoreDir is the folder of the S3 server's objects and keys.
func ObjectStoreDir() string { return filepath.Join(StateDir, "objectstore") }

// LogsDir holds one log file a process.
func LogsDir() string { return filepath.Join(StateDir, "logs") }

// PidsDir holds one pid file a process.
func PidsDir() string { return filepath.Join(StateDir, "pids") }
