// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addons puts into a new cluster what every cluster has: name service and
// storage classes; and what volumes that can be snapshotted need.
package addons

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lighterage/lighterage/hack/cluster/internal/csi"
	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
	"github.com/lighterage/lighterage/hack/cluster/internal/storage"
)

//go:embed addons.yaml snapshots.yaml
var files embed.FS

var manifests = template.Must(template.New("").Option("missingkey=error").ParseFS(files, "*.yaml"))

// Render returns the manifests for every cluster.
func Render(c layout.Cluster, coreDNSImage string) ([]byte, error) {
	return render(c, "addons.yaml", map[string]string{
		"Provisioner": storage.Provisioner,
		"CoreDNS":     coreDNSImage,
		"DNS":         c.DNS().String(),
	})
}

// RenderSnapshots returns the manifests for volumes that can be snapshotted, which need the CRDs of snapshots.
func RenderSnapshots(c layout.Cluster) ([]byte, error) {
	return render(c, "snapshots.yaml", map[string]string{"Driver": csi.Name})
}

func render(c layout.Cluster, name string, values map[string]string) ([]byte, error) {
	var out bytes.Buffer
	if err := manifests.ExecuteTemplate(&out, name, values); err != nil {
		return nil, fmt.Errorf("rendering %s of %s: %w", name, c.Name, err)
	}
	return out.Bytes(), nil
}

// Apply writes the manifests into the cluster, for no longer than the limit.
//
// An API server that calls itself ready may still refuse some: what it begins with,
// such as the range that Services get addresses from, it learns of a moment later.
func Apply(ctx context.Context, limit time.Duration, c layout.Cluster, data []byte, kubectl, kubeconfig string) error {
	for deadline := time.Now().Add(limit); ; {
		err := apply(ctx, c, data, kubectl, kubeconfig)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

func apply(ctx context.Context, c layout.Cluster, data []byte, kubectl, kubeconfig string) error {
	cmd := exec.CommandContext(
		ctx, kubectl, "--kubeconfig="+kubeconfig, "apply", "--server-side", "--force-conflicts",
		"--field-manager=lighterage-clusters", "-f", "-",
	)
	cmd.Stdin = bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("writing addons into %s: %w\n%s", c.Name, err, out)
	}
	return nil
}

// Ready is nil when all nodes of the cluster are ready and names resolve.
func Ready(ctx context.Context, client kubernetes.Interface, c layout.Cluster) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) < len(c.Nodes) {
		return fmt.Errorf("%d of %d nodes have registered", len(nodes.Items), len(c.Nodes))
	}
	for _, n := range nodes.Items {
		if !NodeReady(n) {
			return fmt.Errorf("node %s is not ready", n.Name)
		}
	}
	if err := resolves(ctx, client); err != nil {
		return err
	}
	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	return nil
}

// Registered is nil when the kubelets of all nodes know the driver of volumes that can be snapshotted.
func Registered(ctx context.Context, client kubernetes.Interface, c layout.Cluster) error {
	for _, n := range c.Nodes {
		node, err := client.StorageV1().CSINodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("looking at the drivers of node %s: %w", n.Name, err)
		}
		if !slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == csi.Name }) {
			return fmt.Errorf("the kubelet of %s does not know the driver %s yet", n.Name, csi.Name)
		}
	}
	return nil
}

// resolves asks a name server of the cluster for a name. The server's own status
// would not do: it outlives the server for a while when a node breaks down.
func resolves(ctx context.Context, client kubernetes.Interface) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(
		ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"},
	)
	if err != nil {
		return err
	}
	err = errors.New("the name server does not run")
	for _, pod := range pods.Items {
		if pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
			continue
		}
		address := net.JoinHostPort(pod.Status.PodIP, "1053")
		resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, address)
		}}
		if _, err = resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local."); err == nil {
			return nil
		}
	}
	return fmt.Errorf("resolving a name: %w", err)
}

// NodeReady is whether the node's condition Ready is true.
func NodeReady(n corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
