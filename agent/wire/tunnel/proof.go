// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/wire/chain"
)

const (
	scheme = "Lighterage"
	// maxAge is how far the time of a proof may be off.
	maxAge = 5 * time.Minute
	// MaxProof is the longest value of Proxy-Authorization that is looked at, in bytes.
	MaxProof = 64 << 10
	proofed  = "lighterage tunnel\n"
)

// ErrProof is returned for a proof that proves nothing.
var ErrProof = errors.New("the request for a tunnel is not signed as it must be")

// Proof returns a value of Proxy-Authorization by which the holder of a certificate asks for a target: its chain, the
// time, and a signature of both with its key. The connection is not encrypted, so no secret is sent. Keys are ECDSA
// keys, as those of all agents are.
func Proof(certificate *tls.Certificate, target string, now time.Time) (string, error) {
	key, ok := certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return "", fmt.Errorf("signing a request for a tunnel: the key is %T, not ECDSA", certificate.PrivateKey)
	}
	seconds := strconv.FormatInt(now.Unix(), 10)
	digest := sha256.Sum256([]byte(proofed + target + "\n" + seconds))
	signature, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("signing a request for a tunnel: %w", err)
	}
	parts := []string{seconds, base64.RawStdEncoding.EncodeToString(signature)}
	for _, der := range certificate.Certificate {
		parts = append(parts, base64.RawStdEncoding.EncodeToString(der))
	}
	return scheme + " " + strings.Join(parts, "."), nil
}

// Verify returns the chain of who made a proof for a target, leaf first, whose key was proved. Who issued it is for the
// caller to judge. The error matches ErrProof.
func Verify(proof, target string, now time.Time) ([]*x509.Certificate, error) {
	text, found := strings.CutPrefix(proof, scheme+" ")
	parts := strings.Split(text, ".")
	if !found || len(proof) > MaxProof || len(parts) < 3 || len(parts) > 2+chain.MaxCertificates {
		return nil, fmt.Errorf("%w: it has another form", ErrProof)
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: its time is no number", ErrProof)
	}
	if off := now.Sub(time.Unix(seconds, 0)).Abs(); off > maxAge {
		return nil, fmt.Errorf("%w: its time is off by more than %s", ErrProof, maxAge)
	}
	var decoded [][]byte
	for _, part := range parts[1:] {
		one, err := base64.RawStdEncoding.DecodeString(part)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProof, err)
		}
		decoded = append(decoded, one)
	}
	var certificates []*x509.Certificate
	for _, der := range decoded[1:] {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProof, err)
		}
		certificates = append(certificates, certificate)
	}
	if err := chain.Check(certificates); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	signed := []byte(proofed + target + "\n" + parts[0])
	if err := certificates[0].CheckSignature(x509.ECDSAWithSHA256, signed, decoded[0]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	return certificates, nil
}
