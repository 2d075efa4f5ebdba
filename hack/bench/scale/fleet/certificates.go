// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/lighterage/lighterage/controllers/pki"
)

// configKey is the agents' configuration in their Secrets.
const configKey = "config.json"

// certificates are what agents have mounted: the Secrets that the manager made.
type certificates struct {
	mu sync.RWMutex
	// secrets by namespace and name, and by server name.
	secrets, names map[string]*mounted
}

// mounted is a Secret.
type mounted struct {
	data map[string][]byte
	once sync.Once
	tls  *tls.Config
	err  error
}

func secretKey(namespace, name string) string { return namespace + "/" + name }

// keep takes a Secret as the kubelet would bring it, if it is one of an agent.
func (c *certificates) keep(secret *corev1.Secret) {
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil || secret.Data[pki.ClusterCAKey] == nil {
		return
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return
	}
	m := &mounted{data: secret.Data}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secrets == nil {
		c.secrets, c.names = map[string]*mounted{}, map[string]*mounted{}
	}
	c.secrets[secretKey(secret.Namespace, secret.Name)] = m
	for _, name := range leaf.DNSNames {
		c.names[name] = m
	}
}

func (c *certificates) has(namespace, name string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.secrets[secretKey(namespace, name)] != nil
}

// revision of the configuration in a Secret.
func (c *certificates) revision(namespace, name string) string {
	c.mu.RLock()
	m := c.secrets[secretKey(namespace, name)]
	c.mu.RUnlock()
	if m == nil {
		return ""
	}
	var config struct{ Revision string }
	if err := json.Unmarshal(m.data[configKey], &config); err != nil {
		return ""
	}
	return config.Revision
}

// config serves every agent with its own certificate, and authenticates clients by the CA of this cluster.
func (c *certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: c.of}
}

// of is the configuration of the agent that a client asks for.
func (c *certificates) of(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.RLock()
	m := c.names[hello.ServerName]
	c.mu.RUnlock()
	if m == nil {
		return nil, fmt.Errorf("no agent has a certificate for %q", hello.ServerName)
	}
	m.once.Do(m.load)
	return m.tls, m.err
}

func (m *mounted) load() {
	pair, err := tls.X509KeyPair(m.data[corev1.TLSCertKey], m.data[corev1.TLSPrivateKeyKey])
	if err != nil {
		m.err = fmt.Errorf("read an agent's key pair: %w", err)
		return
	}
	clients, err := pki.ParseBundle(m.data[pki.ClusterCAKey])
	if err != nil {
		m.err = fmt.Errorf("read an agent's CA: %w", err)
		return
	}
	m.tls = serving(pair, pki.Pool(clients))
}

// serving is how all servers here serve.
func serving(pair tls.Certificate, clients *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, SessionTicketsDisabled: true,
	}
}
