// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/peer"
	"github.com/lighterage/lighterage/controllers/pki"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// gateways answer what the test says.
type gateways struct {
	agentclient.PeerGateway
	asked []agentclient.Gateway
	err   error
}

func (g *gateways) Hello(_ context.Context, gateway agentclient.Gateway) (*wirev1.HelloResponse, error) {
	g.asked = append(g.asked, gateway)
	if g.err != nil {
		return nil, g.err
	}
	return &wirev1.HelloResponse{ProtocolVersion: wirev1.ProtocolVersion, Version: "v9", KnownAs: "us"}, nil
}

// bench is a reconciler over an API server in memory, with a clock.
type bench struct {
	t          *testing.T
	api        client.Client
	clock      *clocktesting.FakePassiveClock
	gateways   *gateways
	reconciler *peer.Reconciler
}

func newBench(t *testing.T, peers ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, clock: clocktesting.NewFakePassiveClock(start), gateways: &gateways{}}
	b.api = indextest.In(
		fake.NewClientBuilder().WithScheme(scheme), &v1alpha1.Transfer{}, &v1alpha1.Queue{}, &v1alpha1.Delivery{},
	).WithObjects(peers...).WithStatusSubresource(&v1alpha1.Peer{}).Build()
	b.reconciler = peer.NewReconciler(b.api, peer.Options{Gateways: b.gateways, Clock: b.clock})
	return b
}

// reconcile returns the Peer after it, and the pause.
func (b *bench) reconcile(name string) (*v1alpha1.Peer, time.Duration) {
	b.t.Helper()
	result, err := b.reconciler.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	if err != nil {
		b.t.Fatal(err)
	}
	var got v1alpha1.Peer
	if err := b.api.Get(context.Background(), client.ObjectKey{Name: name}, &got); err != nil {
		b.t.Fatal(err)
	}
	return &got, result.RequeueAfter
}

func (b *bench) want(got *v1alpha1.Peer, conditionType, reason string, words ...string) {
	b.t.Helper()
	for _, other := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if meta.IsStatusConditionTrue(got.Status.Conditions, other) != (other == conditionType) {
			b.t.Errorf("%s is %+v", other, meta.FindStatusCondition(got.Status.Conditions, other))
		}
	}
	condition := meta.FindStatusCondition(got.Status.Conditions, conditionType)
	if condition.Reason != reason {
		b.t.Errorf("reason %s, want %s", condition.Reason, reason)
	}
	for _, word := range words {
		if !strings.Contains(condition.Message, word) {
			b.t.Errorf("%q is not in: %s", word, condition.Message)
		}
	}
}

func newCA(t *testing.T, cluster string, at time.Time) *pki.CA {
	t.Helper()
	ca, _, err := pki.NewCA(cluster, at)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func peerOf(name, endpoint string, bundles ...[]byte) *v1alpha1.Peer {
	p := &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1alpha1.PeerSpec{Endpoint: endpoint},
	}
	for _, bundle := range bundles {
		p.Spec.CABundle = append(p.Spec.CABundle, bundle...)
	}
	return p
}

const endpoint = "gateway.west.example:8443"

func TestReachable(t *testing.T) {
	ca := newCA(t, "west", start)
	b := newBench(t, peerOf("west", endpoint, ca.CertificatePEM))
	got, pause := b.reconcile("west")
	b.want(got, v1alpha1.ConditionReady, v1alpha1.ReasonReachable, "us")
	if got.Status.KnownAs != "us" || got.Status.Version != "v9" || got.Status.ObservedGeneration != 1 {
		t.Errorf("status %+v", got.Status)
	}
	if want := []string{pki.Fingerprint(ca.Certificate)}; len(got.Status.CAFingerprints) != 1 ||
		got.Status.CAFingerprints[0] != want[0] {
		t.Errorf("fingerprints %v, want %v", got.Status.CAFingerprints, want)
	}
	if !got.Status.CAExpirationTime.Time.Equal(ca.Certificate.NotAfter) {
		t.Errorf("expires %v, want %v", got.Status.CAExpirationTime, ca.Certificate.NotAfter)
	}
	if pause != time.Minute {
		t.Errorf("asked again after %s", pause)
	}
	if len(b.gateways.asked) != 1 || b.gateways.asked[0].Endpoint != endpoint {
		t.Errorf("asked %v", b.gateways.asked)
	}
	b.clock.SetTime(start.Add(time.Hour))
	if again, _ := b.reconcile("west"); again.ResourceVersion != got.ResourceVersion {
		t.Error("it was written without a change")
	}
	b.clock.SetTime(ca.Certificate.NotAfter.Add(-24 * time.Hour))
	got, _ = b.reconcile("west")
	b.want(got, v1alpha1.ConditionReady, v1alpha1.ReasonReachable, "expires on", "next one beside it")
}

func TestNotReachable(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		condition string
		reason    string
	}{
		"no answer": {
			fmt.Errorf("%w: check spec.endpoint", agentclient.ErrUnreachable), v1alpha1.ConditionReconciling,
			v1alpha1.ReasonPeerUnreachable,
		},
		"another error": {
			errors.New("taking the manager's certificate: check spec.endpoint"), v1alpha1.ConditionReconciling,
			v1alpha1.ReasonPeerUnreachable,
		},
		"untrusted": {
			fmt.Errorf("%w: check spec.endpoint", agentclient.ErrUntrusted), v1alpha1.ConditionStalled,
			v1alpha1.ReasonPeerUntrusted,
		},
		"another version": {
			fmt.Errorf("%w: check spec.endpoint", agentclient.ErrIncompatible), v1alpha1.ConditionStalled,
			v1alpha1.ReasonPeerIncompatible,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, peerOf("west", endpoint, newCA(t, "west", start).CertificatePEM))
			b.reconcile("west")
			b.gateways.err = c.err
			got, _ := b.reconcile("west")
			b.want(got, c.condition, c.reason, "check spec.endpoint")
			if got.Status.KnownAs != "us" {
				t.Error("what was known of it is gone")
			}
			for _, step := range []struct{ after, want time.Duration }{
				{0, 2 * time.Second}, {2 * time.Second, 2 * time.Second}, {30 * time.Second, 30 * time.Second},
				{time.Hour, 2 * time.Minute},
			} {
				b.clock.SetTime(start.Add(step.after))
				var pause time.Duration
				if got, pause = b.reconcile("west"); pause != step.want {
					t.Errorf("%s after it went away it is asked again after %s, want %s", step.after, pause, step.want)
				}
			}
			got.Generation, got.Spec.Endpoint = 2, "elsewhere.example:1"
			if err := b.api.Update(context.Background(), got); err != nil {
				t.Fatal(err)
			}
			if got, _ = b.reconcile("west"); got.Status.KnownAs != "" || got.Status.Version != "" {
				t.Errorf("of another endpoint it says %+v", got.Status)
			}
			b.gateways.err = nil
			got, pause := b.reconcile("west")
			b.want(got, v1alpha1.ConditionReady, v1alpha1.ReasonReachable)
			if pause != time.Minute {
				t.Errorf("asked again after %s", pause)
			}
		})
	}
}

func TestBundles(t *testing.T) {
	west, old := newCA(t, "west", start), newCA(t, "old", start.Add(-pki.CALifetime-time.Hour))
	leaf, err := west.Issue(
		pki.Template{Identity: pki.Identity{Cluster: "west", Path: pki.GatewayPath}, Lifetime: time.Hour}, start,
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peer      *v1alpha1.Peer
		condition string
		reason    string
		words     string
		prints    int
	}{
		"not PEM": {
			peerOf("p", endpoint, []byte("hello")), v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidCABundle, "lighterage-ca",
			0,
		},
		"a leaf": {
			peerOf("p", endpoint, leaf.CertificatePEM), v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidCABundle, "not a CA", 0,
		},
		"a key": {
			peerOf("p", endpoint, west.CertificatePEM, leaf.KeyPEM), v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidCABundle,
			"PRIVATE KEY", 0,
		},
		"expired": {
			peerOf("p", endpoint, old.CertificatePEM), v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidCABundle, "expired", 1,
		},
		"expired and next": {
			peerOf("p", endpoint, old.CertificatePEM, west.CertificatePEM), v1alpha1.ConditionReady, v1alpha1.ReasonReachable,
			"", 2,
		},
		"twice the same": {
			peerOf("p", endpoint, west.CertificatePEM, west.CertificatePEM), v1alpha1.ConditionReady, v1alpha1.ReasonReachable,
			"", 1,
		},
		"without an endpoint": {
			peerOf("p", "", west.CertificatePEM), v1alpha1.ConditionReady, v1alpha1.ReasonReceiveOnly, "spec.endpoint", 1,
		},
		"no endpoint, not PEM": {
			peerOf("p", "", []byte("hello")), v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidCABundle, "", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.peer)
			got, _ := b.reconcile("p")
			b.want(got, c.condition, c.reason, c.words)
			if len(got.Status.CAFingerprints) != c.prints {
				t.Errorf("fingerprints %v", got.Status.CAFingerprints)
			}
			if c.condition == v1alpha1.ConditionStalled && len(b.gateways.asked) > 0 {
				t.Error("a gateway was asked with a CA that cannot be used")
			}
		})
	}
}

func TestDuplicates(t *testing.T) {
	shared, own := newCA(t, "shared", start), newCA(t, "own", start)
	b := newBench(t,
		peerOf("a", endpoint, shared.CertificatePEM), peerOf("b", "", own.CertificatePEM, shared.CertificatePEM),
		peerOf("broken", endpoint, []byte("hello")), peerOf("c", endpoint, newCA(t, "c", start).CertificatePEM))
	got, _ := b.reconcile("a")
	b.want(got, v1alpha1.ConditionStalled, v1alpha1.ReasonDuplicateCA, "Peer b holds")
	second, _ := b.reconcile("b")
	b.want(second, v1alpha1.ConditionStalled, v1alpha1.ReasonDuplicateCA, "Peer a holds")
	third, _ := b.reconcile("c")
	b.want(third, v1alpha1.ConditionReady, v1alpha1.ReasonReachable)

	second.Spec.CABundle = own.CertificatePEM
	if err := b.api.Update(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	got, _ = b.reconcile("a")
	b.want(got, v1alpha1.ConditionReady, v1alpha1.ReasonReachable)
}

// TestUsage: what is sent to a Peer and received from it is shown, and written again only when it changed.
func TestUsage(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "bank", Name: name} }
	used := &v1alpha1.UsageStatus{WireBytes: 5, Receive: &v1alpha1.CPUUsage{ProcessSeconds: "2"}}
	sends := &v1alpha1.Transfer{ObjectMeta: named("a")}
	sends.Status.Run = &v1alpha1.RunStatus{Usage: used}
	sends.Spec.Destination.Peer = "west"
	channel := &v1alpha1.Queue{ObjectMeta: named("q")}
	channel.Spec.Channel = &v1alpha1.QueueChannel{Peer: "west"}
	channel.Status.Usage = &v1alpha1.UsageStatus{WireBytes: 9, ChannelBytes: 4} // the rest is with clients
	receives := &v1alpha1.Delivery{
		ObjectMeta: named("d"), Spec: v1alpha1.DeliverySpec{Peer: "west"}, Status: v1alpha1.DeliveryStatus{Usage: used},
	}
	west := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
	local := &v1alpha1.Delivery{ObjectMeta: named("local"), Status: v1alpha1.DeliveryStatus{Usage: used}}
	b := newBench(t, west, sends, channel, receives, local)
	first, _ := b.reconcile("west")
	sent, received := first.Status.Sent, first.Status.Received
	if sent == nil || len(sent.Objects) != 2 || sent.WireBytes != 9 || sent.CPUSeconds != "" {
		t.Errorf("sent: %+v", sent)
	}
	if received == nil || len(received.Objects) != 1 || received.WireBytes != 5 || received.CPUSeconds != "2" {
		t.Errorf("received: %+v", received)
	}
	b.clock.SetTime(start.Add(2 * time.Minute))
	if second, _ := b.reconcile("west"); second.ResourceVersion != first.ResourceVersion {
		t.Error("it was written without a change")
	}
}
