// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// refusedWith returns the message of the Failure in a gRPC error.
func refusedWith(t *testing.T, err error, reason wirev1.FailureReason) string {
	t.Helper()
	for _, detail := range status.Convert(err).Details() {
		if failure, ok := detail.(*wirev1.Failure); ok && failure.GetReason() == reason {
			return failure.GetMessage()
		}
	}
	t.Fatalf("a Failure with %v was expected: %v", reason, err)
	return ""
}

func TestTrust(t *testing.T) {
	east, stranger, shared := newCA(t, "east"), newCA(t, "stranger"), newCA(t, "shared")
	w := newWest(t, nil, peerOf("east", east), peerOf("first", shared), peerOf("second", shared),
		&v1alpha1.Peer{ObjectMeta: peerOf("broken", east).ObjectMeta, Spec: v1alpha1.PeerSpec{CABundle: []byte("not PEM")}},
		grantOf("vault", "east", "bank", "ledger-copy"))
	const untrusted = wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED
	now := time.Now()
	for name, c := range map[string]struct {
		certificate tls.Certificate
		words       []string
	}{
		"unknown CA": {
			issue(t, stranger, sender("east"), now), []string{"no Peer", "caBundle", "lighterage-ca", "CA of stranger"},
		},
		"ambiguous CA":     {issue(t, shared, sender("east"), now), []string{"\"first\" and \"second\"", "remove the CA"}},
		"expired":          {issue(t, east, sender("east"), now.Add(-3*time.Hour)), []string{"valid from", "clocks"}},
		"not yet valid":    {issue(t, east, sender("east"), now.Add(30*time.Hour)), []string{"valid from", "clocks"}},
		"not for a run":    {issue(t, east, manager("east"), now), []string{"/manager", "only a Transfer"}},
		"of another agent": {issue(t, east, pki.DeliveryIdentity("east", "bank", "x"), now), []string{"only a Transfer"}},
	} {
		t.Run(name, func(t *testing.T) {
			message := open(t, w.dial(c.certificate), ledger("7f3ca", 1)).refused(untrusted)
			for _, word := range c.words {
				if !strings.Contains(message, word) {
					t.Errorf("%q is not in the message: %s", word, message)
				}
			}
		})
	}
	for name, certificate := range map[string]tls.Certificate{
		"stranger":  issue(t, stranger, manager("east"), now),
		"ambiguous": issue(t, shared, manager("east"), now),
		"node":      issue(t, east, pki.Identity{Cluster: "east", Path: pki.NodeAgentPath}, now),
	} {
		_, err := w.dial(certificate).Hello(
			context.Background(), &wirev1.HelloRequest{ProtocolVersion: wirev1.ProtocolVersion},
		)
		refusedWith(t, err, untrusted)
		_, err = w.dial(certificate).Withdraw(
			context.Background(), &wirev1.WithdrawRequest{Namespace: "bank", Name: "ledger"},
		)
		refusedWith(t, err, untrusted)
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(w.deliveries()) > 0 {
		t.Error("somebody was admitted")
	}
}

// A Peer that is made, fixed or deleted counts from the next request on, connections that are open included.
func TestTrustFollowsPeers(t *testing.T) {
	east, next := newCA(t, "east"), newCA(t, "east")
	w := newWest(t, nil)
	c := w.dial(issue(t, east, manager("east"), time.Now()))
	hello := func() error {
		_, err := c.Hello(context.Background(), &wirev1.HelloRequest{ProtocolVersion: wirev1.ProtocolVersion})
		return err
	}
	if err := hello(); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("before there is a Peer: %v", err)
	}
	peer := peerOf("east", east)
	if err := w.api.Create(context.Background(), peer); err != nil {
		t.Fatal(err)
	}
	if err := hello(); err != nil {
		t.Fatalf("with a Peer: %v", err)
	}
	peer.Spec.CABundle = next.CertificatePEM
	if err := w.api.Update(context.Background(), peer); err != nil {
		t.Fatal(err)
	}
	if err := hello(); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("with another CA in the Peer: %v", err)
	}
	peer.Spec.CABundle = append(append([]byte{}, next.CertificatePEM...), east.CertificatePEM...)
	if err := w.api.Update(context.Background(), peer); err != nil {
		t.Fatal(err)
	}
	if err := hello(); err != nil {
		t.Fatalf("with both CAs in the Peer: %v", err)
	}
}

func TestNoCertificate(t *testing.T) {
	w := newWest(t, nil)
	conn, err := tls.Dial(
		"tcp", w.address,
		&tls.Config{ServerName: pki.GatewayServerName, InsecureSkipVerify: true, NextProtos: []string{"h2"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a caller without a certificate got %v", err)
	}
}

// H2: a chain that is costly to verify ends the handshake, before anything of it is verified.
func TestLongChain(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east))
	certificate := issue(t, east, manager("east"), time.Now())
	hello := func(certificates int) error {
		long := certificate
		for len(long.Certificate) < certificates {
			long.Certificate = append(long.Certificate[:len(long.Certificate):len(long.Certificate)], east.Certificate.Raw)
		}
		_, err := w.dial(long).Hello(context.Background(), &wirev1.HelloRequest{})
		return err
	}
	if err := hello(3); err != nil {
		t.Errorf("three certificates: %v", err)
	}
	for _, certificates := range []int{4, 16} {
		if err := hello(certificates); status.Code(err) != codes.Unavailable {
			t.Errorf("%d certificates: %v", certificates, err)
		}
	}
}

func TestHello(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("from-the-east", east))
	for _, identity := range []pki.Identity{manager("east"), sender("elsewhere")} {
		// A caller of another version learns ours.
		answer, err := w.dial(issue(t, east, identity, time.Now())).Hello(
			context.Background(), &wirev1.HelloRequest{ProtocolVersion: 99},
		)
		if err != nil {
			t.Fatal(err)
		}
		if answer.KnownAs != "from-the-east" || answer.ProtocolVersion != wirev1.ProtocolVersion ||
			answer.Version != wirev1.Version {
			t.Errorf("answer %v", answer)
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	c := w.dial(issue(t, east, sender("east"), time.Now()))
	const invalid, incompatible = wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE
	for name, x := range map[string]struct {
		change func(*wirev1.OpenRequest)
		reason wirev1.FailureReason
	}{
		"newer protocol":    {func(r *wirev1.OpenRequest) { r.ProtocolVersion++ }, incompatible},
		"no protocol":       {func(r *wirev1.OpenRequest) { r.ProtocolVersion = 0 }, incompatible},
		"no run":            {func(r *wirev1.OpenRequest) { r.RunId = "" }, invalid},
		"long run":          {func(r *wirev1.OpenRequest) { r.RunId = "1234567" }, invalid},
		"run with a slash":  {func(r *wirev1.OpenRequest) { r.RunId = "a/b" }, invalid},
		"attempt 0":         {func(r *wirev1.OpenRequest) { r.Attempt = 0 }, invalid},
		"attempt 4 billion": {func(r *wirev1.OpenRequest) { r.Attempt = 1<<32 - 1 }, invalid},
		"no destination":    {func(r *wirev1.OpenRequest) { r.Destination = nil }, invalid},
		"namespace":         {func(r *wirev1.OpenRequest) { r.Destination.Namespace = "../vault" }, invalid},
		"claim":             {func(r *wirev1.OpenRequest) { r.Destination.ClaimName = "Claim_1" }, invalid},
		"path upwards":      {func(r *wirev1.OpenRequest) { r.Destination.Path = "/a/../../b" }, invalid},
		"relative upwards":  {func(r *wirev1.OpenRequest) { r.Destination.Path = "../a" }, invalid},
		"path with NUL":     {func(r *wirev1.OpenRequest) { r.Destination.Path = "/a\x00b" }, invalid},
		"template of a class": {func(r *wirev1.OpenRequest) {
			r.Template = &wirev1.ClaimTemplate{Size: 1, StorageClassName: "Fast/1"}
		}, invalid},
		"template of nothing": {func(r *wirev1.OpenRequest) { r.Template = &wirev1.ClaimTemplate{} }, invalid},
		"template of more than all": {func(r *wirev1.OpenRequest) {
			r.Template = &wirev1.ClaimTemplate{Size: 1<<60 + 1}
		}, invalid},
		"template of a mode": {func(r *wirev1.OpenRequest) {
			r.Template = &wirev1.ClaimTemplate{Size: 1, AccessModes: []string{"ReadOnlyMany"}}
		}, invalid},
		"template of many modes": {func(r *wirev1.OpenRequest) {
			r.Template = &wirev1.ClaimTemplate{Size: 1, AccessModes: make([]string, 1000)}
		}, invalid},
		"snapshots of nothing": {func(r *wirev1.OpenRequest) {
			r.Snapshot = &wirev1.SnapshotRequest{TransferUid: "uid"}
		}, invalid},
		"snapshots of nobody": {func(r *wirev1.OpenRequest) { r.Snapshot = &wirev1.SnapshotRequest{Last: 1} }, invalid},
		"snapshots of a class": {func(r *wirev1.OpenRequest) {
			r.Snapshot = &wirev1.SnapshotRequest{TransferUid: "uid", Last: 1, VolumeSnapshotClassName: "Fast/1"}
		}, invalid},
		"101 snapshots": {func(r *wirev1.OpenRequest) {
			r.Snapshot = &wirev1.SnapshotRequest{TransferUid: "uid", Last: 1, Daily: 100}
		}, invalid},
		"4 billion snapshots": {func(r *wirev1.OpenRequest) {
			r.Snapshot = &wirev1.SnapshotRequest{TransferUid: "uid", Last: 1<<32 - 1, Daily: 2}
		}, invalid},
		"path of 5000 bytes": {func(r *wirev1.OpenRequest) { r.Destination.Path = "/" + strings.Repeat("a", 5000) }, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			request := ledger("7f3ca", 1)
			x.change(request)
			open(t, c, request).refused(x.reason)
		})
	}
	huge := ledger("7f3ca", 1)
	huge.Destination.Path = "/" + strings.Repeat("a", 1<<20)
	if _, err := open(t, c, huge).Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request of 1 MiB: %v", err)
	}
	if len(w.deliveries()) > 0 {
		t.Error("a Delivery was made")
	}
}

func TestWithdraw(t *testing.T) {
	east, north := newCA(t, "east"), newCA(t, "north")
	w := newWest(t, nil, peerOf("east", east), peerOf("north", north),
		grantOf("vault", "east", "bank", "ledger-copy"), grantOf("vault", "north", "bank", "ledger-copy"))
	now := time.Now()
	open(t, w.dial(issue(t, east, sender("east"), now)), ledger("7f3ca", 1)).pending()
	open(t, w.dial(issue(t, north, sender("north"), now)), ledger("7f3ca", 1)).pending()
	withdraw := func(ca *pki.CA, identity pki.Identity, namespace, name string) error {
		_, err := w.dial(issue(t, ca, identity, now)).Withdraw(
			context.Background(), &wirev1.WithdrawRequest{Namespace: namespace, Name: name},
		)
		return err
	}
	going := func() (names []string) {
		for _, delivery := range w.deliveries() {
			if !delivery.DeletionTimestamp.IsZero() {
				names = append(names, delivery.Spec.Peer)
			}
		}
		return names
	}
	other := pki.TransferIdentity("east", "bank", "other")
	refusedWith(t, withdraw(east, other, "bank", "ledger"), wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED)
	refusedWith(t, withdraw(east, manager("east"), "bank", "../ledger"), wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
	for _, name := range []string{"nothing", "ledge"} {
		if err := withdraw(east, manager("east"), "bank", name); err != nil {
			t.Errorf("withdrawing what is not there: %v", err)
		}
	}
	if len(going()) > 0 {
		t.Fatalf("Deliveries of %v were deleted", going())
	}
	if err := withdraw(east, sender("east"), "bank", "ledger"); err != nil {
		t.Fatal(err)
	}
	if names := going(); len(names) != 1 || names[0] != "east" {
		t.Fatalf("Deliveries of %v were deleted, not that of east", names)
	}
	for range 2 { // idempotent
		if err := withdraw(north, manager("north"), "bank", "ledger"); err != nil {
			t.Fatal(err)
		}
	}
	if len(going()) != 2 {
		t.Errorf("Deliveries of %v were deleted", going())
	}
	w.release(ledgerKey("7f3ca", 1))
	if err := withdraw(east, manager("east"), "bank", "ledger"); err != nil {
		t.Fatal(err)
	}
}
