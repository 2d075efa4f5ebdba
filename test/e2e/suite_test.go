// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e_test runs Lighterage as installed by its Helm chart in two real clusters (make clusters images install).
package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

const root = "../.."

var (
	east, west *cluster
	busybox    string
)

// cluster is one of the two.
type cluster struct {
	client.Client
	name       string
	kubectl    string
	kubeconfig string
}

func TestMain(m *testing.M) {
	if err := connect(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func connect() error {
	env, err := readEnv(filepath.Join(root, ".cluster", "env"))
	if err != nil {
		return fmt.Errorf("read the clusters' environment (make test-e2e brings the clusters up): %w", err)
	}
	kubectl := env["KUBECTL"]
	if kubectl == "" {
		kubectl = "kubectl"
	}
	busybox = os.Getenv("BUSYBOX_IMAGE")
	if busybox == "" {
		busybox = env["REGISTRY"] + "/lab/busybox:1"
	}
	if east, err = newCluster("east", kubectl); err != nil {
		return err
	}
	west, err = newCluster("west", kubectl)
	return err
}

func newCluster(name, kubectl string) (*cluster, error) {
	kubeconfig, err := filepath.Abs(filepath.Join(root, ".cluster", name+".kubeconfig"))
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig of cluster %s: %w", name, err)
	}
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client for cluster %s: %w", name, err)
	}
	var peers v1alpha1.PeerList
	if err := c.List(context.Background(), &peers); err != nil {
		return nil, fmt.Errorf("list the peers of cluster %s (is Lighterage installed? make test-e2e does it): %w", name, err)
	}
	return &cluster{Client: c, name: name, kubectl: kubectl, kubeconfig: kubeconfig}, nil
}

// readEnv reads KEY=VALUE lines.
func readEnv(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	env := map[string]string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key, value, found := strings.Cut(lines.Text(), "="); found {
			env[key] = strings.Trim(value, `"'`)
		}
	}
	return env, lines.Err()
}
