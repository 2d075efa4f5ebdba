// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

// TestLink joins two API servers by tokens: while link create waits, and after it was interrupted. Tokens that were
// used, that expired or that are damaged join nothing, and neither does a gateway that lies.
func TestLink(t *testing.T) {
	clusters, cas, path := twoClusters(t)
	east, west := clusters["east"], clusters["west"]
	for _, cluster := range clusters {
		go manage(t.Context(), cluster.Client)
	}
	address := startGateway(t, west, cas["west"])
	run := func(in string, arguments ...string) (string, string, error) {
		return try(t, in, append(arguments, "--kubeconfig", path)...)
	}
	redeem := func(token string) error {
		_, _, err := run(token+"\n", "link", "redeem", "-", "--context", "east", "--dial", address)
		return err
	}

	// Without the Secret of the chart there are no tokens.
	if _, _, err := run("", "link", "create", "--context", "west"); err == nil ||
		!strings.Contains(err.Error(), "without link tokens") {
		t.Errorf("without the Secret: %v", err)
	}
	links := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: controllertest.OperatorNamespace, Name: link.SecretName,
	}}
	west.Create(t, links)
	for _, command := range [][]string{
		{"link", "create", "--context", "west-nobody"}, {"link", "redeem", "-", "--context", "east-nobody"},
	} {
		if _, _, err := run("", command...); err == nil || !strings.Contains(err.Error(), "patch peers.lighterage.dev") ||
			strings.Contains(err.Error(), "lighterage-links") != (command[1] == "create") {
			t.Errorf("%q: %v", command, err)
		}
	}

	out := &safeBuffer{}
	created := make(chan error, 1)
	go func() {
		arguments := []string{"link", "create", "--context", "west", "--kubeconfig", path, "-o", "json"}
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: &safeBuffer{}}
		created <- Run(t.Context(), arguments, streams)
	}()
	until(t, out, "\n")
	token, _, _ := strings.Cut(out.String(), "\n")
	if err := redeem(token); err != nil {
		t.Fatal(err)
	}
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	var made joined
	_, after, _ := strings.Cut(out.String(), "\n")
	if err := json.Unmarshal([]byte(after), &made); err != nil || made.Peer != "east" || !made.Ready {
		t.Errorf("%v: %s", err, after)
	}
	atWest, atEast := getPeer(t, west, "east"), getPeer(t, east, "west")
	if !bytes.Equal(atWest.Spec.CABundle, cas["east"].CertificatePEM) ||
		!strings.HasPrefix(atWest.Spec.Endpoint, "10.0.0.1:") ||
		!bytes.Equal(atEast.Spec.CABundle, cas["west"].CertificatePEM) ||
		!strings.HasPrefix(atEast.Spec.Endpoint, "10.0.0.2:") ||
		atWest.Labels[link.MadeByLabel] != link.MadeByConnect {
		t.Errorf("%+v\n%+v", atWest.Spec, atEast.Spec)
	}
	if kept := records(t, west); len(kept) != 0 {
		t.Errorf("%d tokens are kept", len(kept))
	}
	// They are joined as connect joins them.
	if _, said, err := run("", "disconnect", "--context", "east", "--to", "west"); err != nil ||
		countPeers(t, west)+countPeers(t, east) != 0 {
		t.Fatalf("%v\n%s", err, said)
	}

	// A token that was used, one that has expired, and one that nobody made.
	old, err := link.NewToken("west", address, sha256.Sum256(cas["west"].Certificate.Raw), time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for name, text := range map[string]string{"used": token, "expired or unknown": old.Encode()} {
		err := redeem(text)
		if err == nil || countPeers(t, east) != 0 {
			t.Fatalf("%s: %v, %d Peers", name, err, countPeers(t, east))
		}
		words[err.Error()] = true
	}
	if len(words) != 1 || !strings.Contains(slices.Collect(maps.Keys(words))[0], "not valid") {
		t.Errorf("%v", words)
	}
	if err := redeem(token[:len(token)-4]); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged: %v", err)
	}
	if _, _, err := run(token, "link", "redeem", "-", "--context", "west", "--dial", address); err == nil ||
		!strings.Contains(err.Error(), "itself") {
		t.Errorf("in the cluster that made it: %v", err)
	}

	// Interrupted, and gone on with later.
	token, said, err := run("", "link", "create", "--context", "west", "--wait", "0")
	if err != nil || strings.Contains(said, strings.TrimSpace(token)) {
		t.Fatalf("%v\n%s", err, said)
	}
	if _, _, err := run(token, "link", "accept", "-", "--context", "west"); err == nil ||
		!strings.Contains(err.Error(), "not been redeemed") {
		t.Errorf("too early: %v", err)
	}
	if err := redeem(token); err != nil {
		t.Fatal(err)
	}
	other := west.Peer(t, "east") // the name is taken
	if _, _, err := run(token, "link", "accept", "-", "--context", "west"); err == nil ||
		!strings.Contains(err.Error(), "--peer-name") || getPeer(t, west, "east").Spec.Endpoint != other {
		t.Errorf("name of another cluster: %v", err)
	}
	if _, said, err := run(token, "link", "accept", "-", "--context", "west", "--peer-name", "sunrise"); err != nil ||
		!bytes.Equal(getPeer(t, west, "sunrise").Spec.CABundle, cas["east"].CertificatePEM) {
		t.Errorf("%v\n%s", err, said)
	}
	if _, _, err := run(token, "link", "accept", "-", "--context", "west"); err == nil {
		t.Error("it was accepted twice")
	}

	// The gateway puts another cluster in the place of the one that redeemed.
	token, _, err = run("", "link", "create", "--context", "west", "--wait", "0")
	if err != nil {
		t.Fatal(err)
	}
	evil, _, err := pki.NewCA("evil", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := redeem(token); err != nil {
		t.Fatal(err)
	}
	before := countPeers(t, west)
	secret := secretOf(t, west)
	for id, content := range secret.Data {
		var r link.Record
		if err := json.Unmarshal(content, &r); err != nil {
			t.Fatal(err)
		}
		r.Offer.CABundle = evil.CertificatePEM
		if secret.Data[id], err = json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := west.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(token, "link", "accept", "-", "--context", "west", "--peer-name", "evil"); err == nil ||
		!strings.Contains(err.Error(), "not from who has it") || countPeers(t, west) != before {
		t.Errorf("a gateway that lies: %v", err)
	}
}

func secretOf(t *testing.T, cluster *controllertest.Cluster) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: controllertest.OperatorNamespace, Name: link.SecretName}
	if err := cluster.Client.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func records(t *testing.T, cluster *controllertest.Cluster) map[string][]byte {
	t.Helper()
	return secretOf(t, cluster).Data
}

// startGateway serves the gateway of a cluster until the test ends.
func startGateway(t *testing.T, cluster *controllertest.Cluster, ca *pki.CA) string {
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
	g, err := gateway.New(gateway.Options{
		Client: cluster.Client, Reader: cluster.Client, Namespace: controllertest.OperatorNamespace,
		Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		Issuer:      func() (*x509.Certificate, error) { return ca.Certificate, nil },
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return listener.Addr().String()
}
