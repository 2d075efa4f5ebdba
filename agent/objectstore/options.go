// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
)

// DefaultRegion is what requests are signed for where no region is given; most servers other than AWS take it.
const DefaultRegion = "us-east-1"

// ErrOptions says that a store cannot be used as it was configured.
var ErrOptions = errors.New("the configuration of the object store is unusable")

// Options of New.
type Options struct {
	// Endpoint is https://HOST[:PORT], or http://HOST[:PORT] where there are no credentials.
	Endpoint string
	Bucket   string
	// Prefix of all keys, without slashes at its ends; empty: the whole bucket.
	Prefix string
	// Region that requests are signed for; empty: DefaultRegion.
	Region string
	// VirtualHost addresses the bucket as a part of the host's name instead of the path.
	VirtualHost bool
	// CABundle is PEM of who vouches for the server; empty: the CAs of the system, or of the program where it has none.
	CABundle []byte
	// CredentialsDirectory has the files that wirev1.ObjectStoreKeys names, which are read for every request. Empty:
	// requests are anonymous, unless there are Credentials.
	CredentialsDirectory string
	// Credentials of a program that has no directory of them; nil: there are none.
	Credentials *Credentials
	// StorageClass of what is written; empty: the bucket's.
	StorageClass string
	// Encryption by the server of what is written.
	Encryption Encryption
	// Dial opens connections.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Counter counts requests and bytes; nil: nobody does.
	Counter *Counter
	// Retry bounds how often a request is tried; the zero value: DefaultRetry.
	Retry Retry
	// MaxNames bounds the names in one directory, which Directory holds in memory; 0: DefaultMaxNames.
	MaxNames int
	// Now is the clock by which a server's is judged; nil: time.Now.
	Now func() time.Time
}

// Credentials do not change.
type Credentials struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// Encryption by the server with its own keys (SSE-S3) or those of a key service (SSE-KMS). The zero value asks for
// none: the bucket's default counts.
type Encryption struct {
	// S3 asks for SSE-S3.
	S3 bool
	// KMSKeyID asks for SSE-KMS with that key.
	KMSKeyID string
}

func (e Encryption) headers() (encrypt.ServerSide, error) {
	switch {
	case e.S3 && e.KMSKeyID != "":
		return nil, fmt.Errorf("%w: it asks for two kinds of encryption; leave one of them", ErrOptions)
	case e.S3:
		return encrypt.NewSSE(), nil
	case e.KMSKeyID != "":
		return encrypt.NewSSEKMS(e.KMSKeyID, nil)
	}
	return nil, nil
}

// Store is one prefix of one bucket. It is safe for concurrent use.
type Store struct {
	options Options
	core    *minio.Core
	sse     encrypt.ServerSide
	close   func()
}

// New returns a Store; nothing is dialled yet. Errors are ErrOptions.
func New(o Options) (*Store, error) {
	endpoint, err := ParseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	secure := endpoint.Scheme == "https"
	switch {
	case (o.CredentialsDirectory != "" || o.Credentials != nil) && !secure:
		return nil, fmt.Errorf("%w: credentials are sent by TLS only; write the endpoint as https://%s", ErrOptions,
			endpoint.Host)
	case len(o.CABundle) > 0 && !secure:
		return nil, fmt.Errorf("%w: a CA bundle needs an endpoint that begins with https://", ErrOptions)
	case o.Bucket == "":
		return nil, fmt.Errorf("%w: it has no bucket", ErrOptions)
	case o.Dial == nil:
		return nil, fmt.Errorf("%w: it has no dialer", ErrOptions)
	}
	if o.Prefix != "" {
		if err := CheckName("", o.Prefix); err != nil {
			return nil, fmt.Errorf("%w: prefix: %w", ErrOptions, err)
		}
	}
	sse, err := o.Encryption.headers()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// A connection carries many requests: its records need not be small at first.
		DynamicRecordSizingDisabled: true,
	}
	if len(o.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(o.CABundle) {
			return nil, fmt.Errorf("%w: the CA bundle has no certificate; it must be PEM", ErrOptions)
		}
	}
	if o.Region == "" {
		o.Region = DefaultRegion // without one the client would ask the server
	}
	if o.Retry == (Retry{}) {
		o.Retry = DefaultRetry
	}
	if o.MaxNames == 0 {
		o.MaxNames = DefaultMaxNames
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	lookup := minio.BucketLookupPath
	if o.VirtualHost {
		lookup = minio.BucketLookupDNS
	}
	provider := credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	if o.CredentialsDirectory != "" {
		provider = credentials.New(&directory{path: o.CredentialsDirectory})
	}
	if c := o.Credentials; c != nil {
		provider = credentials.NewStatic(c.AccessKeyID, c.SecretAccessKey, c.SessionToken, credentials.SignatureV4)
	}
	network := newTransport(o, config)
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: provider, Secure: secure, Region: o.Region, BucketLookup: lookup, Transport: network,
		MaxRetries: 1, // retry.go does it
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return &Store{options: o, core: core, sse: sse, close: network.close}, nil
}

// Close closes connections that are not in use.
func (s *Store) Close() { s.close() }

// ParseEndpoint reads the URL of a server. Errors are ErrOptions.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%w: endpoint %q: write https://HOST or https://HOST:PORT", ErrOptions, shorten(text))
	}
	return u, nil
}

// putOptions are what every object is written with.
func (s *Store) putOptions(token string, metadata map[string]string) minio.PutObjectOptions {
	o := minio.PutObjectOptions{
		ContentType: "application/octet-stream", StorageClass: s.options.StorageClass, ServerSideEncryption: s.sse,
	}
	o.UserMetadata = make(map[string]string, len(metadata)+1)
	maps.Copy(o.UserMetadata, metadata)
	if token != "" {
		o.UserMetadata[tokenHeader] = token
	}
	return o
}

// TokenKey is the key of an upload's token in the metadata of its object.
const TokenKey = "lighterage-write"

// tokenHeader is the user metadata that tells one's own object from another's.
const tokenHeader = "Lighterage-Write"

func ownToken(header http.Header, token string) bool {
	return token != "" && header.Get("X-Amz-Meta-"+tokenHeader) == token
}
