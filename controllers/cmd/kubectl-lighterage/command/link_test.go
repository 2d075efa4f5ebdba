// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

// playedGateway is a gateway that says what a test says.
type playedGateway struct {
	wirev1.UnimplementedGatewayServer
	bundle   []byte
	err      error
	redeemed atomic.Int32
}

func (g *playedGateway) Authority(context.Context, *wirev1.AuthorityRequest) (*wirev1.AuthorityResponse, error) {
	if g.bundle == nil {
		return nil, g.err
	}
	return &wirev1.AuthorityResponse{CaBundle: g.bundle}, nil
}

func (g *playedGateway) Redeem(context.Context, *wirev1.RedeemRequest) (*wirev1.RedeemResponse, error) {
	g.redeemed.Add(1)
	return &wirev1.RedeemResponse{}, g.err
}

// serveGateway serves with a certificate of a CA until the test ends.
func serveGateway(t *testing.T, ca *pki.CA, gateway wirev1.GatewayServer) string {
	t.Helper()
	pair, err := ca.Issue(pki.Template{
		Identity: pki.Identity{Cluster: "west", Path: pki.GatewayPath}, DNSNames: []string{pki.GatewayServerName},
		Lifetime: time.Hour,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert,
	})))
	wirev1.RegisterGatewayServer(server, gateway)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// TestRedeemCalls: nothing is handed in to who is not the cluster of the token, and each failure says what to do.
func TestRedeemCalls(t *testing.T) {
	newCA := func() *pki.CA {
		ca, _, err := pki.NewCA("west", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return ca
	}
	west, evil := newCA(), newCA()
	for name, test := range map[string]struct {
		served  *pki.CA
		gateway wirev1.GatewayServer
		says    string
		asked   int32
	}{
		"of an earlier release": {west, &wirev1.UnimplementedGatewayServer{}, "upgrade the operator", 0},
		"another cluster":       {evil, &playedGateway{bundle: evil.CertificatePEM}, "another fingerprint", 0},
		"the CA of the token, without its key": {
			evil, &playedGateway{bundle: west.CertificatePEM}, "is not the gateway of the cluster", 0,
		},
		"garbage": {west, &playedGateway{bundle: []byte("hello")}, "cannot be read", 0},
		"two CAs": {
			west, &playedGateway{bundle: append(append([]byte{}, west.CertificatePEM...), evil.CertificatePEM...)},
			"another fingerprint", 0,
		},
		"throttled": {west, &playedGateway{err: status.Error(codes.Unavailable, "too many"+hostile)}, "--dial", 0},
		"rejected": {
			west, &playedGateway{bundle: west.CertificatePEM, err: status.Error(codes.PermissionDenied, "not valid")},
			"not valid", 1,
		},
		"accepted": {west, &playedGateway{bundle: west.CertificatePEM}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := &calledGateway{address: serveGateway(t, test.served, test.gateway)}
			bundle, err := g.authority(t.Context(), sha256.Sum256(west.Certificate.Raw))
			if err == nil {
				err = g.redeem(t.Context(), bundle, &wirev1.RedeemRequest{Key: []byte("secret")})
			}
			if (err == nil) != (test.says == "") || err != nil && (!strings.Contains(err.Error(), test.says) ||
				strings.ContainsAny(err.Error(), "\x1b\n")) {
				t.Errorf("%v", err)
			}
			if played, ok := test.gateway.(*playedGateway); ok && played.redeemed.Load() != test.asked {
				t.Errorf("it was asked to redeem %d times", played.redeemed.Load())
			}
		})
	}
	g := &calledGateway{address: "127.0.0.1:1"}
	if _, err := g.authority(t.Context(), [32]byte{}); err == nil || !strings.Contains(err.Error(), "--dial") {
		t.Errorf("unreachable: %v", err)
	}
}

// silentGateway tells of questions and answers none.
type silentGateway struct {
	wirev1.UnimplementedGatewayServer
	asked chan struct{}
}

func (g *silentGateway) Authority(ctx context.Context, _ *wirev1.AuthorityRequest) (*wirev1.AuthorityResponse, error) {
	g.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (g *silentGateway) Redeem(ctx context.Context, _ *wirev1.RedeemRequest) (*wirev1.RedeemResponse, error) {
	g.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestRedeemInterrupted: who interrupts is told whether the token may be used up.
func TestRedeemInterrupted(t *testing.T) {
	west, _, err := pki.NewCA("west", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	silent := &silentGateway{asked: make(chan struct{}, 1)}
	g := &calledGateway{address: serveGateway(t, west, silent)}
	for name, test := range map[string]struct {
		call func(context.Context) error
		used bool
	}{
		"before": {func(ctx context.Context) error {
			_, err := g.authority(ctx, [32]byte{})
			return err
		}, false},
		"while it is handed in": {func(ctx context.Context) error {
			return g.redeem(ctx, west.CertificatePEM, &wirev1.RedeemRequest{})
		}, true},
	} {
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			<-silent.asked
			stop()
		}()
		err := test.call(ctx)
		if status.Code(err) != codes.Canceled || errors.Is(err, errPerhapsUsed) != test.used {
			t.Errorf("%s: %v", name, err)
		}
		stop()
	}
	lost := status.Error(codes.Unavailable, "connection reset")
	if err := g.explain(lost, true); !errors.Is(err, errPerhapsUsed) {
		t.Errorf("lost: %v", err)
	}
	if err := g.explain(status.Error(codes.PermissionDenied, "not valid"), true); errors.Is(err, errPerhapsUsed) {
		t.Errorf("rejected: %v", err)
	}
}

// TestLinkArguments: what is wrong is found before a cluster is asked, and a token that is wrong is not repeated.
func TestLinkArguments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	token, err := link.NewToken("west", "gateway.west.example:8443", [32]byte{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text := token.Encode()
	for line, says := range map[string]string{
		"link":                                   "create, redeem, accept",
		"link redeem":                            "one token",
		"link redeem a b":                        "one token",
		"link redeem " + text[:len(text)-1]:      "damaged",
		"link redeem " + text + "A":              "damaged",
		"link accept hello":                      "does not begin with",
		"link create " + text:                    "unknown command",
		"link create --endpoint west":            "host:port",
		"link create --name admin@west":          "--name",
		"link redeem - --peer-name a/b":          "--peer-name",
		"link redeem - --dial none":              "--dial",
		"link redeem - --wait -1s":               "--wait",
		"link accept - --endpoint a:1":           "--endpoint",
		"link redeem " + text:                    "",
		"link redeem - --endpoint none":          "",
		"link create --endpoint a:1 -o json":     "",
		"link accept - --peer-name west -o yaml": "",
	} {
		_, _, err := try(t, "", append(strings.Fields(line), "--kubeconfig", path)...)
		code := 2
		if says == "" {
			code = 1
		}
		if err == nil || ExitCode(err) != code || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), text[20:40]) && says != "unknown command" {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestTokenInput: a line is a token, whether or not the input ends; who waits for one can be interrupted; and what is
// read is bounded.
func TestTokenInput(t *testing.T) {
	token, err := link.NewToken("west", "gateway.west.example:8443", [32]byte{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context, in io.Reader) (*link.Token, error) {
		l := newLinking(newPlugin(genericiooptions.IOStreams{In: in, Out: io.Discard, ErrOut: io.Discard}))
		err := l.readToken(ctx)
		return l.token, err
	}
	open, typed := io.Pipe() // it never ends
	defer typed.Close()
	ctx, stop := context.WithCancel(t.Context())
	interrupted := make(chan error, 1)
	go func() {
		_, err := read(ctx, open)
		interrupted <- err
	}()
	if _, err := io.WriteString(typed, "half of a line"); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-interrupted; !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	open, typed = io.Pipe()
	defer typed.Close()
	go func() { _, _ = io.WriteString(typed, "\n"+token.Encode()+"\r\n") }()
	for name, in := range map[string]io.Reader{"typed": open, "of a file": strings.NewReader(token.Encode())} {
		if got, err := read(t.Context(), in); err != nil || got.Encode() != token.Encode() {
			t.Errorf("%s: %v", name, err)
		}
	}
	endless := &endlessReader{}
	if _, err := read(t.Context(), endless); !errors.Is(err, link.ErrToken) || endless.read > maxTokenInput {
		t.Errorf("%d bytes of an endless line: %v", endless.read, err)
	}
	if _, err := read(t.Context(), iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an input that fails: %v", err)
	}
}

// endlessReader is a line without an end.
type endlessReader struct{ read int }

func (r *endlessReader) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = 'x'
	}
	r.read += len(to)
	return len(to), nil
}
