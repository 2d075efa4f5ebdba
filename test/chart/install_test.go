// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package chart_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// TestInstall takes the chart through its life on a real API server: install, uninstall, install again, a second
// release, an upgrade.
func TestInstall(t *testing.T) {
	// Generous: a busy machine is no failure.
	const patience = 2 * time.Minute
	env := &envtest.Environment{ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience}
	config, err := env.Start()
	if err != nil {
		t.Fatalf("start the API server (make test-envtest sets KUBEBUILDER_ASSETS): %v", err)
	}
	defer func() { _ = env.Stop() }()
	admin, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := admin.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	k8s, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	program, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) error {
		_, err := run(program, append(args, "--kubeconfig", kubeconfig, "--namespace", "lighterage-system")...)
		return err
	}
	must := func(args ...string) {
		t.Helper()
		if err := do(args...); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if err := do(args...); err == nil {
			t.Errorf("helm %s succeeded", strings.Join(args, " "))
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("helm %s: the message lacks %q: %v", strings.Join(args, " "), want, err)
		}
	}
	ctx := context.Background()

	must("install", "lighterage", chartDir, "--create-namespace", "--set", registry)
	peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "west"}, Spec: v1alpha1.PeerSpec{CABundle: []byte("pem")}}
	// Helm does not wait until the API server serves what was defined.
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := k8s.Create(ctx, peer)
		if err == nil {
			break
		}
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	refused(`as release "lighterage" in namespace "lighterage-system"`, "install", "second", chartDir, "--set", registry)

	must("uninstall", "lighterage")
	if err := k8s.Get(ctx, client.ObjectKeyFromObject(peer), peer); err != nil {
		t.Errorf("the uninstall took a user's Peer with it: %v", err)
	}
	refused("--take-ownership", "install", "second", chartDir, "--set", registry)
	must("install", "second", chartDir, "--set", registry, "--set", "crds.install=false")
	must("uninstall", "second")
	must("install", "lighterage", chartDir, "--set", registry)
	routed(t, config, must, refused)

	newer := filepath.Join(t.TempDir(), "lighterage")
	if err := os.CopyFS(newer, os.DirFS(filepath.Join(root, chartDir))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(newer, "files/crds/lighterage.dev_peers.yaml")
	crd, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const before, after = "Peer is another cluster that runs Lighterage.", "Peer is a newer text."
	if !strings.Contains(string(crd), before) {
		t.Fatalf("%s lacks %q", file, before)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(crd), before, after)), 0o600); err != nil {
		t.Fatal(err)
	}
	must("upgrade", "lighterage", newer, "--set", registry)
	var got apiextensionsv1.CustomResourceDefinition
	if err := k8s.Get(ctx, client.ObjectKey{Name: "peers.lighterage.dev"}, &got); err != nil {
		t.Fatal(err)
	}
	if d := got.Spec.Versions[0].Schema.OpenAPIV3Schema.Description; d != after {
		t.Errorf("the upgrade left the definition as it was: %q", d)
	}
	if err := k8s.Get(ctx, client.ObjectKeyFromObject(peer), peer); err != nil {
		t.Errorf("the upgrade lost a user's Peer: %v", err)
	}
}

// routed upgrades the release to one with a TLSRoute, and back, on an API server that learns of TLSRoutes only then.
func routed(t *testing.T, config *rest.Config, must func(...string), refused func(string, ...string)) {
	t.Helper()
	upgrade := []string{
		"upgrade", "lighterage", chartDir, "--set", registry, "--set", "gateway.service.type=ClusterIP",
		"--set", "gateway.tlsRoute.parentRefs[0].name=edge", "--set", "gateway.tlsRoute.parentRefs[0].sectionName=passthrough",
	}
	refused("TLSRoute", upgrade...)
	crd := "config/crd/standard/gateway.networking.k8s.io_tlsroutes.yaml"
	paths, err := controllertest.ModuleFiles(t.Context(), "sigs.k8s.io/gateway-api@v1.6.3", crd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	must(upgrade...)
	routes := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "tlsroutes"}
	all := dynamic.NewForConfigOrDie(config).Resource(routes).Namespace("lighterage-system")
	route, err := all.Get(t.Context(), "lighterage-gateway", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	backend, _ := at(route.Object, "spec", "rules", 0, "backendRefs", 0).(map[string]any)
	if backend["name"] != "lighterage-gateway" || backend["port"] != int64(8443) {
		t.Errorf("the TLSRoute leads to %v", backend)
	}
	host, _ := at(route.Object, "spec", "hostnames", 0).(string)
	for _, name := range []string{transport.GatewayServerName, pki.ReceiveServerName("1-2-3")} {
		if !strings.HasPrefix(host, "*.") || !strings.HasSuffix(name, host[1:]) {
			t.Errorf("the TLSRoute's %s does not match server name %s", host, name)
		}
	}
	must("upgrade", "lighterage", chartDir, "--set", registry, "--reset-values")
	if _, err := all.Get(t.Context(), "lighterage-gateway", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the TLSRoute is left: %v", err)
	}
}
