// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/hack/cluster/internal/addons"
	"github.com/lighterage/lighterage/hack/cluster/internal/build"
	"github.com/lighterage/lighterage/hack/cluster/internal/cgroup"
	"github.com/lighterage/lighterage/hack/cluster/internal/images"
	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
	"github.com/lighterage/lighterage/hack/cluster/internal/network"
	"github.com/lighterage/lighterage/hack/cluster/internal/node"
	"github.com/lighterage/lighterage/hack/cluster/internal/pki"
	"github.com/lighterage/lighterage/hack/cluster/internal/unit"
)

// How long things may take on a slow machine before they count as broken.
const (
	startTimeout = 5 * time.Minute
	readyTimeout = 5 * time.Minute
)

// hostCgroup is the cgroup of processes that belong to no node.
const hostCgroup = layout.CgroupRoot + "/host"

// machine is what `up` works with.
type machine struct {
	w        *workspace
	set      unit.Set
	tree     cgroup.Tree
	programs node.Programs
	// coreDNS and kubectl are programs, coreDNSTag names the former's build.
	coreDNS, coreDNSTag, kubectl string
	// versitygw is the S3 server.
	versitygw string
	// snapshots is nil where volumes cannot be snapshotted.
	snapshots *snapshots
}

func (w *workspace) up(ctx context.Context) error {
	east, west := os.Getenv("EAST_KUBECONFIG"), os.Getenv("WEST_KUBECONFIG")
	if east != "" || west != "" {
		return w.useExisting(ctx, east, west)
	}
	if os.Geteuid() != 0 {
		return errors.New(
			"local clusters need root, for network namespaces and mounts: run this with sudo, or name two clusters that exist " +
				"already in EAST_KUBECONFIG and WEST_KUBECONFIG",
		)
	}
	lock, err := w.builder.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	m, err := w.prepare(ctx)
	if err != nil {
		return err
	}

	begin := time.Now()
	if err := m.clean(); err != nil {
		return err
	}
	if err := m.start(ctx); err != nil {
		return err
	}
	if err := m.publish(); err != nil {
		return err
	}
	fmt.Fprintf(
		os.Stderr, "Clusters east and west are up (%.0f s). Logs: %s\n", time.Since(begin).Seconds(), layout.LogsDir(),
	)
	fmt.Fprintf(
		os.Stderr, "Try: %s --kubeconfig %s get nodes\n", rel(w.root, filepath.Join(w.cluster, "bin", "kubectl")),
		rel(w.root, w.kubeconfig("east")),
	)
	return nil
}

// rel shortens a path for people who work in root.
func rel(root, path string) string {
	if r, err := filepath.Rel(root, path); err == nil && !strings.HasPrefix(r, "..") {
		return r
	}
	return path
}

// prepare installs and builds what the clusters consist of.
func (w *workspace) prepare(ctx context.Context) (*machine, error) {
	if err := w.builder.EnsureTools(ctx, build.NodeTools()); err != nil {
		return nil, err
	}
	tree, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	bin := map[string]string{}
	for _, module := range build.Modules() {
		if bin[module.Name], err = w.builder.Ensure(ctx, module); err != nil {
			return nil, err
		}
	}
	m := &machine{
		w:          w,
		tree:       tree,
		programs:   node.Programs{Kubernetes: bin["kubernetes"], Containerd: bin["containerd"]},
		coreDNS:    filepath.Join(bin["coredns"], "coredns"),
		coreDNSTag: strings.TrimPrefix(filepath.Base(filepath.Dir(bin["coredns"])), "coredns-"),
		kubectl:    filepath.Join(bin["kubernetes"], "kubectl"),
	}
	if m.programs.Etcd, err = build.Find("etcd"); err != nil {
		return nil, err
	}
	if m.programs.Runc, err = build.Find("runc"); err != nil {
		return nil, err
	}
	if m.versitygw, err = w.builder.ObjectStoreServer(ctx); err != nil {
		return nil, err
	}
	if m.snapshots, err = w.prepareSnapshots(ctx); err != nil {
		return nil, err
	}
	m.set = unit.Set{
		Self: filepath.Join(layout.StateDir, "bin", "cluster"),
		Pids: layout.PidsDir(),
		Logs: layout.LogsDir(),
		// containerd looks for its shim in PATH.
		Path: build.Path(bin["containerd"]),
		Out:  os.Stderr,
	}
	return m, nil
}

// clean removes what cannot be built upon: clusters from before the machine was
// started again, and nodes whose network is gone.
func (m *machine) clean() error {
	stale, err := staleState()
	if err != nil {
		return err
	}
	if stale {
		fmt.Fprintln(os.Stderr, "Removing clusters from before this machine was restarted")
		if err := removeAll(); err != nil {
			return err
		}
	}
	if err := saveState(); err != nil {
		return err
	}
	for _, c := range layout.Clusters() {
		for _, n := range c.Nodes {
			if network.NodeExists(n) {
				continue
			}
			if err := m.tree.Kill(n.Cgroup(), killTimeout); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *machine) start(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "Starting clusters east (2 nodes) and west (1 node)")
	if err := m.makeHost(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.startRegistry(ctx) })
	group.Go(func() error { return m.startObjectStore(ctx) })
	for _, c := range layout.Clusters() {
		group.Go(func() error {
			if err := m.startCluster(ctx, c); err != nil {
				return fmt.Errorf("cluster %s: %w", c.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// makeHost makes what the clusters share: this program's copy, cgroups, networks.
func (m *machine) makeHost() error {
	if err := copySelf(m.set.Self); err != nil {
		return err
	}
	if err := m.tree.Make(hostCgroup); err != nil {
		return err
	}
	if err := network.CheckFree(); err != nil {
		return err
	}
	if err := network.EnsureBridge(); err != nil {
		return err
	}
	for _, c := range layout.Clusters() {
		for _, n := range c.Nodes {
			if err := m.tree.Make(node.SystemCgroup(n)); err != nil {
				return err
			}
			if err := network.EnsureNode(c, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// copySelf keeps this program for the units: `go run` deletes it when it ends.
func copySelf(path string) error {
	src, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	defer src.Close()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	dst, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	return os.Rename(path+".new", path)
}

func (m *machine) startRegistry(ctx context.Context) error {
	u := unit.Unit{
		Name:  "registry",
		Procs: m.tree.ProcsFile(hostCgroup),
		Args:  []string{m.set.Self, "registry", layout.Registry(), filepath.Join(layout.StateDir, "registry")},
		// A changed program serves from now on.
		Configs: []string{m.set.Self},
	}
	if _, err := m.set.Ensure(u); err != nil {
		return err
	}
	err := m.set.Wait(ctx, "the image registry", startTimeout, []string{u.Name}, func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, "http://"+layout.Registry()+"/v2/")
	})
	if err != nil {
		return err
	}
	pause := filepath.Join(layout.StateDir, "bin", "pause")
	if err := m.w.builder.Pause(ctx, pause); err != nil {
		return err
	}
	for _, image := range []images.Image{
		images.Pause(layout.Registry(), pause),
		m.coreDNSImage(),
		images.Busybox(layout.Registry(), build.Busybox),
	} {
		if err := images.Ensure(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) coreDNSImage() images.Image {
	return images.CoreDNS(layout.Registry(), m.coreDNSTag, m.coreDNS)
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

// startCluster starts one cluster's processes in the order they need each other,
// and waits until it is of use.
func (m *machine) startCluster(ctx context.Context, c layout.Cluster) error {
	control := c.ControlPlane()
	procs := func(n layout.Node) string { return m.tree.ProcsFile(node.SystemCgroup(n)) }
	if err := pki.Ensure(c); err != nil {
		return err
	}
	etcd, api := node.Etcd(control, procs(control), m.programs), node.APIServer(c, procs(control), m.programs)
	units := []unit.Unit{etcd, api}
	for _, n := range c.Nodes {
		if err := node.Write(c, n, m.programs); err != nil {
			return err
		}
		units = append(units, node.Containerd(n, procs(n), m.programs))
	}
	names, err := m.ensure(units)
	if err != nil {
		return err
	}

	client, err := clientOf(pki.Kubeconfig(c, "admin"))
	if err != nil {
		return err
	}
	err = m.set.Wait(ctx, "the API server", startTimeout, []string{api.Name, etcd.Name}, func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		err := m.set.Wait(ctx, "containerd of "+n.Name, startTimeout, []string{n.Name +
			".containerd"}, func(ctx context.Context) error {
			return dial(ctx, "unix", n.ContainerdSocket())
		})
		if err != nil {
			return err
		}
	}

	units = []unit.Unit{
		node.ControllerManager(c, procs(control), m.programs),
		node.Scheduler(c, procs(control), m.programs),
	}
	for _, n := range c.Nodes {
		units = append(units, node.Kubelet(c, n, procs(n), m.programs), node.Proxy(n, procs(n), m.programs))
	}
	more, err := m.ensure(units)
	if err != nil {
		return err
	}
	manifests, err := addons.Render(c, m.coreDNSImage().Ref)
	if err != nil {
		return err
	}
	if m.snapshots != nil {
		manifests = append(manifests, m.snapshots.crds...)
	}
	if err := m.apply(ctx, c, manifests); err != nil {
		return err
	}
	// After the addons, which give it its permissions.
	storage, err := m.ensure([]unit.Unit{{
		Name:    c.Name + ".storage",
		Procs:   m.tree.ProcsFile(hostCgroup),
		Args:    []string{m.set.Self, "storage", pki.Kubeconfig(c, "storage"), c.VolumesDir()},
		Configs: []string{m.set.Self},
	}})
	if err != nil {
		return err
	}
	drivers, err := m.startSnapshots(ctx, c)
	if err != nil {
		return err
	}
	// A kubelet is the first suspect when a node does not become ready.
	suspects := slices.Concat([]string{control.Name + ".kubelet"}, names, more, storage, drivers)
	return m.set.Wait(ctx, "nodes and name service", readyTimeout, suspects, func(ctx context.Context) error {
		for _, n := range c.Nodes {
			// A node that was ready when its kubelet was killed looks so for a while.
			if err := dial(ctx, "tcp", net.JoinHostPort(n.Address.String(), "10250")); err != nil {
				return err
			}
		}
		if err := addons.Ready(ctx, client, c); err != nil || m.snapshots == nil {
			return err
		}
		return addons.Registered(ctx, client, c)
	})
}

func (m *machine) apply(ctx context.Context, c layout.Cluster, manifests []byte) error {
	return addons.Apply(ctx, startTimeout, c, manifests, m.kubectl, pki.Kubeconfig(c, "admin"))
}

func (m *machine) ensure(units []unit.Unit) ([]string, error) {
	var names []string
	for _, u := range units {
		if _, err := m.set.Ensure(u); err != nil {
			return nil, err
		}
		names = append(names, u.Name)
	}
	return names, nil
}

func dial(ctx context.Context, network, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// publish writes what other programs need to reach the clusters.
func (m *machine) publish() error {
	e := environment{
		mode: "local", registry: layout.Registry(), kubectl: filepath.Join(m.w.cluster, "bin", "kubectl"),
		nodes: map[string][]string{},
	}
	if m.snapshots != nil {
		e.snapshotClass = snapshotClass
	}
	for _, c := range layout.Clusters() {
		data, err := pki.Admin(c)
		if err != nil {
			return err
		}
		if err := m.w.writeKubeconfig(c.Name, data); err != nil {
			return err
		}
		for _, n := range c.Nodes {
			e.nodes[c.Name] = append(e.nodes[c.Name], n.Address.String())
		}
	}
	var err error
	if e.store, err = m.publishObjectStore(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(e.kubectl), 0o755); err != nil {
		return err
	}
	if err := link(m.kubectl, e.kubectl); err != nil {
		return err
	}
	return m.w.writeEnvironment(e)
}
