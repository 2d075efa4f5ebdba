// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the keys and certificates of one cluster, and of a server beside the clusters.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
)

// validity is how long certificates hold. Clusters are made and thrown away; no
// one renews anything.
const validity = 5 * 365 * 24 * time.Hour

// past is how far certificates reach back, for programs with a clock that is behind by
// more than a day (images -clock-offset).
const past = 48 * time.Hour

// FrontProxy is the name, and the file, of the certificate with which the API
// server passes requests on to aggregated API servers.
const FrontProxy = "front-proxy-client"

// Client is a certificate that names a user of the API.
type Client struct {
	// File names the kubeconfig made for it: FILE.kubeconfig.
	File   string
	User   string
	Groups []string
}

// Clients are the users of the cluster, in addition to one for each node.
func Clients(c layout.Cluster) []Client {
	list := []Client{
		{"admin", "kubernetes-admin", []string{"system:masters"}},
		{"controller-manager", "system:kube-controller-manager", nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"proxy", "system:kube-proxy", nil},
		{"storage", "lighterage:storage", nil},
		{"csi", "lighterage:csi", nil},
	}
	for _, n := range c.Nodes {
		list = append(list, Client{n.Name, "system:node:" + n.Name, []string{"system:nodes"}})
	}
	return list
}

// generation changes whenever what generate makes changes.
const generation = "4"

// Ensure makes the cluster's keys, certificates and kubeconfigs, unless a former
// run has finished doing so.
func Ensure(c layout.Cluster) error {
	return once(c.Name, c.PKIDir(), func(dir string) error { return generate(c, dir) })
}

// EnsureServer makes an authority and the certificate of a server that is no part of a cluster, as ca.crt, server.crt
// and server.key in dir, unless a former run has finished doing so.
func EnsureServer(name, dir string, address netip.Addr) error {
	return once(name, dir, func(dir string) error {
		a, err := newAuthority(name + " authority")
		if err != nil {
			return err
		}
		if err := writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", a.cert.Raw); err != nil {
			return err
		}
		return a.issue(filepath.Join(dir, "server"), &x509.Certificate{
			Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{address.AsSlice()},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
	})
}

// once makes what is in dir, and notes when it is complete.
func once(name, dir string, generate func(dir string) error) error {
	done := filepath.Join(dir, "complete")
	made, err := os.ReadFile(done)
	if err == nil && string(made) == generation {
		return nil
	}
	if err == nil {
		return errors.New("it was made by another version of this program: run `make clusters-down` first")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making keys of %s: %w", name, err)
	}
	if err := generate(dir); err != nil {
		return fmt.Errorf("making keys of %s: %w", name, err)
	}
	return os.WriteFile(done, []byte(generation), 0o600)
}

func generate(c layout.Cluster, dir string) error {
	a, err := newAuthority(c.Name + " cluster authority")
	if err != nil {
		return err
	}
	if err := writePair(filepath.Join(dir, "ca"), a.cert.Raw, a.key); err != nil {
		return err
	}

	// Service account tokens.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, "sa.key"), key); err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", public); err != nil {
		return err
	}

	// What the API server shows to aggregated API servers. Its authority must not
	// be one that names users.
	front, err := newAuthority(c.Name + " front proxy authority")
	if err != nil {
		return err
	}
	if err := writePair(filepath.Join(dir, "front-proxy-ca"), front.cert.Raw, front.key); err != nil {
		return err
	}
	if err := front.issueClient(filepath.Join(dir, FrontProxy), FrontProxy, nil); err != nil {
		return err
	}

	server := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		},
		IPAddresses: []net.IP{
			c.ControlPlane().Address.AsSlice(), c.KubernetesService().AsSlice(), net.IPv4(127, 0, 0, 1),
		},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if err := a.issue(filepath.Join(dir, "apiserver"), server); err != nil {
		return err
	}
	// What the API server shows to kubelets.
	if err := a.issueClient(
		filepath.Join(dir, "apiserver-kubelet"), "kube-apiserver", []string{"system:masters"},
	); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		kubelet := &x509.Certificate{
			Subject:     pkix.Name{CommonName: n.Name},
			DNSNames:    []string{n.Name},
			IPAddresses: []net.IP{n.Address.AsSlice()},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		if err := a.issue(filepath.Join(dir, n.Name+"-server"), kubelet); err != nil {
			return err
		}
	}
	for _, client := range Clients(c) {
		base := filepath.Join(dir, client.File)
		if err := a.issueClient(base, client.User, client.Groups); err != nil {
			return err
		}
		if err := writeKubeconfig(c, client.User, base); err != nil {
			return err
		}
	}
	return nil
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func serial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	number, err := serial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          number,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-past),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, nil
}

// issue completes the template, signs it and writes BASE.crt and BASE.key.
func (a *authority) issue(base string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if template.SerialNumber, err = serial(); err != nil {
		return err
	}
	template.NotBefore, template.NotAfter = a.cert.NotBefore, a.cert.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writePair(base, der, key)
}

func (a *authority) issueClient(base, user string, groups []string) error {
	return a.issue(base, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func writePair(base string, der []byte, key crypto.Signer) error {
	if err := writePEM(base+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(base+".key", key)
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfig writes BASE.kubeconfig, which embeds BASE.crt, BASE.key and the
// ca.crt beside them.
func writeKubeconfig(c layout.Cluster, user, base string) error {
	ca, err1 := os.ReadFile(filepath.Join(filepath.Dir(base), "ca.crt"))
	cert, err2 := os.ReadFile(base + ".crt")
	key, err3 := os.ReadFile(base + ".key")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.Server(), CertificateAuthorityData: ca}
	// Kubeconfigs of several clusters are merged, in which names of users have to differ.
	name := user + "@" + c.Name
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: name}
	config.CurrentContext = c.Name
	return clientcmd.WriteToFile(*config, base+".kubeconfig")
}

// Kubeconfig is the path of the kubeconfig of one of the cluster's Clients.
func Kubeconfig(c layout.Cluster, file string) string {
	return filepath.Join(c.PKIDir(), file+".kubeconfig")
}

// Admin returns the content of the administrator's kubeconfig.
func Admin(c layout.Cluster) ([]byte, error) {
	data, err := os.ReadFile(Kubeconfig(c, "admin"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cluster %s has no kubeconfig yet: run `make clusters`", c.Name)
	}
	return data, err
}
