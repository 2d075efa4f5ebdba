// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

// CertificateBackdating is how far certificates reach back from when they were issued, so that a peer whose clock is
// behind by a day accepts them.
const CertificateBackdating = 25 * time.Hour

// CertificateIssued returns when a certificate of a cluster was issued, by the clock of that cluster.
func CertificateIssued(certificate *x509.Certificate) time.Time {
	return certificate.NotBefore.Add(CertificateBackdating)
}

const (
	claimsScheme = "lighterage"
	claimsHost   = "run"
	// maxClaimsLength bounds the URI in bytes: a path of 4 KiB of which every byte is escaped, 16 fingerprints and two
	// names fit.
	maxClaimsLength = 16 << 10
	// maxClaimsAudience is how many certificates the caBundle of a Peer may hold.
	maxClaimsAudience = 16
	// maxClaimsPath is that of the API, in bytes.
	maxClaimsPath = 4096
)

// ErrNoClaims is returned for a certificate that does not say of which run it is.
var ErrNoClaims = errors.New("certificate has no claims of a run")

var (
	claimsRun         = regexp.MustCompile(`^[a-z0-9]{1,6}$`)
	claimsName        = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	claimsFingerprint = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// RunClaims say what the holder of a Transfer's certificate may ask for. They are the second URI of the certificate,
// after the identity.
type RunClaims struct {
	// Run is the identifier of the run: 1 to 6 lower-case letters or digits.
	Run string
	// Audience are the SHA-256 fingerprints, in lower-case hexadecimal, of the CAs of the cluster that may be asked: 1
	// to 16.
	Audience []string
	// Namespace and Claim to write to, and Path of the directory in the claim: absolute, clean, at most 4096 bytes.
	Namespace, Claim, Path string
	// Delete permits removing what the source does not have. Privileged permits asking for the privilege to keep
	// owners.
	Delete, Privileged bool
}

// URI returns the claims as certificates carry them, or an error for claims that ParseRunClaims would not return.
func (c RunClaims) URI() (*url.URL, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c.uri(), nil
}

func (c RunClaims) uri() *url.URL {
	query := url.Values{
		"run": {c.Run}, "audience": c.Audience, "namespace": {c.Namespace}, "claim": {c.Claim}, "path": {c.Path},
	}
	for name, set := range map[string]bool{"delete": c.Delete, "privileged": c.Privileged} {
		if set {
			query.Set(name, "true")
		}
	}
	return &url.URL{Scheme: claimsScheme, Host: claimsHost, RawQuery: query.Encode()}
}

// ParseRunClaims reads what RunClaims.URI made, and nothing that differs from it in a single byte.
func ParseRunClaims(uri string) (RunClaims, error) {
	if len(uri) > maxClaimsLength {
		return RunClaims{}, fmt.Errorf("%w: URI of %d bytes", ErrNoClaims, len(uri))
	}
	parsed, err := url.Parse(uri)
	if err != nil {
		return RunClaims{}, fmt.Errorf("%w: %w", ErrNoClaims, err)
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return RunClaims{}, fmt.Errorf("%w: %w", ErrNoClaims, err)
	}
	c := RunClaims{
		Run: query.Get("run"), Audience: query["audience"],
		Namespace: query.Get("namespace"), Claim: query.Get("claim"), Path: query.Get("path"),
		Delete: query.Get("delete") == "true", Privileged: query.Get("privileged") == "true",
	}
	if err := c.validate(); err != nil {
		return RunClaims{}, err
	}
	// Whatever is unknown, said twice or written in another way makes a difference here.
	if c.uri().String() != uri {
		return RunClaims{}, fmt.Errorf("%w: the URI is of another form", ErrNoClaims)
	}
	return c, nil
}

func (c RunClaims) validate() error {
	switch {
	case !claimsRun.MatchString(c.Run):
		return fmt.Errorf("%w: run %q is not 1 to 6 lower-case letters or digits", ErrNoClaims, c.Run)
	case len(c.Audience) < 1 || len(c.Audience) > maxClaimsAudience:
		return fmt.Errorf("%w: an audience of %d where 1 to %d are allowed", ErrNoClaims, len(c.Audience), maxClaimsAudience)
	case !claimsName.MatchString(c.Namespace) || !claimsName.MatchString(c.Claim):
		return fmt.Errorf("%w: %q and %q are not the names of a namespace and a claim", ErrNoClaims, c.Namespace, c.Claim)
	case len(c.Path) > maxClaimsPath || !strings.HasPrefix(c.Path, "/") || path.Clean(c.Path) != c.Path:
		return fmt.Errorf("%w: the path is not absolute and clean, or longer than %d bytes", ErrNoClaims, maxClaimsPath)
	}
	for _, fingerprint := range c.Audience {
		if !claimsFingerprint.MatchString(fingerprint) {
			return fmt.Errorf("%w: %q is not a SHA-256 fingerprint", ErrNoClaims, fingerprint)
		}
	}
	return nil
}

// RunClaimsOf returns the claims in a certificate, whose first URI is the identity. The error matches ErrNoClaims.
func RunClaimsOf(certificate *x509.Certificate) (RunClaims, error) {
	if len(certificate.URIs) != 2 {
		return RunClaims{}, fmt.Errorf("%w: %d URIs in place of two", ErrNoClaims, len(certificate.URIs))
	}
	return ParseRunClaims(certificate.URIs[1].String())
}

// IdentityURI returns the URI that names a certificate's holder: the first, and the only one but for the claims of a
// run.
func IdentityURI(certificate *x509.Certificate) (*url.URL, error) {
	switch uris := certificate.URIs; {
	case len(uris) == 1, len(uris) == 2 && uris[1].Scheme == claimsScheme:
		return uris[0], nil
	default:
		return nil, fmt.Errorf(
			"certificate has %d URIs in place of one, which names its holder, and one with the claims of a run", len(uris),
		)
	}
}
