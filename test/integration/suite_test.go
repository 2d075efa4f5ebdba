// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

// Package integration_test holds the API against a real API server: what the schema and its rules admit, and that every
// sample is admitted.
package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

var (
	k8s    client.Client
	config *rest.Config // of the API server
)

// patience bounds what takes moments.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 1, fmt.Errorf("build the scheme: %w", err)
		}
	}
	gatewayAPI, err := moduleDir("../../hack/tools/gateway-api/go.mod", "sigs.k8s.io/gateway-api")
	if err != nil {
		return 1, err
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{
			"../../config/crd/bases", filepath.Join(gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"),
		},
		ErrorIfCRDPathMissing: true,
		// On a machine that does much else the defaults of 20 and 10 seconds are too short.
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: patience},
	}
	config, err = env.Start()
	if err != nil {
		return 1, fmt.Errorf(
			"start the API server (KUBEBUILDER_ASSETS must name a directory with etcd and kube-apiserver; make test-envtest "+
				"sets it): %w",
			err,
		)
	}
	defer func() { _ = env.Stop() }()
	if k8s, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 1, fmt.Errorf("make a client: %w", err)
	}
	for _, name := range []string{"bank", "lighterage-system"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := k8s.Create(context.Background(), ns); err != nil {
			return 1, fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return m.Run(), nil
}

// moduleDir returns where the files of a module are that a go.mod requires.
func moduleDir(modfile, module string) (string, error) {
	for _, args := range [][]string{
		{"mod", "download", "-modfile=" + modfile, module},
		{"list", "-m", "-modfile=" + modfile, "-f", "{{.Dir}}", module},
	} {
		command := exec.Command("go", args...)
		command.Stderr = os.Stderr
		out, err := command.Output()
		if err != nil {
			return "", fmt.Errorf("find module %s (go %s): %w", module, strings.Join(args, " "), err)
		}
		if dir := strings.TrimSpace(string(out)); dir != "" {
			return dir, nil
		}
	}
	return "", fmt.Errorf("module %s of %s has no directory", module, modfile)
}
