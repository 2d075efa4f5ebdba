// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && lifecycle

package e2e_test

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestLifecycleRotation gives both clusters another CA in the middle of traffic and of a channel between them, and then
// takes the old ones away. Nothing is lost, no request fails, and channels, Queues and Transfers connect by the new
// ones. Clients of Queues trust the new CA before, as docs/operations/certificates.md asks.
func TestLifecycleRotation(t *testing.T) {
	_, current := releases(t)
	west.install(t, current)
	east.install(t, current)
	toEast, toWest := east.NewCA(t), west.NewCA(t)
	f := beginTraffic(t, toEast.CertificatePEM)

	to, getter := west.newQueue(t, f.namespace, "invoices", func(s *v1alpha1.QueueSpec) {
		s.Receiving.Accept = v1alpha1.QueueAcceptAny
	})
	from, putter := east.newQueue(t, f.namespace, "outgoing", func(s *v1alpha1.QueueSpec) {
		s.Channel = &v1alpha1.QueueChannel{
			Peer: "west", Queue: to.Name, Codings: []v1alpha1.ChannelCoding{v1alpha1.ChannelCodingZstd},
		}
	})
	grant := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "outgoing-from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{f.namespace}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedQueue, Name: to.Name}},
		},
	}
	if err := west.Create(context.Background(), grant); err != nil {
		t.Fatal(err)
	}
	messages := orders(40)
	pass := func(some [][]byte) {
		t.Helper()
		putter.connect(t)
		putter.putNext(t, some)
		getter.connect(t)
		getter.get(t, some)
	}
	east.waitForQueue(t, from, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	west.waitForQueue(t, to, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	pass(messages[:20])

	pair.RotateCAs(t, toEast, toWest)
	west.trustOnly(t, "east", toEast.CertificatePEM)
	east.trustOnly(t, "west", toWest.CertificatePEM)
	putter.roots, getter.roots = pool(toEast.CertificatePEM), pool(toWest.CertificatePEM)
	for _, c := range []*queueClient{putter, getter} {
		eventually(t, 6*time.Minute, "Queue "+c.queue.Name+
			" to serve with a certificate of the new CA", func() (bool, string) {
			conn, err := c.dial(t, c.roots, c.token)
			if err != nil {
				return false, err.Error()
			}
			conn.Close()
			return true, ""
		})
	}
	for c, queue := range map[*cluster]*v1alpha1.Queue{east: from, west: to} {
		member := c.member(t, queue)
		c.KillPod(t, member)
		c.waitForNext(t, member)
	}
	pass(messages[20:])
	f.goesOn("with the new CAs")
	exchange(t, "with the new CAs")
	f.finish()
}

func pool(certificates []byte) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificates)
	return roots
}

// trustOnly has a Peer trust one CA, and waits until it is Ready.
func (c *cluster) trustOnly(t *testing.T, peer string, ca []byte) {
	t.Helper()
	object := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: peer}}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	before := object.DeepCopy()
	object.Spec.CABundle = ca
	if err := c.Patch(context.Background(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	c.must(t, "wait", "peer/"+peer, "--for=condition=Ready", "--timeout=6m")
}
