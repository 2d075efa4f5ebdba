// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster runs two local Kubernetes clusters, east and west, on this
// machine, or takes two that exist already. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lighterage/lighterage/hack/cluster/internal/build"
	"github.com/lighterage/lighterage/hack/cluster/internal/registry"
	"github.com/lighterage/lighterage/hack/cluster/internal/storage"
	"github.com/lighterage/lighterage/hack/cluster/internal/unit"
)

const usage = `Usage: go run -C hack/cluster . COMMAND

  up       bring both clusters up, or what is missing of them
  down     remove them and everything they made on this machine
  status   show what runs
  s390x IMAGE NAME
           have the last node of east run IMAGE, built for s390x, by QEMU where
           a pod asks for NAME, until down; prints the node's name
  assets   build etcd, kube-apiserver and kubectl and print their folder,
           for KUBEBUILDER_ASSETS

With EAST_KUBECONFIG and WEST_KUBECONFIG set, up uses these two clusters instead.
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1], os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, name string, args []string) error {
	// What units run: no part of the interface for people.
	switch name {
	case "enter":
		return unit.Enter(args)
	case "registry":
		if len(args) != 2 {
			return errors.New("registry wants an address and a folder")
		}
		return registry.Serve(ctx, args[0], args[1])
	case "storage":
		if len(args) != 2 {
			return errors.New("storage wants a kubeconfig and a folder")
		}
		return serveStorage(ctx, args[0], args[1])
	case "csi":
		if len(args) != 1 {
			return errors.New("csi wants the name of a cluster")
		}
		return serveCSI(ctx, args[0])
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}

	if name == "s390x" {
		if len(args) != 2 {
			return errors.New("s390x wants an image and the name that pods give it")
		}
		w, err := newWorkspace()
		if err != nil {
			return err
		}
		return w.s390x(ctx, args[0], args[1])
	}
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments\n\n%s", name, usage)
	}
	w, err := newWorkspace()
	if err != nil {
		return err
	}
	switch name {
	case "up":
		return w.up(ctx)
	case "down":
		return w.down()
	case "status":
		return w.status(ctx)
	case "assets":
		return w.assets(ctx)
	default:
		return fmt.Errorf("there is no command %q\n\n%s", name, usage)
	}
}

// workspace is the repository and what the commands write into it.
type workspace struct {
	// root is the repository's folder, cluster is .cluster in it.
	root, cluster string
	builder       build.Builder
}

func newWorkspace() (*workspace, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	// Paths that users name are those of the repository, whichever folder `go run -C` has changed to.
	if err := os.Chdir(root); err != nil {
		return nil, fmt.Errorf("going to the repository: %w", err)
	}
	cache, err := build.DefaultCache()
	if err != nil {
		return nil, err
	}
	return &workspace{
		root:    root,
		cluster: filepath.Join(root, ".cluster"),
		builder: build.Builder{Source: filepath.Join(root, "hack", "cluster"), Cache: cache, Out: os.Stderr},
	}, nil
}

// findRoot is the nearest folder upwards that holds hack/cluster.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "hack", "cluster", "kubernetes", "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("%s is not in the repository: run this from its folder", dir)
		}
	}
}

// kubeconfig is where the kubeconfig of a cluster is written for people.
func (w *workspace) kubeconfig(cluster string) string {
	return filepath.Join(w.cluster, cluster+".kubeconfig")
}

func serveStorage(ctx context.Context, kubeconfig, dir string) error {
	client, err := clientOf(kubeconfig)
	if err != nil {
		return err
	}
	return storage.New(client, dir).Run(ctx)
}

func clientOf(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("using kubeconfig %s: %w", kubeconfig, err)
	}
	return client, nil
}

// assets builds what tests with a bare API server need and prints its folder.
func (w *workspace) assets(ctx context.Context) error {
	lock, err := w.builder.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := w.builder.EnsureTools(ctx, build.EnvtestTools()); err != nil {
		return err
	}
	etcd, err := build.Find("etcd")
	if err != nil {
		return err
	}
	bin, err := w.builder.Ensure(ctx, kubernetesModule(), "kube-apiserver", "kubectl")
	if err != nil {
		return err
	}
	dir := filepath.Join(filepath.Dir(bin), "envtest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making folder for tests: %w", err)
	}
	for name, target := range map[string]string{
		"etcd":           etcd,
		"kube-apiserver": filepath.Join(bin, "kube-apiserver"),
		"kubectl":        filepath.Join(bin, "kubectl"),
	} {
		if err := link(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	fmt.Println(dir)
	return nil
}

func kubernetesModule() build.Module { return build.Modules()[0] }

// link makes path a symbolic link to target, whatever it was.
func link(target, path string) error {
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	if err := os.RemoveAll(path + ".new"); err != nil {
		return err
	}
	if err := os.Symlink(target, path+".new"); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
