// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/test/render"
)

const (
	// patience is how long programs may take to start or to end. It is for a busy machine.
	patience = 2 * time.Minute
	// account is by which metrics are read.
	account = "prometheus"
	// tokenSeconds is for how long.
	tokenSeconds = 24 * 3600
)

// ServiceAccounts of the programs.
const (
	Manager = "lighterage-manager"
	Gateway = "lighterage-gateway"
)

// Cluster is an API server with etcd and what the chart installs but for pods.
type Cluster struct {
	// Config is an administrator's, without limits.
	Config *rest.Config
	Scheme *runtime.Scheme
	Client client.Client
	// Ledger has the requests of manager and gateway.
	Ledger *Ledger
	// APIServer and Etcd are their processes.
	APIServer, Etcd harness.PID

	directory   string
	logs        string
	chart       []unstructured.Unstructured
	environment *envtest.Environment
	etcdURL     *url.URL
	token       string
	starts      int
}

// Start starts an API server and etcd in the sandbox of that directory, and installs CRDs, roles and admission
// policies. Logs of the operator's programs will be in the other directory.
func Start(ctx context.Context, directory, logs string) (c *Cluster, err error) {
	c = &Cluster{directory: directory, logs: logs, Scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(c.Scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	assets, err := os.ReadFile(filepath.Join(directory, assetsFile))
	if err != nil {
		return nil, fmt.Errorf("find etcd and kube-apiserver: %w", err)
	}
	chart, err := os.ReadFile(filepath.Join(directory, chartFile))
	if err == nil {
		err = json.Unmarshal(chart, &c.chart)
	}
	if err != nil {
		return nil, fmt.Errorf("read the chart's objects: %w", err)
	}
	c.environment = &envtest.Environment{
		BinaryAssetsDirectory:    string(assets),
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
		CRDDirectoryPaths: []string{filepath.Join(render.Root, "config/crd/bases")}, ErrorIfCRDPathMissing: true,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: patience}, Scheme: c.Scheme,
	}
	log, policy := filepath.Join(directory, "audit.log"), filepath.Join(directory, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	// envtest's range has no addresses for the Services of 1,000 objects.
	c.environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16").
		Set("audit-policy-file", policy).Set("audit-log-path", log).Set("audit-log-maxsize", "65536").
		Set("advertise-address", serverAddress)
	if c.Config, err = c.environment.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the API server: %w", err), c.environment.Stop())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	c.Config.QPS, c.etcdURL = -1, c.environment.ControlPlane.Etcd.URL
	if c.Ledger, err = openLedger(log); err != nil {
		return nil, err
	}
	if c.APIServer, err = harness.Child("kube-apiserver"); err != nil {
		return nil, err
	}
	if c.Etcd, err = harness.Child("etcd"); err != nil {
		return nil, err
	}
	if c.Client, err = client.New(c.Config, client.Options{Scheme: c.Scheme}); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return c, errors.Join(c.install(ctx), c.authorizeMetrics(ctx))
}

// Stop stops both. They leave nothing.
func (c *Cluster) Stop() error {
	err := c.environment.Stop()
	if c.Ledger != nil {
		err = errors.Join(err, c.Ledger.close())
	}
	return err
}

// installed are the kinds of the chart's objects that are made: what runs pods is started here.
var installed = []string{
	"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy",
	"ValidatingAdmissionPolicyBinding",
}

func (c *Cluster) install(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: render.Namespace}}
	if err := c.Client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("create the operator's namespace: %w", err)
	}
	for i := range c.chart {
		object := &c.chart[i]
		if !slices.Contains(installed, object.GetKind()) {
			continue
		}
		if err := c.Client.Create(ctx, object.DeepCopy()); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// authorizeMetrics makes a token with which metrics are read.
func (c *Cluster) authorizeMetrics(ctx context.Context) error {
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: render.Namespace, Name: account}}
	for _, object := range []client.Object{
		reader,
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: account},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: render.Namespace, Name: account}},
		},
	} {
		if err := c.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, account, err)
		}
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)},
	}
	if err := c.Client.SubResource("token").Create(ctx, reader, request); err != nil {
		return fmt.Errorf("make a token to read metrics with: %w", err)
	}
	c.token = request.Status.Token
	return nil
}

// As is a configuration with the rights of one of the programs, whose requests are not in the ledger.
func (c *Cluster) As(program string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: userName(program), Groups: groups}
	return config
}

var groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + render.Namespace, "system:authenticated"}

func userName(program string) string {
	return "system:serviceaccount:" + render.Namespace + ":" + program
}

// kubeconfig writes one with which a program authenticates as its ServiceAccount, and returns its path.
func (c *Cluster) kubeconfig(program string) (string, error) {
	user, err := c.environment.AddUser(envtest.User{Name: userName(program), Groups: groups[:2]}, &rest.Config{})
	if err != nil {
		return "", fmt.Errorf("make the user of %s: %w", program, err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("make the kubeconfig of %s: %w", program, err)
	}
	path := filepath.Join(c.directory, program+".kubeconfig")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", program, err)
	}
	return path, nil
}

// Versions returns those of the API server and of etcd.
func (c *Cluster) Versions(ctx context.Context) (string, error) {
	config := rest.CopyConfig(c.Config)
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	api, err := rest.RESTClientFor(config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	raw, err := api.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(raw, &version)
	}
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	metrics, err := c.EtcdMetrics(ctx)
	if err != nil {
		return "", err
	}
	stored := "unknown"
	for series := range metrics.Of("etcd_server_version", "") {
		stored = Label(series, "server_version")
	}
	return "Kubernetes " + strings.TrimPrefix(version.GitVersion, "v") + ", etcd " + stored, nil
}
