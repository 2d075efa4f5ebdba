// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node says which processes a node consists of and writes their
// configuration.
package node

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/lighterage/lighterage/hack/cluster/internal/build"
	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
	"github.com/lighterage/lighterage/hack/cluster/internal/pki"
	"github.com/lighterage/lighterage/hack/cluster/internal/unit"
)

//go:embed config
var configs embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(configs, "config/*"))

// Programs are the absolute paths of what nodes run.
type Programs struct {
	// Kubernetes and Containerd are folders.
	Kubernetes, Containerd string
	Etcd, Runc             string
}

// values are what the templates are filled with.
type values struct {
	Node, NetNS, Cgroup, Dir, Socket, PKI string
	Address, DNS                          string
	PodCIDR, ClusterPodCIDR               string
	Registry, CNIBin, Runc                string
}

// Files renders the node's configuration: the content by path.
func Files(c layout.Cluster, n layout.Node, p Programs) (map[string][]byte, error) {
	v := values{
		Node: n.Name, NetNS: n.NetNS(), Cgroup: n.Cgroup(), Dir: n.Dir(), Socket: n.ContainerdSocket(), PKI: c.PKIDir(),
		Address: n.Address.String(), DNS: c.DNS().String(),
		PodCIDR: n.Pods.String(), ClusterPodCIDR: c.Pods.String(),
		Registry: layout.Registry(), CNIBin: build.CNIDir, Runc: p.Runc,
	}
	files := map[string][]byte{
		// Pods that take the node's name servers get none: nothing outside is reachable.
		n.Path("etc", "resolv.conf"): []byte("# no name server\n"),
	}
	for name, path := range map[string]string{
		"containerd.toml": n.Path("etc", "containerd.toml"),
		"hosts.toml":      n.Path("etc", "certs.d", layout.Registry(), "hosts.toml"),
		"cni.conflist":    n.Path("etc", "cni", "10-pods.conflist"),
		"kubelet.yaml":    n.Path("etc", "kubelet.yaml"),
		"kube-proxy.yaml": n.Path("etc", "kube-proxy.yaml"),
	} {
		var out bytes.Buffer
		if err := templates.ExecuteTemplate(&out, name, v); err != nil {
			return nil, fmt.Errorf("rendering %s of %s: %w", name, n.Name, err)
		}
		files[path] = out.Bytes()
	}
	return files, nil
}

// Write writes the node's configuration and makes its folders.
func Write(c layout.Cluster, n layout.Node, p Programs) error {
	files, err := Files(c, n, p)
	if err != nil {
		return err
	}
	for path, data := range files {
		// kube-proxy ends when its file is written, even with what it held before.
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("configuring %s: %w", n.Name, err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return fmt.Errorf("configuring %s: %w", n.Name, err)
		}
	}
	for _, dir := range []string{"run", "s", "etcd", "kubelet"} {
		if err := os.MkdirAll(n.Path(dir), 0o700); err != nil {
			return fmt.Errorf("configuring %s: %w", n.Name, err)
		}
	}
	return nil
}

// SystemCgroup is the cgroup of the node's processes, beside that of its pods.
func SystemCgroup(n layout.Node) string { return filepath.Join(n.Cgroup(), "system") }

func newUnit(n layout.Node, procs, name, program string, args ...string) unit.Unit {
	return unit.Unit{Name: n.Name + "." + name, NetNS: n.NetNS(), Procs: procs, Args: append([]string{program}, args...)}
}

// Etcd is the store of the cluster. It listens inside the node only.
func Etcd(n layout.Node, procs string, p Programs) unit.Unit {
	return newUnit(n, procs, "etcd", p.Etcd,
		"--name="+n.Name,
		"--data-dir="+n.Path("etcd"),
		"--listen-client-urls=http://127.0.0.1:2379",
		"--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster="+n.Name+"=http://127.0.0.1:2380",
		"--logger=zap", "--log-level=warn",
		// Without it the API server's watch caches of quiet kinds fall behind.
		"--experimental-watch-progress-notify-interval=5s",
		// The clusters are thrown away with the machine: nothing is worth a sync.
		"--unsafe-no-fsync",
	)
}

// APIServer is the cluster's kube-apiserver.
func APIServer(c layout.Cluster, procs string, p Programs) unit.Unit {
	n, dir := c.ControlPlane(), c.PKIDir()
	return newUnit(n, procs, "kube-apiserver", filepath.Join(p.Kubernetes, "kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address="+n.Address.String(),
		fmt.Sprintf("--secure-port=%d", layout.APIServerPort),
		"--service-cluster-ip-range="+c.Services.String(),
		"--client-ca-file="+dir+"/ca.crt",
		"--tls-cert-file="+dir+"/apiserver.crt",
		"--tls-private-key-file="+dir+"/apiserver.key",
		"--cert-dir="+n.Path("run"),
		"--kubelet-certificate-authority="+dir+"/ca.crt",
		"--kubelet-client-certificate="+dir+"/apiserver-kubelet.crt",
		"--kubelet-client-key="+dir+"/apiserver-kubelet.key",
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file="+dir+"/front-proxy-ca.crt",
		"--requestheader-allowed-names="+pki.FrontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+dir+"/"+pki.FrontProxy+".crt",
		"--proxy-client-key-file="+dir+"/"+pki.FrontProxy+".key",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+dir+"/sa.pub",
		"--service-account-signing-key-file="+dir+"/sa.key",
		"--authorization-mode=Node,RBAC",
		// Debian's etcd cannot be asked for watch progress, so this fails and
		// complains for every kind, every second.
		"--feature-gates=SizeBasedListCostEstimate=false",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--profiling=false",
	)
}

// ControllerManager is the cluster's kube-controller-manager.
func ControllerManager(c layout.Cluster, procs string, p Programs) unit.Unit {
	dir, config := c.PKIDir(), pki.Kubeconfig(c, "controller-manager")
	return newUnit(c.ControlPlane(), procs, "kube-controller-manager", filepath.Join(
		p.Kubernetes, "kube-controller-manager",
	),
		"--kubeconfig="+config, "--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
		"--client-ca-file="+dir+"/ca.crt",
		"--bind-address=127.0.0.1",
		"--cert-dir="+c.ControlPlane().Path("run", "kube-controller-manager"),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+dir+"/sa.key",
		"--root-ca-file="+dir+"/ca.crt",
		"--cluster-signing-cert-file="+dir+"/ca.crt",
		"--cluster-signing-key-file="+dir+"/ca.key",
		"--node-monitor-grace-period=40s",
		"--profiling=false",
	)
}

// Scheduler is the cluster's kube-scheduler.
func Scheduler(c layout.Cluster, procs string, p Programs) unit.Unit {
	config := pki.Kubeconfig(c, "scheduler")
	return newUnit(c.ControlPlane(), procs, "kube-scheduler", filepath.Join(p.Kubernetes, "kube-scheduler"),
		"--kubeconfig="+config, "--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
		"--bind-address=127.0.0.1",
		"--cert-dir="+c.ControlPlane().Path("run", "kube-scheduler"),
		"--leader-elect=false",
		"--profiling=false",
	)
}

// Containerd is the node's container runtime.
func Containerd(n layout.Node, procs string, p Programs) unit.Unit {
	config := n.Path("etc", "containerd.toml")
	u := newUnit(n, procs, "containerd", filepath.Join(p.Containerd, "containerd"), "--config="+config, "--log-level=warn")
	u.Configs = []string{config, n.Path("etc", "cni", "10-pods.conflist")}
	return u
}

// Kubelet is the node's kubelet.
func Kubelet(c layout.Cluster, n layout.Node, procs string, p Programs) unit.Unit {
	config := n.Path("etc", "kubelet.yaml")
	u := newUnit(n, procs, "kubelet", filepath.Join(p.Kubernetes, "kubelet"),
		"--config="+config,
		"--kubeconfig="+pki.Kubeconfig(c, n.Name),
		"--root-dir="+n.Path("kubelet"),
		"--cert-dir="+n.Path("kubelet", "pki"),
		"--hostname-override="+n.Name,
		"--node-ip="+n.Address.String(),
		"--housekeeping-interval=30s",
	)
	u.Configs = []string{config}
	return u
}

// Proxy is the node's kube-proxy.
func Proxy(n layout.Node, procs string, p Programs) unit.Unit {
	config := n.Path("etc", "kube-proxy.yaml")
	u := newUnit(n, procs, "kube-proxy", filepath.Join(p.Kubernetes, "kube-proxy"), "--config="+config)
	u.Configs = []string{config}
	return u
}
