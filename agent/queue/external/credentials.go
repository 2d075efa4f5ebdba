// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// The files of Options.Directory: a JWT and its key in one file, as nsc writes it, or user name and password, or a
// token; and a certificate of TLS with one of these or alone. They are read again for every connection.
const (
	credentialsFile          = wirev1.ExternalCredsKey
	userFile, passwordFile   = wirev1.ExternalUsernameKey, wirev1.ExternalPasswordKey
	tokenFile                = wirev1.ExternalTokenKey
	certificateFile, keyFile = wirev1.ExternalCertificateKey, wirev1.ExternalPrivateKeyKey

	// maxFile is the longest of them in bytes.
	maxFile = 64 << 10
)

// ErrCredentials says that what there is to show to the servers is missing or makes no sense.
var ErrCredentials = errors.New("the credentials cannot be used")

// credentials are what is shown to the servers.
type credentials struct {
	user, password, token, jwt string
	seed                       []byte           // of the key that jwt is about
	certificate                *tls.Certificate // nil: none
}

// readCredentials reads those of a directory; an empty name stands for none. Errors are ErrCredentials and quote
// nothing that was read.
func readCredentials(directory string) (credentials, error) {
	if directory == "" {
		return credentials{}, nil
	}
	files := make(map[string]string)
	for _, name := range wirev1.ExternalKeys() {
		text, err := readFile(filepath.Join(directory, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return credentials{}, fmt.Errorf("%w: key %s: %w", ErrCredentials, name, err)
		}
		files[name] = text
	}
	has := func(name string) bool { return files[name] != "" }
	c := credentials{user: files[userFile], password: files[passwordFile], token: files[tokenFile]}
	ways := 0
	for _, name := range []string{credentialsFile, userFile, tokenFile} {
		if has(name) {
			ways++
		}
	}
	switch {
	case ways > 1:
		return credentials{}, fmt.Errorf("%w: %s, %s with %s, and %s are given beside each other: leave one of them",
			ErrCredentials,
			credentialsFile, userFile, passwordFile, tokenFile)
	case has(userFile) != has(passwordFile):
		return credentials{}, fmt.Errorf("%w: %s and %s belong together, and one of them is missing", ErrCredentials,
			userFile, passwordFile)
	case has(certificateFile) != has(keyFile):
		return credentials{}, fmt.Errorf("%w: %s and %s belong together, and one of them is missing", ErrCredentials,
			certificateFile, keyFile)
	case ways == 0 && !has(certificateFile):
		return credentials{}, fmt.Errorf("%w: the Secret is missing or has none of the keys %s", ErrCredentials,
			strings.Join(wirev1.ExternalKeys(), ", "))
	}
	if has(credentialsFile) {
		key, err := nkeys.ParseDecoratedUserNKey([]byte(files[credentialsFile]))
		if err == nil {
			defer key.Wipe()
			var seed []byte
			seed, err = key.Seed()
			c.seed = bytes.Clone(seed) // the key's own is wiped
		}
		if err == nil {
			c.jwt, err = nkeys.ParseDecoratedJWT([]byte(files[credentialsFile]))
		}
		if err != nil || c.jwt == "" {
			return credentials{}, fmt.Errorf("%w: %s is no JWT of a user with its key, as nsc writes it", ErrCredentials,
				credentialsFile)
		}
	}
	if has(certificateFile) {
		pair, err := tls.X509KeyPair([]byte(files[certificateFile]), []byte(files[keyFile]))
		if err != nil {
			return credentials{}, fmt.Errorf("%w: %s and %s: %w", ErrCredentials, certificateFile, keyFile, err)
		}
		c.certificate = &pair
	}
	return c, nil
}

// readFile returns a short file without white space around it.
func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // It was only read.
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return strings.TrimSpace(string(b)), err
}

// sign signs what a server says, for the server to see that the key is here.
func (c *credentials) sign(nonce []byte) ([]byte, error) {
	key, err := nkeys.FromSeed(c.seed)
	if err != nil {
		return nil, fmt.Errorf("%w: the key in %s: %w", ErrCredentials, credentialsFile, err)
	}
	defer key.Wipe()
	return key.Sign(nonce)
}

// options are those of a connection of nats.go, which asks again whenever it connects.
func (e *External) credentials() []nats.Option {
	read := func() credentials {
		c, err := readCredentials(e.options.Directory)
		if err != nil {
			e.options.Log.Warn("Servers are reached without credentials", "problem", err.Error())
		}
		return c
	}
	return []nats.Option{
		nats.UserInfoHandler(func() (string, string) { c := read(); return c.user, c.password }),
		nats.TokenHandler(func() string { return read().token }),
		nats.UserJWT(func() (string, error) {
			return read().jwt, nil
		}, func(nonce []byte) ([]byte, error) { c := read(); return c.sign(nonce) }),
	}
}

// Introduce adds to what is said at CONNECT the credentials of the queue.
func (e *External) Introduce(connect map[string]any, nonce string) error {
	c, err := readCredentials(e.options.Directory)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"user": c.user, "pass": c.password, "auth_token": c.token, "jwt": c.jwt} {
		if value != "" {
			connect[name] = value
		}
	}
	if c.jwt != "" {
		signature, err := c.sign([]byte(nonce))
		if err != nil {
			return err
		}
		connect["sig"] = base64.RawURLEncoding.EncodeToString(signature)
	}
	return nil
}
