// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// TestCorruption flips a bit of what passes between the clusters, first on its way to the receiver, then on its way
// back: TLS refuses it, and the next attempt goes on from what is safe.
func TestCorruption(t *testing.T) {
	var peer v1alpha1.Peer
	if err := east.Get(context.Background(), client.ObjectKey{Name: "west"}, &peer); err != nil {
		t.Fatal(err)
	}
	way := newFlippingProxy(t, peer.Spec.Endpoint)
	setEndpoint(t, way.address)
	t.Cleanup(func() { setEndpoint(t, peer.Spec.Endpoint) })

	r := start(t, 160<<20, options{limit: "8Mi"})
	r.underway(t, 10)
	way.flip(t, &way.forth)
	wantReason(t, r.ended(t, 1), v1alpha1.ReasonConnectionLost)

	r.underway(t, 40)
	way.flip(t, &way.back)
	wantReason(t, r.ended(t, 2), v1alpha1.ReasonConnectionLost)

	r.complete(t, 3)
}

// setEndpoint has east reach west's gateway by another address.
func setEndpoint(t *testing.T, endpoint string) {
	t.Helper()
	var peer v1alpha1.Peer
	if err := east.Get(context.Background(), client.ObjectKey{Name: "west"}, &peer); err != nil {
		t.Fatal(err)
	}
	before := peer.DeepCopy()
	peer.Spec.Endpoint = endpoint
	if err := east.Patch(context.Background(), &peer, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	peersReady(t)
}

// peersReady waits until each cluster has asked the other's gateway, as its Peer is now, and was answered.
func peersReady(t *testing.T) {
	t.Helper()
	for _, side := range []struct{ cluster, other *clusters.Cluster }{{east, west}, {west, east}} {
		clusters.Eventually(t, patience, "peer "+side.other.Name+" of "+side.cluster.Name+
			" to be Ready", func() (bool, string) {
			var peer v1alpha1.Peer
			if err := side.cluster.Get(context.Background(), client.ObjectKey{Name: side.other.Name}, &peer); err != nil {
				return false, err.Error()
			}
			ready := meta.FindStatusCondition(peer.Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil {
				return false, "no condition"
			}
			return peer.Status.ObservedGeneration == peer.Generation && ready.Status == metav1.ConditionTrue, ready.Message
		})
	}
}

// flippingProxy passes connections on as they are, but for the bits that it is told to flip.
type flippingProxy struct {
	// address that all nodes reach.
	address string
	target  string
	// forth and back are how many bits are still to be flipped on the way to receiving agents and from there.
	forth, back atomic.Int32
}

// newFlippingProxy listens on the clusters' bridge until the test ends.
func newFlippingProxy(t *testing.T, target string) *flippingProxy {
	t.Helper()
	listener, err := net.Listen("tcp", hostAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &flippingProxy{address: listener.Addr().String(), target: target}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.pass(conn)
		}
	}()
	return p
}

// flip flips a bit and waits until that is done.
func (p *flippingProxy) flip(t *testing.T, way *atomic.Int32) {
	t.Helper()
	way.Store(1)
	clusters.Eventually(t, patience, "something to pass", func() (bool, string) {
		return way.Load() == 0, "nothing passes"
	})
}

func (p *flippingProxy) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	hello := make([]byte, 64<<10)
	n, err := from.Read(hello)
	if err != nil {
		return
	}
	if _, err := to.Write(hello[:n]); err != nil {
		return
	}
	// The name that the gateway goes by says which connections end at a receiving agent. The others are calls to the
	// gateway itself.
	forth, back := &p.forth, &p.back
	if !bytes.Contains(hello[:n], []byte(".receive.lighterage.internal")) {
		forth, back = new(atomic.Int32), new(atomic.Int32)
	}
	done := make(chan struct{}, 2)
	go func() { carry(to, from, forth); done <- struct{}{} }()
	go func() { carry(from, to, back); done <- struct{}{} }()
	<-done
}

// carry copies.
func carry(to io.Writer, from io.Reader, flips *atomic.Int32) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && flips.CompareAndSwap(1, 0) {
			buffer[n/2] ^= 0x10
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
