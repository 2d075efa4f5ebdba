// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
)

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("%s holds no PEM block", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verify(t *testing.T, cert, ca *x509.Certificate, usage x509.ExtKeyUsage, name string) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestGenerate(t *testing.T) {
	for _, c := range layout.Clusters() {
		dir := t.TempDir()
		if err := generate(c, dir); err != nil {
			t.Fatal(err)
		}
		ca := certificate(t, filepath.Join(dir, "ca.crt"))
		server := certificate(t, filepath.Join(dir, "apiserver.crt"))
		for _, name := range []string{
			c.ControlPlane().Address.String(), c.KubernetesService().String(), "kubernetes.default.svc",
		} {
			if err := verify(t, server, ca, x509.ExtKeyUsageServerAuth, name); err != nil {
				t.Errorf("%s: API server as %s: %v", c.Name, name, err)
			}
		}
		for _, n := range c.Nodes {
			cert := certificate(t, filepath.Join(dir, n.Name+"-server.crt"))
			if err := verify(t, cert, ca, x509.ExtKeyUsageServerAuth, n.Address.String()); err != nil {
				t.Errorf("kubelet of %s: %v", n.Name, err)
			}
		}
		for _, client := range Clients(c) {
			cert := certificate(t, filepath.Join(dir, client.File+".crt"))
			if err := verify(t, cert, ca, x509.ExtKeyUsageClientAuth, ""); err != nil {
				t.Errorf("%s: client %s: %v", c.Name, client.File, err)
			}
			if cert.Subject.CommonName != client.User || !slices.Equal(cert.Subject.Organization, client.Groups) {
				t.Errorf("%s: client %s is %s, want %s of %v", c.Name, client.File, cert.Subject, client.User, client.Groups)
			}
			config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, client.File+".kubeconfig"))
			if err != nil || config.Host != c.Server() || len(config.KeyData) == 0 {
				t.Errorf("%s: kubeconfig of %s leads to %v, %v", c.Name, client.File, config, err)
			}
		}
		// Whoever the front proxy's authority vouches for may claim to be anybody: no
		// user may hold a certificate of it, nor it be taken for one of a user.
		front := certificate(t, filepath.Join(dir, FrontProxy+".crt"))
		if verify(t, front, ca, x509.ExtKeyUsageClientAuth, "") == nil {
			t.Errorf("%s: the front proxy's certificate is one of the users' authority", c.Name)
		}
	}
}

func TestEnsureServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	for range 2 { // The second time it is there.
		if err := EnsureServer("store", dir, layout.Host); err != nil {
			t.Fatal(err)
		}
	}
	ca, server := certificate(t, filepath.Join(dir, "ca.crt")), certificate(t, filepath.Join(dir, "server.crt"))
	if err := verify(t, server, ca, x509.ExtKeyUsageServerAuth, layout.Host.String()); err != nil {
		t.Error(err)
	}
	if verify(t, server, ca, x509.ExtKeyUsageServerAuth, "10.213.0.11") == nil {
		t.Error("the certificate is good for another address")
	}
}
