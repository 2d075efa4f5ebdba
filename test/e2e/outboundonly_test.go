// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestOutboundOnly sends both ways while west has no address of east: the gateway of east dials everything. It changes
// the Peers, so nothing else runs beside it.
func TestOutboundOnly(t *testing.T) {
	ctx := context.Background()
	east.connection(t, "west", func(spec *v1alpha1.PeerSpec) { spec.Connection = v1alpha1.PeerDial })
	west.connection(t, "east", func(spec *v1alpha1.PeerSpec) {
		spec.Connection, spec.Endpoint = v1alpha1.PeerListen, ""
	})
	namespace := newNamespace(t)
	for _, way := range []struct {
		from, to *cluster
		peer     string
	}{{west, east, "east"}, {east, west, "west"}} {
		way.from.connected(t, way.peer)
		source, destination := "to-"+way.peer, "from-"+way.from.name
		way.from.claim(t, namespace, source, "", "100Mi")
		way.to.claim(t, namespace, destination, "", "100Mi")
		way.from.sh(t, namespace, source, "echo hello > /data/greeting; head -c 3000000 /dev/urandom > /data/random")
		grant := &v1alpha1.PeerGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-" + way.from.name},
			Spec: v1alpha1.PeerGrantSpec{
				From: []v1alpha1.PeerGrantFrom{{Peer: way.from.name, Namespaces: []string{namespace}}},
				To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: destination}},
			},
		}
		if err := way.to.Create(ctx, grant); err != nil {
			t.Fatal(err)
		}
		transfer := newTransfer(namespace, "to-"+way.peer)
		transfer.Spec.Source.PersistentVolumeClaim.ClaimName = source
		transfer.Spec.Destination.Peer = way.peer
		transfer.Spec.Destination.PersistentVolumeClaim.ClaimName = destination
		if err := way.from.Create(ctx, transfer); err != nil {
			t.Fatal(err)
		}
		way.from.WaitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
		sum := "cd /data && sha256sum greeting random"
		if want, got := way.from.sh(t, namespace, source, sum), way.to.sh(t, namespace, destination, sum); want != got {
			t.Errorf("to %s: %s in place of %s", way.peer, got, want)
		}
	}
}

// connection changes a Peer until the test ends.
func (c *cluster) connection(t *testing.T, name string, change func(*v1alpha1.PeerSpec)) {
	t.Helper()
	before := v1alpha1.PeerSpec{}
	update := func(ctx context.Context, change func(*v1alpha1.PeerSpec)) error {
		peer := &v1alpha1.Peer{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, peer); err != nil {
			return err
		}
		patch := client.MergeFrom(peer.DeepCopy())
		before = *peer.Spec.DeepCopy()
		change(&peer.Spec)
		return c.Patch(ctx, peer, patch)
	}
	if err := update(context.Background(), change); err != nil {
		t.Fatalf("%s: change Peer %s: %v", c.name, name, err)
	}
	restored := before
	t.Cleanup(func() {
		if err := update(context.Background(), func(spec *v1alpha1.PeerSpec) {
			spec.Connection, spec.Endpoint = restored.Connection, restored.Endpoint
		}); err != nil {
			t.Errorf("%s: restore Peer %s: %v", c.name, name, err)
		}
		c.peer(t, name, v1alpha1.ConditionReady)
	})
}

// connected waits until a Peer has control connections and answers.
func (c *cluster) connected(t *testing.T, name string) {
	t.Helper()
	c.peer(t, name, v1alpha1.ConditionConnected, v1alpha1.ConditionReady)
}

func (c *cluster) peer(t *testing.T, name string, conditions ...string) {
	t.Helper()
	eventually(t, 2*time.Minute, "Peer "+name+" of "+c.name, func() (bool, string) {
		peer := &v1alpha1.Peer{}
		if err := c.Get(context.Background(), client.ObjectKey{Name: name}, peer); err != nil {
			return false, err.Error()
		}
		ready := peer.Status.ObservedGeneration == peer.Generation
		for _, condition := range conditions {
			ready = ready && meta.IsStatusConditionTrue(peer.Status.Conditions, condition)
		}
		return ready, fmt.Sprintf("%+v", peer.Status)
	})
}
