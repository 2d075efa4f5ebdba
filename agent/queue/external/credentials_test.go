// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/external"
	"github.com/lighterage/lighterage/agent/queue/external/externaltest"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// operator is a server that admits who shows a JWT.
func operator(t *testing.T) (s *externaltest.Server, creds string) {
	t.Helper()
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		key, err := create()
		if err != nil {
			t.Fatal(err)
		}
		public, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return key, public
	}
	operatorKey, operatorName := pair(nkeys.CreateOperator)
	accountKey, accountName := pair(nkeys.CreateAccount)
	_, systemName := pair(nkeys.CreateAccount)
	userKey, userName := pair(nkeys.CreateUser)
	sign := func(claims jwt.Claims, key nkeys.KeyPair) string {
		text, err := claims.Encode(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	trusted := jwt.NewOperatorClaims(operatorName)
	trusted.SystemAccount = systemName
	if _, err := jwt.DecodeOperatorClaims(sign(trusted, operatorKey)); err != nil {
		t.Fatal(err)
	}
	account := jwt.NewAccountClaims(accountName)
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{
		DiskStorage: jwt.NoLimit, MemoryStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
	}
	resolver := &server.MemAccResolver{}
	for name, text := range map[string]string{
		accountName: sign(account, operatorKey), systemName: sign(jwt.NewAccountClaims(systemName), operatorKey),
	} {
		if err := resolver.Store(name, text); err != nil {
			t.Fatal(err)
		}
	}
	seed, err := userKey.Seed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(sign(jwt.NewUserClaims(userName), accountKey), seed)
	if err != nil {
		t.Fatal(err)
	}
	return externaltest.StartTLS(t, func(o *server.Options) {
		o.TrustedOperators, o.SystemAccount, o.AccountResolver = []*jwt.OperatorClaims{trusted}, systemName, resolver
	}), string(text)
}

// TestCredentials: each kind admits the agent and, said by the front, its clients; what makes no sense is said without
// telling it.
func TestCredentials(t *testing.T) {
	token := externaltest.StartTLS(t, func(o *server.Options) { o.Authorization = "token-of-orders" })
	user := externaltest.StartTLS(t, func(o *server.Options) { o.Username, o.Password = "queue", "word-of-orders" })
	byJWT, creds := operator(t)
	for what, test := range map[string]struct {
		server *externaltest.Server
		secret map[string]string
		ok     bool
	}{
		"token": {token, map[string]string{wirev1.ExternalTokenKey: "token-of-orders\n"}, true},
		"user": {
			user, map[string]string{wirev1.ExternalUsernameKey: "queue", wirev1.ExternalPasswordKey: "word-of-orders"}, true,
		},
		"creds":       {byJWT, map[string]string{wirev1.ExternalCredsKey: creds}, true},
		"wrong token": {token, map[string]string{wirev1.ExternalTokenKey: "word-of-another"}, false},
		"half a user": {user, map[string]string{wirev1.ExternalUsernameKey: "queue"}, false},
		"half a key":  {byJWT, map[string]string{wirev1.ExternalCredsKey: creds[:len(creds)/2]}, false},
		"two ways": {
			user,
			map[string]string{
				wirev1.ExternalUsernameKey: "queue", wirev1.ExternalPasswordKey: "word-of-orders",
				wirev1.ExternalTokenKey: "word-of-another",
			},
			false,
		},
		"no certificate": {
			user,
			map[string]string{wirev1.ExternalUsernameKey: "queue", wirev1.ExternalPasswordKey: "word-of-orders", "tls.crt": "x"},
			false,
		},
		"bad certificate": {
			user,
			map[string]string{
				wirev1.ExternalUsernameKey: "queue", wirev1.ExternalPasswordKey: "word-of-orders", "tls.crt": "x", "tls.key": "y",
			},
			false,
		},
		"too much of them": {
			token, map[string]string{wirev1.ExternalTokenKey: strings.Repeat("word-of-another", 10000)}, false,
		},
	} {
		o := options(test.server)
		o.Directory = files(t, test.secret)
		e, _, err := open(t, o, store.Settings{})
		if (err == nil) != test.ok || err != nil && !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil {
			if strings.Contains(err.Error(), "word-of") {
				t.Errorf("%s: it tells a secret: %v", what, err)
			}
			continue
		}
		if err := introduce(t, e); err != nil {
			t.Errorf("%s: as a client: %v", what, err)
		}
		// New ones count for new connections.
		for name := range test.secret {
			if err := os.Remove(filepath.Join(o.Directory, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := introduce(t, e); !errors.Is(err, external.ErrCredentials) {
			t.Errorf("%s: after the Secret has gone: %v", what, err)
		}
	}
}

// introduce connects as the front does for a client.
func introduce(t *testing.T, e *external.External) error {
	t.Helper()
	conn, err := e.Dial(t.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return say(conn, e)
}

// say shakes hands.
func say(conn net.Conn, e *external.External) error {
	from := bufio.NewReader(conn)
	line, err := from.ReadString('\n')
	if err != nil {
		return err
	}
	var asks struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &asks); err != nil {
		return err
	}
	connect := map[string]any{"verbose": true}
	if err := e.Introduce(connect, asks.Nonce); err != nil {
		return err
	}
	text, err := json.Marshal(connect)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s\r\n", text); err != nil {
		return err
	}
	if line, err = from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "+OK") {
		return fmt.Errorf("heard %q: %w", line, err)
	}
	return nil
}
