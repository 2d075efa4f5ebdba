// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusters gives tests the two clusters in which Lighterage is installed (make clusters images demo-install),
// and what they need there: namespaces, claims with shells that look into them, grants, Transfers.
package clusters

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/render"
)

// Pair is the two clusters. Data goes from East to West.
type Pair struct {
	East, West *Cluster
	// Local: the nodes are processes and network namespaces of this machine.
	Local bool
	// Store is an S3 server that both reach; nil: there is none.
	Store *Store
	// SnapshotClass is a StorageClass whose volumes can be snapshotted; empty: there is none.
	SnapshotClass string
}

// Store is an S3 server with a bucket.
type Store struct {
	Endpoint, Bucket             string
	AccessKeyID, SecretAccessKey string
	// CA vouches for its certificate; empty: a public one does.
	CA []byte
}

// Cluster is one of the two.
type Cluster struct {
	client.Client
	Name string

	kubectl    string
	kubeconfig string
	busybox    string
}

// Connect reads what `hack/cluster up` left in .cluster below root, and tries both clusters.
func Connect(root string) (*Pair, error) {
	env, err := readEnv(filepath.Join(root, ".cluster", "env"))
	if err != nil {
		return nil, fmt.Errorf("read the clusters' environment (make clusters images demo-install brings them up): %w", err)
	}
	common := Cluster{kubectl: env["KUBECTL"], busybox: os.Getenv("BUSYBOX_IMAGE")}
	if common.kubectl == "" {
		common.kubectl = "kubectl"
	}
	if common.busybox == "" {
		common.busybox = env["REGISTRY"] + "/lab/busybox:1"
	}
	pair := &Pair{Local: env["MODE"] == "local", SnapshotClass: env["SNAPSHOT_STORAGE_CLASS"]}
	if pair.Store, err = store(env); err != nil {
		return nil, err
	}
	if pair.East, err = connect(common, root, "east"); err != nil {
		return nil, err
	}
	pair.West, err = connect(common, root, "west")
	return pair, err
}

// store is the S3 server that an environment names.
func store(env map[string]string) (*Store, error) {
	if env["OBJECTSTORE_ENDPOINT"] == "" {
		return nil, nil
	}
	s := &Store{
		Endpoint: env["OBJECTSTORE_ENDPOINT"], Bucket: env["OBJECTSTORE_BUCKET"],
		AccessKeyID: env["OBJECTSTORE_ACCESS_KEY_ID"], SecretAccessKey: env["OBJECTSTORE_SECRET_ACCESS_KEY"],
	}
	if file := env["OBJECTSTORE_CA_FILE"]; file != "" {
		var err error
		if s.CA, err = os.ReadFile(file); err != nil { //nolint:gosec // the test's own file
			return nil, fmt.Errorf("read the CA of the object store: %w", err)
		}
	}
	return s, nil
}

func connect(c Cluster, root, name string) (*Cluster, error) {
	var err error
	c.Name = name
	if c.kubeconfig, err = filepath.Abs(filepath.Join(root, ".cluster", name+".kubeconfig")); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
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
	if c.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("make a client for cluster %s: %w", name, err)
	}
	return &c, nil
}

// Installed fails unless both clusters have an installation, and says what makes one.
func (p *Pair) Installed(ctx context.Context) error {
	for _, c := range []*Cluster{p.East, p.West} {
		var peers v1alpha1.PeerList
		if err := c.List(ctx, &peers); err != nil {
			return fmt.Errorf(
				"list the peers of cluster %s (is Lighterage installed? make demo-install does it): %w", c.Name, err,
			)
		}
	}
	return nil
}

// Contexts writes a kubeconfig with the contexts east and west.
func (p *Pair) Contexts(path string) error {
	both := clientcmdapi.NewConfig()
	for _, c := range []*Cluster{p.East, p.West} {
		one, err := clientcmd.LoadFromFile(c.kubeconfig)
		if err != nil {
			return fmt.Errorf("load the kubeconfig of cluster %s: %w", c.Name, err)
		}
		current := one.Contexts[one.CurrentContext]
		both.Clusters[c.Name], both.AuthInfos[c.Name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		both.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	}
	return clientcmd.WriteToFile(*both, path)
}

// Command is kubectl with arguments.
func (c *Cluster) Command(args ...string) *exec.Cmd {
	return exec.Command(c.kubectl, append([]string{"--kubeconfig", c.kubeconfig}, args...)...) //nolint:gosec,noctx // the test's own arguments and time limit
}

// Plugin is kubectl with the arguments of a plugin, whose program is in a directory.
func (c *Cluster) Plugin(directory string, args ...string) *exec.Cmd {
	// A flag before the name of a plugin is not for plugins.
	command := exec.Command(c.kubectl, args...) //nolint:gosec,noctx // the test's own arguments and time limit
	command.Env = append(
		os.Environ(), "KUBECONFIG="+c.kubeconfig, "PATH="+directory+string(os.PathListSeparator)+os.Getenv("PATH"),
	)
	return command
}

// Helm runs helm on the operator's release and returns what it printed.
func (c *Cluster) Helm(args ...string) (string, error) {
	program, err := render.Helm()
	if err != nil {
		return "", err
	}
	return render.Run(program, append(args, "--kubeconfig", c.kubeconfig, "--namespace", render.Namespace)...)
}

// readEnv reads KEY=VALUE lines.
func readEnv(path string) (map[string]string, error) {
	file, err := os.Open(path) //nolint:gosec // the test's own file
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
