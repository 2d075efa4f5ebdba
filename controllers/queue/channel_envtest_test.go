// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// holds waits until the Secret of a queue is as a function wants it.
func holds(t *testing.T, q *v1alpha1.Queue, check func(*wirev1.QueueConfig, *corev1.Secret) bool) *wirev1.QueueConfig {
	t.Helper()
	s := set(t, q)
	var config *wirev1.QueueConfig
	controllertest.Eventually(t, func() error {
		var held *corev1.Secret
		if config, held = secret(t, s); !check(config, held) {
			return fmt.Errorf("the members are told %v", config)
		}
		return nil
	})
	return config
}

// TestChannel: a queue sends as soon as its Peer exists, follows a changed one, and says what its members say.
func TestChannel(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	name := "west-of-" + namespace
	q := create(t, namespace, func(s *v1alpha1.QueueSpec) {
		s.Channel = &v1alpha1.QueueChannel{Peer: name, Namespace: "vault", Queue: "invoices"}
	})
	if q.Spec.Channel.Batch.Messages != 500 || q.Spec.Channel.Batch.Delay == nil ||
		q.Spec.Receiving.Accept != v1alpha1.QueueAcceptNone {
		t.Errorf("defaults %+v, %+v", q.Spec.Channel.Batch, q.Spec.Receiving)
	}
	s := set(t, q)
	address := member(t, s)
	alone := holds(t, q, func(c *wirev1.QueueConfig, held *corev1.Secret) bool {
		return c.GetChannel() != nil && c.GetChannel().GetGatewayEndpoint() == "" && held.Data["peer-ca.crt"] == nil
	})
	say(address, s, alone.GetRevision(), nil)
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonPeerNotFound)

	first, second := authority(t, "first"), authority(t, "second")
	peer := &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeerSpec{Endpoint: "west.example:8443", CABundle: first},
	}
	cluster.Create(t, peer)
	generation := set(t, q).Generation
	config := holds(t, q, func(c *wirev1.QueueConfig, held *corev1.Secret) bool {
		return c.GetChannel().GetGatewayEndpoint() == "west.example:8443" && bytes.Equal(held.Data["peer-ca.crt"], first)
	})
	if c := config.GetChannel(); c.GetNamespace() != "vault" || c.GetQueue() != "invoices" ||
		c.GetBatchMessages() != 500 || c.GetBatchDelay().AsDuration() == 0 {
		t.Errorf("channel %v", c)
	}
	sending := func(change func(*wirev1.ChannelStatus)) func(*wirev1.QueueReport) {
		return func(r *wirev1.QueueReport) {
			r.Channel = &wirev1.ChannelStatus{State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Codec: "deflate", Messages: 5}
			change(r.Channel)
		}
	}
	say(address, s, config.GetRevision(), sending(func(c *wirev1.ChannelStatus) {
		c.State, c.LastError = wirev1.ChannelState_CHANNEL_STATE_RETRYING, &wirev1.Failure{
			Reason: wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, Message: "make a PeerGrant",
		}
	}))
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonNotGranted)
	say(address, s, config.GetRevision(), sending(func(c *wirev1.ChannelStatus) {
		c.DataPath = &wirev1.DataPath{
			Type: "TCP", Reason: "FellBack", RoundTripNanos: 40_000_000, CongestionControl: "bbr",
		}
	}))
	expect(t, q, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	if c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionChannelCompression); c == nil ||
		c.Reason != v1alpha1.ReasonNegotiated {
		t.Errorf("%s is %+v", v1alpha1.ConditionChannelCompression, c)
	}
	if q.Status.Channel == nil || q.Status.Channel.State != "Running" || q.Status.Channel.NegotiatedCodec != "deflate" ||
		q.Status.Channel.DataPath == nil || q.Status.Channel.DataPath.RoundTripTime == nil {
		t.Errorf("channel %+v", q.Status.Channel)
	}

	// A CA that is replaced reaches the members, though nothing else of their configuration has changed.
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(peer), peer); err != nil {
			return err
		}
		peer.Spec.CABundle = second
		return cluster.Client.Update(ctx, peer)
	})
	holds(t, q, func(c *wirev1.QueueConfig, held *corev1.Secret) bool {
		return bytes.Equal(held.Data["peer-ca.crt"], second) && c.GetRevision() == config.GetRevision()
	})
	if got := set(t, q).Generation; got != generation {
		t.Errorf("a Peer restarts the members: generation %d, before %d", got, generation)
	}
}

// TestReceiving: PeerGrants and Peers come and go, and the members are told at once.
func TestReceiving(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	name := "east-of-" + namespace
	q := create(t, namespace, nil)
	senders := func(want ...string) {
		t.Helper()
		holds(t, q, func(c *wirev1.QueueConfig, _ *corev1.Secret) bool {
			if len(want) == 0 {
				return len(c.GetAcceptance().GetPeers()) == 0
			}
			return len(c.GetAcceptance().GetPeers()) == 1 && slices.Equal(namesOf(c.GetAcceptance().GetPeers()[0]), want)
		})
	}
	senders()
	grant := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: name, Namespaces: []string{"bank"}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedQueue, Name: "orders"}},
		},
	}
	cluster.Create(t, grant)
	peer := &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeerSpec{CABundle: authority(t, "east")},
	}
	cluster.Create(t, peer)
	senders("bank")
	change := func(f func()) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(grant), grant); err != nil {
				return err
			}
			f()
			return cluster.Client.Update(ctx, grant)
		})
	}
	change(func() { grant.Spec.From[0].Namespaces = []string{"bank", "shop"} })
	senders("bank", "shop")
	change(func() { grant.Spec.To[0].Name = "others" })
	senders()
	change(func() { grant.Spec.To[0].Name = "" })
	senders("bank", "shop")
	if err := cluster.Client.Delete(ctx, peer); err != nil {
		t.Fatal(err)
	}
	senders()
}

func namesOf(peer *wirev1.ChannelPeer) (names []string) {
	for _, namespace := range peer.GetNamespaces() {
		names = append(names, namespace.GetName())
	}
	return names
}
