// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/gatewaycost"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

// M5, M9: a gateway that watches one namespace works with the rights that the chart gives it then. Peers get into that
// namespace, and into no other one, whatever grants there are in it. Its metrics are guarded.
func TestGatewayThatWatchesOneNamespace(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	cluster, err := controllertest.Start("../../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	directory, ca := credentials(t, cluster)
	east := gatewaytest.NewCA(t, "east")
	cluster.Create(t, gatewaytest.PeerOf("east", east))
	for _, namespace := range []string{"vault", "other"} {
		cluster.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			gatewaytest.GrantOf(namespace, "east", "bank", v1alpha1.GrantedPersistentVolumeClaim, "ledger-copy"))
	}
	cluster.Install(t, "watchNamespaces={vault}")
	address, metricsAddress := controllertest.FreeAddress(t), controllertest.FreeAddress(t)
	serve(t, cluster, "--watch-namespaces", controllertest.OperatorNamespace+",vault", "--config-dir", directory,
		"--namespace", controllertest.OperatorNamespace, "--bind-address", address,
		"--tunnel-bind-address", "127.0.0.1:0", "--metrics-bind-address", metricsAddress, "--health-bind-address", "0")

	w := &gatewaytest.Cluster{T: t, CA: ca, Address: address}
	ask := func(namespace string) (wirev1.GatewayClient, *wirev1.OpenResponse, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), gatewaytest.Patience)
		t.Cleanup(cancel)
		c := w.Dial(gatewaytest.IssueFor(t, east, pki.TransferIdentity("east", "bank", "ledger"), time.Now(),
			func(c *pki.RunClaims) {
				c.Audience, c.Namespace = []string{pki.Fingerprint(ca.Certificate)}, namespace
			}))
		stream, err := c.Open(ctx, &wirev1.OpenRequest{
			ProtocolVersion: wirev1.ProtocolVersion, RunId: "7f3ca", Attempt: 1,
			Destination: &wirev1.ClaimPath{Namespace: namespace, ClaimName: "ledger-copy", Path: "/"},
		})
		if err != nil {
			return nil, nil, err
		}
		response, err := stream.Recv()
		return c, response, err
	}
	deliveries := func(namespace string) int {
		t.Helper()
		list := &v1alpha1.DeliveryList{}
		if err := cluster.Client.List(context.Background(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	var admitted wirev1.GatewayClient
	controllertest.Eventually(t, func() error { // the port may not be open yet, and roles not yet in force
		c, response, err := ask("vault")
		if admitted = c; err != nil || response.GetPending() == nil {
			return fmt.Errorf("into the watched namespace: %v, %w", response, err)
		}
		return nil
	})
	if n := deliveries("vault"); n != 1 {
		t.Errorf("%d Deliveries in the watched namespace", n)
	}
	_, response, err := ask("other")
	if err != nil || response.GetRefused().GetReason() != wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED {
		t.Errorf("into another namespace: %v, %v", response, err)
	}
	if n := deliveries("other"); n != 0 {
		t.Errorf("%d Deliveries in another namespace", n)
	}
	// Withdraw looks for the Transfer's Deliveries in all namespaces.
	if _, err := admitted.Withdraw(
		context.Background(), &wirev1.WithdrawRequest{Namespace: "bank", Name: "ledger"},
	); err != nil {
		t.Error(err)
	}
	controllertest.Eventually(t, func() error {
		if n := deliveries("vault"); n != 0 {
			return fmt.Errorf("%d Deliveries after Withdraw", n)
		}
		return nil
	})
	addsToTheCost(t, cluster)
	redeemsTokens(t, cluster, w)
	cluster.CheckMetrics(t, metricsAddress, pki.GatewayServerName, ca.CertificatePEM)
}

// credentials are the directory that the gateway mounts, as the manager fills it, and the CA.
func credentials(t *testing.T, cluster *controllertest.Cluster) (directory string, ca *pki.CA) {
	t.Helper()
	ctx := context.Background()
	authority := cluster.Authority()
	if err := (&pki.Renewer{Authority: authority, Clock: clock.RealClock{}, Lifetime: time.Hour}).Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: controllertest.OperatorNamespace, Name: pki.GatewaySecret}
	if err := cluster.Client.Get(ctx, key, secret); err != nil {
		t.Fatal(err)
	}
	directory = t.TempDir()
	for name, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := authority.CA(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return directory, ca
}

// addsToTheCost checks that the gateway may write to the one ConfigMap, and to no other.
func addsToTheCost(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	ctx := context.Background()
	for _, name := range []string{gatewaycost.Name, "another"} {
		cluster.Create(t, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: controllertest.OperatorNamespace, Name: name},
		})
	}
	own, err := client.New(asGateway(cluster), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spent := gatewaycost.Totals{CPU: time.Second, Bytes: 1 << 30}
	if err := gatewaycost.Add(ctx, own, own, controllertest.OperatorNamespace, spent); err != nil {
		t.Error(err)
	}
	other := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: controllertest.OperatorNamespace, Name: "another"},
	}
	if err := own.Update(ctx, other); !apierrors.IsForbidden(err) {
		t.Errorf("another ConfigMap: %v", err)
	}
}

// redeemsTokens checks that the gateway may exchange what is kept of a link token, and reads no other Secret.
func redeemsTokens(t *testing.T, cluster *controllertest.Cluster, w *gatewaytest.Cluster) {
	t.Helper()
	ctx, now := context.Background(), time.Now()
	token, err := link.NewToken("west", w.Address, sha256.Sum256(w.CA.Certificate.Raw), now)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: controllertest.OperatorNamespace, Name: link.SecretName},
	}
	if secret.Data, err = token.Add(nil, now); err != nil {
		t.Fatal(err)
	}
	cluster.Create(t, secret)
	north := gatewaytest.NewCA(t, "north")
	stranger := w.Dial(gatewaytest.Issue(t, north, pki.Identity{Cluster: "north", Path: pki.ManagerPath}, now))
	answer, err := stranger.Authority(ctx, &wirev1.AuthorityRequest{})
	if err != nil || string(answer.GetCaBundle()) != string(w.CA.CertificatePEM) {
		t.Errorf("the CA: %v\n%s", err, answer.GetCaBundle())
	}
	offer := &link.Offer{Name: "north", CABundle: north.CertificatePEM}
	token.Seal(offer)
	for _, want := range []codes.Code{codes.OK, codes.PermissionDenied} {
		if _, err := stranger.Redeem(ctx, &wirev1.RedeemRequest{
			TokenId: token.ID(), Key: token.Key(), Name: offer.Name, CaBundle: offer.CABundle, Seal: offer.Seal,
		}); status.Code(err) != want {
			t.Errorf("%v in place of %v", err, want)
		}
	}
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	if got, err := token.Offered(secret.Data, now); err != nil || got == nil || got.Name != "north" {
		t.Errorf("%+v, %v", got, err)
	}
	own, err := client.New(asGateway(cluster), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: controllertest.OperatorNamespace, Name: pki.GatewaySecret}
	if err := own.Get(ctx, key, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("another Secret: %v", err)
	}
	if err := own.List(ctx, &corev1.SecretList{}, client.InNamespace(key.Namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("all Secrets: %v", err)
	}
}

// asGateway authenticates as its service account.
func asGateway(cluster *controllertest.Cluster) *rest.Config {
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + controllertest.OperatorNamespace + ":lighterage-gateway",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	return config
}

// serve runs the gateway as its service account until the test ends.
func serve(t *testing.T, cluster *controllertest.Cluster, arguments ...string) {
	t.Helper()
	settings, err := parse(arguments, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := newManager(ctx, asGateway(cluster), settings, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
