// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/external"
	"github.com/lighterage/lighterage/agent/queue/external/externaltest"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	patience = 2 * time.Minute
	// tryPatience bounds the first try of what is tried again: to make streams, or to put a message that a server may
	// take with it when it ends. It is far less than patience, or the answer that is lost would be all that is waited
	// for.
	tryPatience = 3 * time.Second
)

// options of a queue in servers.
func options(servers ...*externaltest.Server) external.Options {
	o := external.Options{
		Egress: egress.Policy{Loopback: true}, Queue: "orders", Owner: "bank/orders", Member: "orders-0", MaxMessage: 1 << 20,
		Term: 500 * time.Millisecond,
	}
	for _, s := range servers {
		o.Servers, o.CABundle = append(o.Servers, s.URL()), s.CABundle
	}
	return o
}

// open makes the streams as an agent does.
func open(t *testing.T, o external.Options, settings store.Settings) (*external.External, *nats.Conn, error) {
	t.Helper()
	return try(t, o, settings, patience)
}

// try is open with other patience.
func try(
	t *testing.T, o external.Options, settings store.Settings, patience time.Duration,
) (*external.External, *nats.Conn, error) {
	t.Helper()
	e, err := external.New(o)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := e.Connect("test")
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(conn.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err = e.Check(conn); err == nil {
		err = e.Ensure(ctx, conn, settings)
	}
	if err == nil {
		err = e.EnsureLeases(ctx, conn, settings)
	}
	if err == nil {
		err = e.EnsureIDs(ctx, conn, settings)
	}
	if err == nil {
		err = e.Begin(ctx)
	}
	if err != nil {
		return nil, nil, e.Explain(err)
	}
	t.Cleanup(e.Shutdown)
	return e, conn, nil
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// awaitAnswer is await for what asks servers, which may end, or elect who leads, before they answer: each try has a
// bound of its own, and each the double of the one before, so that a slow machine is waited for as well.
func awaitAnswer(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	deadline, bound := time.Now().Add(patience), tryPatience
	for {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		err := ask(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s: %v", what, err)
		}
		bound *= 2
		time.Sleep(5 * time.Millisecond)
	}
}

// put puts a message, once however often it is tried.
func put(t *testing.T, what string, conn *nats.Conn, id string) {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	awaitAnswer(t, what, func(ctx context.Context) error {
		_, err := js.Publish(ctx, "orders.new", []byte("text"), jetstream.WithMsgID(id))
		return err
	})
}

// TestCluster: three servers keep messages, and two go on without the third.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take some seconds")
	}
	t.Parallel() // servers mostly wait for each other
	servers := externaltest.Cluster(t, 3)
	o := options(servers...)
	e, conn, err := open(t, o, store.Settings{Replicas: 3, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	put(t, "a message is stored", conn, "first")
	await(t, "the only member leads", e.Leader)
	// Who leads says so twice a second, and on a machine that stalls for longer nobody does for a while.
	awaitAnswer(t, "the leader is known", func(ctx context.Context) error {
		got, err := e.Statistics(ctx, conn)
		if err == nil && (got.Messages != 1 || got.Leader != "orders-0" || got.Used != nil) {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	awaitAnswer(t, "a sample is taken", func(ctx context.Context) error {
		seen := 0
		err := e.Sample(ctx, conn, 1, func(_ nats.Header, payload []byte) (bool, error) {
			seen += len(payload)
			return true, nil
		})
		if err == nil && seen != len("text") {
			t.Errorf("a sample has %d bytes", seen)
		}
		return err
	})
	servers[0].Stop()
	put(t, "a message is stored without a server", conn, "second")
	await(t, "the member leads again", e.Leader)
	awaitAnswer(t, "the server is missed", func(ctx context.Context) error {
		got, err := e.Statistics(ctx, conn)
		if err == nil && got.Unreachable != 1 {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	// A change of the settings reaches the stream, and the owner stays.
	awaitAnswer(t, "the limit is another", func(ctx context.Context) error {
		return e.Ensure(ctx, conn, store.Settings{Replicas: 3, MaxBytes: 2 << 20})
	})
	again := options(servers...)
	again.Member = "orders-1"
	if _, _, err := open(t, again, store.Settings{Replicas: 3, MaxBytes: 2 << 20}); err != nil {
		t.Errorf("another member: %v", err)
	}
}

// TestProblems: what is wrong with servers has a reason.
func TestProblems(t *testing.T) {
	t.Parallel()
	plain := externaltest.Start(t, nil)
	gone := externaltest.Start(t, nil)
	gone.Stop()
	none := externaltest.Start(t, func(o *server.Options) { o.JetStream = false })
	short := externaltest.Start(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	small := externaltest.Start(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 })
	locked := externaltest.StartTLS(t, func(o *server.Options) { o.Username, o.Password = "queue", "secret" })
	taken := externaltest.Start(t, nil)
	overlapped := externaltest.Start(t, nil)
	for s, c := range map[*externaltest.Server]jetstream.StreamConfig{
		taken:      {Name: "orders", Subjects: []string{"orders", "orders.>"}},
		overlapped: {Name: "all", Subjects: []string{"orders.>"}},
	} {
		conn, err := nats.Connect(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	limits := externaltest.StartTLS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "queue", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.CREATE.>"}},
		}}}
	})
	secret := func(o *external.Options) {
		o.Directory = files(t, map[string]string{wirev1.ExternalUsernameKey: "queue", wirev1.ExternalPasswordKey: "secret"})
	}
	problems := map[string]struct {
		server   *externaltest.Server
		change   func(*external.Options)
		settings store.Settings
		reason   wirev1.FailureReason
		fix      string
	}{
		"unreachable": {
			gone, nil, store.Settings{}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE,
			"spec.engine.external.servers",
		},
		"no credentials": {
			locked, nil, store.Settings{}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED, "credentials",
		},
		"wrong password": {locked, func(o *external.Options) {
			o.Directory = files(t, map[string]string{wirev1.ExternalUsernameKey: "queue", wirev1.ExternalPasswordKey: "guess"})
		}, store.Settings{}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED, "credentials"},
		"no Secret": {
			locked, func(o *external.Options) { o.Directory = t.TempDir() }, store.Settings{},
			wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED, "Secret is missing",
		},
		"not allowed": {
			limits, secret, store.Settings{}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED,
			"$JS.API.STREAM.CREATE.orders",
		},
		"no TLS": {
			plain, func(o *external.Options) { o.Servers = []string{"tls://" + plain.Address()} }, store.Settings{},
			wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE, "nats://",
		},
		"no JetStream": {none, nil, store.Settings{}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT, "JetStream"},
		"short messages": {
			short, nil, store.Settings{}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT, "maxMessageSize",
		},
		"one server": {
			plain, nil, store.Settings{Replicas: 3}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT, "spec.replicas",
		},
		"no space": {
			small, nil, store.Settings{MaxBytes: 2 << 20}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT,
			"spec.storage.size",
		},
		"another's stream": {
			taken, nil, store.Settings{}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_IN_USE, "another name",
		},
		"same subjects": {
			overlapped, nil, store.Settings{}, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_IN_USE, "another account",
		},
	}
	// Each has to wait until a server answers, or does not.
	t.Run("each", func(t *testing.T) {
		for what, test := range problems {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				o := options(test.server)
				if test.change != nil {
					test.change(&o)
				}
				var err error
				for deadline := time.Now().Add(patience); ; {
					// On a loaded machine a try may end before the server has said what is wrong.
					_, _, err = try(t, o, test.settings, tryPatience)
					if failure.Is(err, test.reason) || time.Now().After(deadline) {
						break
					}
				}
				if !failure.Is(err, test.reason) || !strings.Contains(err.Error(), test.fix) {
					t.Errorf("%v does not say %q", err, test.fix)
				}
				if err != nil && (strings.Contains(err.Error(), "guess") || strings.Contains(err.Error(), "secret")) {
					t.Errorf("it tells a password: %v", err)
				}
			})
		}
	})
	// A stream of the queue itself, but of another namespace, is another's as well, and not changed.
	former, _, err := open(t, options(plain), store.Settings{MaxMessages: 5})
	if err != nil {
		t.Fatal(err)
	}
	former.Shutdown() // or it might be the one that leads in the end
	o := options(plain)
	o.Owner = "shop/orders"
	_, conn, err := open(t, o, store.Settings{MaxMessages: 7})
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_IN_USE) {
		t.Errorf("the stream of another namespace: %v, %v", err, conn)
	}
	e, conn, err := open(t, options(plain), store.Settings{MaxMessages: 5})
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "orders")
	if err != nil || stream.CachedInfo().Config.MaxMsgs != 5 {
		t.Errorf("%v", err)
	}
	// Servers that go are a problem, and none when they are there again.
	plain.Stop()
	await(t, "the server is missed", func() bool {
		return failure.Is(e.Ready(), wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE)
	})
	await(t, "nobody leads", func() bool { return !e.Leader() })
	plain.Restart(nil)
	await(t, "the server is there", func() bool { return e.Ready() == nil && e.Leader() })
	// This connection may come later than that of the lease, and its first request be lost.
	awaitAnswer(t, "the stream is deleted", func(ctx context.Context) error {
		if err := js.DeleteStream(ctx, "orders"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		return nil
	})
	await(t, "the stream is missed", func() bool {
		return failure.Is(e.Ready(), wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT)
	})
	if err := e.Failed(); err != nil {
		t.Errorf("a stream of files is recreated: %v", err)
	}
}

// files writes what a Secret has.
func files(t *testing.T, secret map[string]string) string {
	t.Helper()
	directory := t.TempDir()
	for name, text := range secret {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// authority makes certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func (a authority) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// newAuthority returns one that signed itself.
func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

// issue returns a certificate for a host, and its files.
func (a authority) issue(t *testing.T, host string) (tls.Certificate, map[string]string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(host)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, map[string]string{
		"tls.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	}
}

// TestTLS: servers prove who they are, and members show a certificate where that is asked for.
func TestTLS(t *testing.T) {
	mine, others := newAuthority(t), newAuthority(t)
	clients := x509.NewCertPool()
	clients.AddCert(mine.certificate)
	secured := func(issuer authority, host func(string) string) *externaltest.Server {
		return externaltest.Start(t, func(o *server.Options) {
			certificate, _ := issuer.issue(t, host(o.Host))
			o.TLS, o.TLSTimeout = true, patience.Seconds()
			o.TLSConfig = &tls.Config{
				Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, ClientCAs: clients,
				ClientAuth: tls.RequireAndVerifyClientCert,
			}
		})
	}
	itself := func(host string) string { return host }
	good := secured(mine, itself)
	_, shown := mine.issue(t, "127.0.0.1")
	_, stranger := others.issue(t, "127.0.0.1")
	for what, test := range map[string]struct {
		server *externaltest.Server
		scheme string
		bundle []byte
		secret map[string]string
		reason wirev1.FailureReason
	}{
		"right":             {good, "tls", mine.bundle(), shown, 0},
		"another authority": {good, "tls", others.bundle(), shown, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNTRUSTED},
		"another's server": {
			secured(others, itself), "tls", mine.bundle(), shown, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNTRUSTED,
		},
		"another name": {
			secured(mine, func(string) string { return "192.0.2.1" }), "tls", mine.bundle(), shown,
			wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNTRUSTED,
		},
		"a stranger": {good, "tls", mine.bundle(), stranger, wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE},
	} {
		o := options(test.server)
		o.Servers, o.CABundle, o.Directory = []string{
			test.scheme + "://" + test.server.Address(),
		}, test.bundle, files(t, test.secret)
		_, conn, err := open(t, o, store.Settings{})
		if (err == nil) != (test.reason == 0) || err != nil && !failure.Is(err, test.reason) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil {
			continue
		}
		if state, err := conn.TLSConnectionState(); err == nil && !state.HandshakeComplete {
			t.Errorf("%s: without TLS", what)
		}
		put(t, what+": a message is stored", conn, what)
	}
}
