// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// howToMakeKey ends every message about a key that is missing or cannot be used.
const howToMakeKey = "make one, and keep it off this machine's backups: " +
	"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.key"

// maxKey bounds a file with a key, in bytes.
const maxKey = 64 << 10

// signer signs for one release.
type signer struct {
	key *ecdsa.PrivateKey
}

// readSigner reads an ECDSA key on P-256 in PEM, as PKCS#8 or SEC 1, that no password protects.
func readSigner(path string) (signer, error) {
	if path == "" {
		return signer{}, errors.New("no key to sign with: set KEY; " + howToMakeKey)
	}
	block, err := readPEM(path)
	if err != nil {
		return signer{}, fmt.Errorf("reading the key to sign with: %w; %s", err, howToMakeKey)
	}
	var parsed any
	switch {
	case strings.Contains(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "":
		return signer{}, fmt.Errorf(
			"the key %s is encrypted; give it decrypted through a pipe: openssl pkey -in %s | make release VERSION=... "+
				"KEY=/dev/stdin", path, path,
		)
	case block.Type == "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return signer{}, fmt.Errorf("parsing the key %s: %w; %s", path, err, howToMakeKey)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return signer{}, fmt.Errorf("the key %s is not an ECDSA key on P-256; %s", path, howToMakeKey)
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return signer{}, fmt.Errorf("others can read the key %s: chmod 600 %s", path, path)
	}
	return signer{key}, nil
}

// sign is the signature of SHA-256 of a message in DER. It is deterministic, so that a release that is built again has
// the same bytes.
func (s signer) sign(message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	signature, err := s.key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return signature, nil
}

func (s signer) verifier() verifier { return verifier{&s.key.PublicKey} }

// verifier holds the public half.
type verifier struct {
	key *ecdsa.PublicKey
}

// readVerifier reads a public key in PEM.
func readVerifier(path string) (verifier, error) {
	if path == "" {
		return verifier{}, errors.New(
			"no key to verify with: set KEY to the file with the public key of the project, from a place that you trust",
		)
	}
	block, err := readPEM(path)
	if err != nil {
		return verifier{}, fmt.Errorf("reading the key to verify with: %w", err)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return verifier{}, fmt.Errorf("parsing the public key %s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return verifier{}, fmt.Errorf("the key %s is not a public ECDSA key on P-256", path)
	}
	return verifier{key}, nil
}

var errSignature = errors.New("the signature is not of this key and content")

func (v verifier) verify(message, signature []byte) error {
	digest := sha256.Sum256(message)
	if !ecdsa.VerifyASN1(v.key, digest[:], signature) {
		return errSignature
	}
	return nil
}

// pem is the public key as OpenSSL and cosign read it; fingerprint is SHA-256 of its DER.
func (v verifier) pem() (text []byte, fingerprint string, err error) {
	der, err := x509.MarshalPKIXPublicKey(v.key)
	if err != nil {
		return nil, "", fmt.Errorf("encoding the public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), hex.EncodeToString(sum[:]), nil
}

func readPEM(path string) (*pem.Block, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKey))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no PEM block", path)
	}
	return block, nil
}

const inTotoPayload = "application/vnd.in-toto+json"

// envelope is a DSSE envelope.
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     []byte              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Signature []byte `json:"sig"`
}

// authenticated is what is signed of an envelope: the PAE of DSSE v1.
func (e envelope) authenticated() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "DSSEv1 %d %s %d ", len(e.PayloadType), e.PayloadType, len(e.Payload))
	b.Write(e.Payload)
	return b.Bytes()
}

// seal makes the envelope of an in-toto statement.
func (s signer) seal(statement any) ([]byte, error) {
	payload, err := json.Marshal(statement)
	if err != nil {
		return nil, fmt.Errorf("encoding the statement: %w", err)
	}
	e := envelope{PayloadType: inTotoPayload, Payload: payload}
	signature, err := s.sign(e.authenticated())
	if err != nil {
		return nil, err
	}
	e.Signatures = []envelopeSignature{{signature}}
	out, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding the envelope: %w", err)
	}
	return out, nil
}

// open verifies an envelope and returns its payload.
func (v verifier) open(text []byte) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("decoding the envelope: %w", err)
	}
	if e.PayloadType != inTotoPayload {
		return nil, fmt.Errorf("the payload is %q, not %s", e.PayloadType, inTotoPayload)
	}
	for _, s := range e.Signatures {
		if v.verify(e.authenticated(), s.Signature) == nil {
			return e.Payload, nil
		}
	}
	return nil, errSignature
}
