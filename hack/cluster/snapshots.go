// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lighterage/lighterage/hack/cluster/internal/addons"
	"github.com/lighterage/lighterage/hack/cluster/internal/build"
	"github.com/lighterage/lighterage/hack/cluster/internal/csi"
	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
	"github.com/lighterage/lighterage/hack/cluster/internal/pki"
	"github.com/lighterage/lighterage/hack/cluster/internal/pool"
	"github.com/lighterage/lighterage/hack/cluster/internal/unit"
)

// snapshotClass is the StorageClass of snapshots.yaml.
const snapshotClass = "btrfs"

// poolSize is how large volumes and snapshots of one cluster can be together, about; the disk is sparse.
const poolSize = 32 << 30

// snapshots is what volumes that can be snapshotted are served with.
type snapshots struct {
	sidecars string // folder of programs
	crds     []byte
}

// snapshotsVariable says when up serves volumes that can be snapshotted: always if it is absent, or with snapshotsBuilt
// only if the programs for it have been built before.
const (
	snapshotsVariable = "SNAPSHOTS"
	snapshotsBuilt    = "built"
)

// prepareSnapshots returns nil where the kernel has no btrfs or loop devices, or the user does without. Clusters start
// without them.
func (w *workspace) prepareSnapshots(ctx context.Context) (*snapshots, error) {
	switch wanted := os.Getenv(snapshotsVariable); wanted {
	case "":
	case snapshotsBuilt:
		if built, err := w.builder.Built(build.SnapshotModule()); err != nil {
			return nil, err
		} else if !built {
			fmt.Fprintf(os.Stderr, "The clusters get no volumes that can be snapshotted (class %s), whose drivers are not "+
				"built; `make clusters` builds and adds them\n", snapshotClass)
			return nil, nil
		}
	default:
		return nil, fmt.Errorf("%s is %q: set it to %s, or not at all", snapshotsVariable, wanted, snapshotsBuilt)
	}
	if err := pool.Supported(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "The clusters get no volumes that can be snapshotted (class %s): %v\n", snapshotClass, err)
		return nil, nil
	}
	if err := w.builder.EnsureTools(ctx, build.SnapshotTools()); err != nil {
		return nil, err
	}
	bin, err := w.builder.Ensure(ctx, build.SnapshotModule())
	if err != nil {
		return nil, err
	}
	crds, err := w.builder.SnapshotCRDs(ctx)
	return &snapshots{sidecars: bin, crds: crds}, err
}

// startSnapshots starts the CSI driver of a cluster and its controllers, and returns the names of their units. They run
// beside the cluster, as its control plane does, and not in pods: the driver mounts for all nodes.
func (m *machine) startSnapshots(ctx context.Context, c layout.Cluster) ([]string, error) {
	if m.snapshots == nil {
		return nil, nil
	}
	manifests, err := addons.RenderSnapshots(c)
	if err != nil {
		return nil, err
	}
	if err := m.apply(ctx, c, manifests); err != nil {
		return nil, err
	}
	return m.ensure(m.snapshotUnits(c))
}

func (m *machine) snapshotUnits(c layout.Cluster) []unit.Unit {
	// The controllers run where the API server is reached from.
	newUnit := func(name string, args ...string) unit.Unit {
		return unit.Unit{
			Name: c.Name + "." + name, Procs: m.tree.ProcsFile(hostCgroup), Args: args,
			// Sidecars end with the driver that they speak to, which starts again when this program has changed.
			Configs: []string{m.set.Self},
		}
	}
	units := []unit.Unit{newUnit("csi", m.set.Self, "csi", c.Name)}
	kubeconfig, address := "--kubeconfig="+pki.Kubeconfig(c, "csi"), "--csi-address="+c.ControlPlane().CSISocket(csi.Name)
	limits := []string{"--kube-api-qps=50", "--kube-api-burst=100", "--retry-interval-start=200ms"}
	for _, p := range []struct {
		name string
		args []string
	}{
		{"snapshot-controller", nil},
		{"csi-snapshotter", []string{address, "--extra-create-metadata"}},
		{"csi-attacher", []string{address}},
		{"csi-resizer", []string{address}},
		{"csi-provisioner", []string{address, "--extra-create-metadata", "--default-fstype=ext4"}},
	} {
		args := append([]string{filepath.Join(m.snapshots.sidecars, p.name), kubeconfig}, p.args...)
		units = append(units, newUnit(p.name, append(args, limits...)...))
	}
	return units
}

// serveCSI is the CSI driver of a cluster.
func serveCSI(ctx context.Context, cluster string) error {
	for _, c := range layout.Clusters() {
		if c.Name != cluster {
			continue
		}
		p, err := pool.Mount(ctx, c.CSIDir(), poolSize)
		if err != nil {
			return err
		}
		var nodes []csi.Node
		for _, n := range c.Nodes {
			nodes = append(nodes, csi.Node{
				Name: n.Name, Socket: n.CSISocket(csi.Name), Registration: n.CSIRegistration(csi.Name),
			})
		}
		return csi.New(p, nodes).Serve(ctx)
	}
	return fmt.Errorf("there is no cluster %q", cluster)
}
