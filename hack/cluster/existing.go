// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// useExisting checks two clusters of the user's and publishes them as east and west.
func (w *workspace) useExisting(ctx context.Context, east, west string) error {
	if east == "" || west == "" {
		return errors.New(
			"one of EAST_KUBECONFIG and WEST_KUBECONFIG is set: set both, to kubeconfigs of two clusters, or neither, for " +
				"local clusters",
		)
	}
	registry := os.Getenv("REGISTRY")
	if registry == "" {
		return errors.New(
			"existing clusters need a registry that both can pull from and this machine can push to: set REGISTRY, for " +
				"example REGISTRY=registry.example.org/lighterage",
		)
	}
	if env, err := os.ReadFile(filepath.Join(w.cluster, "env")); err == nil &&
		(environment{mode: "local"}).is(string(env)) {
		return errors.New("the local clusters are up: run `make clusters-down` first")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	e := environment{
		mode: "existing", registry: registry, nodes: map[string][]string{}, snapshotClass: os.Getenv(snapshotClassVariable),
	}
	ids, configs := map[string]string{}, map[string][]byte{}
	for _, c := range []struct{ name, variable, path string }{
		{"east", "EAST_KUBECONFIG", east},
		{"west", "WEST_KUBECONFIG", west},
	} {
		data, err := flatten(c.path)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", c.variable, c.path, err)
		}
		id, nodes, err := examine(ctx, data, c.name)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", c.variable, c.path, err)
		}
		ids[c.name], configs[c.name], e.nodes[c.name] = id, data, nodes
	}
	if ids["east"] == ids["west"] {
		return errors.New("EAST_KUBECONFIG and WEST_KUBECONFIG lead to the same cluster: name two")
	}
	var err error
	if e.store, err = givenStore(); err != nil {
		return err
	}
	if e.kubectl, err = w.findKubectl(ctx); err != nil {
		return err
	}
	for name, data := range configs {
		if err := w.writeKubeconfig(name, data); err != nil {
			return err
		}
	}
	if err := w.writeEnvironment(e); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "Using the two existing clusters as east and west")
	return nil
}

// givenStore is the S3 server that the user names for the demo and for tests; empty if there is none.
func givenStore() (map[string]string, error) {
	store := map[string]string{}
	for _, name := range []string{storeEndpoint, storeBucket, storeKeyID, storeKey} {
		if store[name] = os.Getenv(name); store[name] == "" && os.Getenv(storeEndpoint) != "" {
			return nil, fmt.Errorf("%s is set: set %s, too", storeEndpoint, name)
		}
	}
	if file := os.Getenv(storeCAFile); file != "" {
		var err error
		if store[storeCAFile], err = filepath.Abs(file); err != nil {
			return nil, fmt.Errorf("finding %s: %w", storeCAFile, err)
		}
	}
	return store, nil
}

// flatten returns the current context of a kubeconfig with its files embedded.
func flatten(path string) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("choosing the kubeconfig's current context: %w: run `kubectl config use-context`", err)
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("embedding the files the kubeconfig names: %w", err)
	}
	return clientcmd.Write(*config)
}

// examine asks a cluster what it is: an id that no other has, and the addresses of
// its nodes.
func examine(ctx context.Context, kubeconfig []byte, name string) (id string, nodes []string, err error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return "", nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	config.Timeout = 20 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", nil, fmt.Errorf("using kubeconfig: %w", err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return "", nil, fmt.Errorf("the cluster does not answer: %w", err)
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "namespaces"},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("asking for permissions: %w", err)
	}
	if !review.Status.Allowed {
		return "", nil, errors.New("its user may not create namespaces: use a kubeconfig of an administrator")
	}
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("identifying the cluster: %w", err)
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("listing nodes: %w", err)
	}
	for _, n := range list.Items {
		if a := address(n); a != "" {
			nodes = append(nodes, a)
		}
	}
	fmt.Fprintf(os.Stderr, "Cluster %s: Kubernetes %s, nodes: %d\n", name, version.GitVersion, len(list.Items))
	return string(system.UID), nodes, nil
}

// address is where a node is reached from another cluster.
func address(n corev1.Node) string {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type == kind {
				return a.Address
			}
		}
	}
	return ""
}

// findKubectl prefers the user's own kubectl, which suits their clusters.
func (w *workspace) findKubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return filepath.Abs(path)
	}
	lock, err := w.builder.Lock()
	if err != nil {
		return "", err
	}
	defer lock.Close()
	bin, err := w.builder.Ensure(ctx, kubernetesModule(), "kubectl")
	if err != nil {
		return "", err
	}
	return filepath.Join(bin, "kubectl"), nil
}
