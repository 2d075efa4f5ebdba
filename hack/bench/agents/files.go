// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lighterage/lighterage/controllers/pki"
)

// lifetime of certificates: longer than any benchmark.
const lifetime = 24 * time.Hour

// Files writes what an agent has mounted into a new directory: its certificate from the CA of its own cluster, both
// CAs, and other files by name.
func Files(dir string, own, peer *pki.CA, certificate pki.Template, others map[string][]byte) error {
	certificate.Lifetime = lifetime
	pair, err := own.Issue(certificate, time.Now())
	if err != nil {
		return fmt.Errorf("issue the certificate of %s: %w", dir, err)
	}
	files := map[string][]byte{
		"tls.crt": pair.CertificatePEM, "tls.key": pair.KeyPEM, "cluster-ca.crt": own.CertificatePEM,
		"peer-ca.crt": peer.CertificatePEM,
	}
	maps.Copy(files, others)
	return write(dir, 0o600, files)
}

// ServerFiles writes a certificate for localhost and its key into a new directory, each and together, as other programs
// want them. Everybody may read them, because some of those serve as another user.
func ServerFiles(dir string) error {
	ca, _, err := pki.NewCA("bench", time.Now())
	if err != nil {
		return fmt.Errorf("make a CA: %w", err)
	}
	pair, err := ca.Issue(pki.Template{
		Identity: pki.Identity{Cluster: "bench", Path: pki.GatewayPath}, DNSNames: []string{"localhost"}, Lifetime: lifetime,
	}, time.Now())
	if err != nil {
		return fmt.Errorf("issue a certificate: %w", err)
	}
	return write(dir, 0o644, map[string][]byte{
		"tls.crt": pair.CertificatePEM, "tls.key": pair.KeyPEM,
		"both.pem": slices.Concat(pair.CertificatePEM, pair.KeyPEM),
	})
}

func write(dir string, mode os.FileMode, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make a directory for certificates: %w", err)
		}
		if err := os.WriteFile(path, content, mode); err != nil {
			return fmt.Errorf("write a certificate: %w", err)
		}
	}
	return nil
}
