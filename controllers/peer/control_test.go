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

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/peer"
)

const own = "own.example:8445"

// controlled has the gateways of the cluster tell a state.
func (b *bench) controlled(state *reverse.State, err *error) {
	b.reconciler = peer.NewReconciler(b.api, peer.Options{
		Gateways: b.gateways, Clock: b.clock, Tunnels: own,
		Controls: func(context.Context, string) (reverse.State, error) { return *state, *err },
	})
}

func connectedPeer(name, endpoint string, connection v1alpha1.PeerConnection, bundle []byte) *v1alpha1.Peer {
	p := peerOf(name, endpoint, bundle)
	p.Spec.Connection = connection
	return p
}

// A Peer that is listened to is asked through this cluster's own gateways, and says whether it is connected.
func TestListen(t *testing.T) {
	b := newBench(t, connectedPeer("west", "", v1alpha1.PeerListen, newCA(t, "west", start).CertificatePEM))
	var state reverse.State
	var err error
	b.controlled(&state, &err)
	b.gateways.err = fmt.Errorf("%w: %w", agentclient.ErrUnreachable, &tunnel.Error{Reason: tunnel.NotConnected})
	got, pause := b.reconcile("west")
	b.want(got, v1alpha1.ConditionReconciling, v1alpha1.ReasonNotConnected)
	wantConnected(t, got, metav1.ConditionFalse, v1alpha1.ReasonNotConnected, "connection: Dial")
	if asked := b.gateways.asked[0]; asked.Endpoint != own || asked.Tunnel != tunnel.Target("west") {
		t.Errorf("asked %+v", asked)
	}
	if pause > 10*time.Second {
		t.Errorf("asked again after %s", pause)
	}

	b.gateways.err, state = nil, reverse.State{Connections: 3, Since: start.Add(time.Millisecond)}
	got, pause = b.reconcile("west")
	b.want(got, v1alpha1.ConditionReady, v1alpha1.ReasonReachable)
	wantConnected(t, got, metav1.ConditionTrue, v1alpha1.ReasonControlConnected)
	if c := got.Status.Control; c.Connections != 3 || !c.Since.Time.Equal(start) || c.LastError != "" ||
		pause != time.Minute {
		t.Errorf("%+v, asked again after %s", c, pause)
	}
	if again, _ := b.reconcile("west"); again.ResourceVersion != got.ResourceVersion {
		t.Error("it was written without a change")
	}

	// While the gateways say nothing, what is known stays.
	err = errors.New("no such host")
	got, _ = b.reconcile("west")
	wantConnected(t, got, metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "no such host")
	if got.Status.Control.Connections != 3 {
		t.Errorf("%+v", got.Status.Control)
	}

	// Dialled like any other, it has nothing of the kind.
	got.Spec.Connection, got.Spec.Endpoint = "", endpoint
	if err := b.api.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	got, _ = b.reconcile("west")
	if got.Status.Control != nil || meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionConnected) != nil {
		t.Errorf("%+v", got.Status)
	}
}

func wantConnected(t *testing.T, p *v1alpha1.Peer, status metav1.ConditionStatus, reason string, words ...string) {
	t.Helper()
	got := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionConnected)
	if got == nil || got.Status != status || got.Reason != reason {
		t.Fatalf("%+v", got)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			t.Errorf("%q is not in: %s", word, got.Message)
		}
	}
}

func TestDial(t *testing.T) {
	b := newBench(t, connectedPeer("west", endpoint, v1alpha1.PeerDial, newCA(t, "west", start).CertificatePEM))
	var state reverse.State
	var err error
	b.controlled(&state, &err)
	got, pause := b.reconcile("west")
	b.want(got, v1alpha1.ConditionReady, v1alpha1.ReasonReachable)
	wantConnected(t, got, metav1.ConditionFalse, v1alpha1.ReasonConnecting)
	if b.gateways.asked[0].Endpoint != endpoint || pause > 10*time.Second {
		t.Errorf("asked %+v, again after %s", b.gateways.asked[0], pause)
	}
	for reason, want := range map[tunnel.Reason]string{
		tunnel.ProxyAuthentication: v1alpha1.ReasonProxyAuthenticationFailed,
		tunnel.ProxyRefused:        v1alpha1.ReasonProxyRefused,
		tunnel.ProxyUnreachable:    v1alpha1.ReasonProxyUnreachable,
		tunnel.Unreachable:         v1alpha1.ReasonNotConnected,
		"":                         v1alpha1.ReasonNotConnected,
	} {
		state = reverse.State{Error: "it does not work", Reason: reason, ErrorTime: start}
		got, _ = b.reconcile("west")
		wantConnected(t, got, metav1.ConditionFalse, want, "it does not work")
		if got.Status.Control.LastError != "it does not work" || got.Status.Control.LastErrorTime == nil {
			t.Errorf("%+v", got.Status.Control)
		}
		// It is tried again, and nothing is new.
		state.ErrorTime = start.Add(time.Hour)
		if again, _ := b.reconcile("west"); again.ResourceVersion != got.ResourceVersion {
			t.Error("it was written without a change")
		}
	}
	state = reverse.State{Error: "it is another error", ErrorTime: start.Add(time.Hour)}
	got, _ = b.reconcile("west")
	if c := got.Status.Control; c.LastError != state.Error || !c.LastErrorTime.Time.Equal(state.ErrorTime) {
		t.Errorf("%+v", c)
	}
}

// What a proxy answers is a reason of its own.
func TestProxy(t *testing.T) {
	p := peerOf("west", endpoint, newCA(t, "west", start).CertificatePEM)
	p.Spec.Proxy = &v1alpha1.PeerProxy{URL: "http://proxy.example:3128"}
	b := newBench(t, p)
	b.controlled(nil, nil)
	for reason, want := range map[tunnel.Reason]string{
		tunnel.ProxyAuthentication: v1alpha1.ReasonProxyAuthenticationFailed,
		tunnel.ProxyRefused:        v1alpha1.ReasonProxyRefused,
		tunnel.ProxyUnreachable:    v1alpha1.ReasonProxyUnreachable,
		tunnel.Unreachable:         v1alpha1.ReasonPeerUnreachable,
	} {
		b.gateways.err = fmt.Errorf("%w: %w", agentclient.ErrUnreachable, &tunnel.Error{Reason: reason})
		got, _ := b.reconcile("west")
		b.want(got, v1alpha1.ConditionReconciling, want)
		if asked := b.gateways.asked[0]; asked.Endpoint != own || asked.Tunnel != tunnel.Target("west") {
			t.Errorf("asked %+v", asked)
		}
	}
}
