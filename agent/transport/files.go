// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The names of the files in a configuration directory.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"

	// ClusterCA vouches for the manager, PeerCA for the other cluster.
	ClusterCA = "cluster-ca.crt"
	PeerCA    = "peer-ca.crt"
)

var errUnknownServer = errors.New("nobody of that name is served here")

// Files are the certificates in a configuration directory. They are read again when they have changed. It is safe for
// concurrent use.
type Files struct {
	directory string
	prefix    string // of all names but ClusterCA

	mu    sync.Mutex
	pair  cached[*tls.Certificate]
	pools map[string]*cached[*x509.CertPool]
}

// cached is what was read from files when the newest of them had a time.
type cached[T any] struct {
	value    T
	modified time.Time
	valid    bool
}

// NewFiles returns the certificates in a directory. Nothing is read yet.
func NewFiles(directory string) *Files {
	return &Files{directory: directory, pools: make(map[string]*cached[*x509.CertPool])}
}

// NewReceiverFiles returns the certificates for one of several receivers in a directory: the names of its files begin
// with its own and a dot, but for ClusterCA, which all share.
func NewReceiverFiles(directory, receiver string) *Files {
	f := NewFiles(directory)
	f.prefix = receiver + "."
	return f
}

func (f *Files) path(name string) string {
	if name != ClusterCA {
		name = f.prefix + name
	}
	return filepath.Join(f.directory, name)
}

// Certificate returns the agent's own certificate.
func (f *Files) Certificate() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	certificate, key := f.path(certificateFile), f.path(keyFile)
	return refresh(&f.pair, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("read the agent's certificate: %w", err)
		}
		return &pair, nil
	}, certificate, key)
}

// Pool returns the certificate authorities in a file, ClusterCA or PeerCA.
func (f *Files) Pool(name string) (*x509.CertPool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pools[name] == nil {
		f.pools[name] = &cached[*x509.CertPool]{}
	}
	path := f.path(name)
	return refresh(f.pools[name], func() (*x509.CertPool, error) {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a certificate authority: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read a certificate authority: %s holds no certificate in PEM", path)
		}
		return pool, nil
	}, path)
}

// refresh reads again if a file is not as old as it was. While files are being replaced, what was read before stays in
// use.
func refresh[T any](c *cached[T], read func() (T, error), paths ...string) (T, error) {
	var newest time.Time
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			if c.valid {
				return c.value, nil
			}
			return c.value, fmt.Errorf("look at a certificate: %w", err)
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	if c.valid && newest.Equal(c.modified) {
		return c.value, nil
	}
	value, err := read()
	if err != nil {
		if c.valid {
			return c.value, nil
		}
		return c.value, err
	}
	*c = cached[T]{value: value, modified: newest, valid: true}
	return value, nil
}

// serverConfig accepts clients that the authority in the file caFile vouches for, that the check accepts and that speak
// one of the protocols.
func (f *Files) serverConfig(caFile string, check func(tls.ConnectionState) error, protocols ...string) *tls.Config {
	return serverConfig(func(string) *Files { return f }, caFile, check, protocols...)
}

// serverConfig is that of several servers at one address, by the name that the client asks for; nil: there is none.
func serverConfig(
	pick func(serverName string) *Files, caFile string, check func(tls.ConnectionState) error, protocols ...string,
) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		f := pick(hello.ServerName)
		if f == nil {
			return nil, errUnknownServer
		}
		certificate, err := f.Certificate()
		if err != nil {
			return nil, err
		}
		pool, err := f.Pool(caFile)
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion:       tls.VersionTLS13,
			NextProtos:       protocols,
			Certificates:     []tls.Certificate{*certificate},
			ClientAuth:       tls.RequireAndVerifyClientCert,
			ClientCAs:        pool,
			VerifyConnection: check,
			// A ticket would let a client come back without its certificate being looked at again.
			SessionTicketsDisabled: true,
		}, nil
	}
	return base
}

// clientConfig believes servers that the authority in the file caFile vouches for and that have the name.
func (f *Files) clientConfig(caFile, serverName string) (*tls.Config, error) {
	pool, err := f.Pool(caFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		RootCAs:    pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return f.Certificate()
		},
	}, nil
}
