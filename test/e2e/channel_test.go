// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// newQueue makes a Queue with a client's token in a cluster, and takes it away at the end.
func (c *cluster) newQueue(
	t *testing.T, namespace, name string, change func(*v1alpha1.QueueSpec),
) (*v1alpha1.Queue, *queueClient) {
	t.Helper()
	token := "let the clerk in"
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-tokens"},
		Data:       map[string][]byte{"clerk": []byte(token)},
	}
	queue := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.QueueSpec{
			Storage: v1alpha1.QueueStorage{Size: resource.MustParse("100Mi")},
			Compression: &v1alpha1.QueueCompression{
				Mode: v1alpha1.CompressionAlways, MinSize: ptr.To(resource.MustParse("10000")), Codecs: []v1alpha1.Codec{v1alpha1.CodecZstd},
			},
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: secret.Name}},
		},
	}
	change(&queue.Spec)
	for _, object := range []client.Object{secret, queue} {
		if err := c.Create(context.Background(), object); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	t.Cleanup(func() { c.abandonQueue(t, queue) })
	return queue, &queueClient{cluster: c, queue: queue, roots: c.certificateAuthority(t), token: token}
}

// see waits until status of a Queue is as a function wants it.
func (c *cluster) see(t *testing.T, queue *v1alpha1.Queue, what string, ok func(v1alpha1.QueueStatus) bool) {
	t.Helper()
	eventually(t, 6*time.Minute, "Queue "+queue.Name+" of "+c.name+" to "+what, func() (bool, string) {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(queue), queue); err != nil {
			return false, err.Error()
		}
		s := queue.Status
		return ok(s), fmt.Sprintf(
			"conditions %v, channel %+v, received %+v, archive %+v, statistics %+v", s.Conditions, s.Channel, s.Received,
			s.Archive, s.Statistics,
		)
	})
}

// TestSeveralChannels sends messages from a queue to one of the same namespace and to one of the other cluster, which
// holds them up until it grants them: the other one does not wait, and a member of the source that is killed sends each
// message once.
func TestSeveralChannels(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	accept := func(s *v1alpha1.QueueSpec) { s.Receiving.Accept = v1alpha1.QueueAcceptAny }
	near, nearGetter := east.newQueue(t, namespace, "ledger", accept)
	far, farGetter := west.newQueue(t, namespace, "invoices", accept)
	from, putter := east.newQueue(t, namespace, "orders", func(s *v1alpha1.QueueSpec) {
		s.Channels = []v1alpha1.QueueChannel{{Queue: near.Name}, {Peer: "west", Queue: far.Name}}
	})
	east.waitForQueue(t, near, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	west.waitForQueue(t, far, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	east.waitForQueue(t, from, v1alpha1.ConditionStalled, v1alpha1.ReasonNotGranted)
	const first, rest = 20, 60
	messages := orders(first + rest)
	putter.connect(t)
	putter.put(t, messages[:first])
	nearGetter.connect(t)
	nearGetter.get(t, messages[:first])
	east.see(t, from, "keep what one of two has", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics != nil && s.Statistics.Depth == first && len(s.Channels) == 2 &&
			s.Channels[0].Messages == first && s.Channels[1].Messages == 0
	})
	if err := west.Create(ctx, &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{namespace}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedQueue, Name: far.Name}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	east.waitForQueue(t, from, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	farGetter.connect(t)
	farGetter.get(t, messages[:first])
	putter.putNext(t, messages[first:])
	sender := east.member(t, from)
	if err := east.Delete(ctx, sender); err != nil {
		t.Fatal(err)
	}
	east.waitForNext(t, sender)
	nearGetter.get(t, messages[first:])
	farGetter.get(t, messages[first:])
	east.see(t, from, "be empty", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics != nil && s.Statistics.Depth == 0 && len(s.Channels) == 2
	})
	for c, queue := range map[*cluster]*v1alpha1.Queue{east: near, west: far} {
		c.see(t, queue, "have got each message once", func(s v1alpha1.QueueStatus) bool {
			return s.Statistics != nil && s.Statistics.Depth == 0 && len(s.Received) == 1 &&
				s.Received[0].Position == first+rest
		})
	}
}

// TestChannel sends messages from a queue of one cluster to one of the other: not before a PeerGrant allows it, each
// exactly once and in order although a member of either side is killed in the middle, compressed ones as they are
// stored, and no longer than the grant lasts.
func TestChannel(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	to, getter := west.newQueue(t, namespace, "invoices", func(s *v1alpha1.QueueSpec) {
		s.Receiving.Accept = v1alpha1.QueueAcceptAny
	})
	from, putter := east.newQueue(t, namespace, "orders", func(s *v1alpha1.QueueSpec) {
		s.Channel = &v1alpha1.QueueChannel{
			Peer: "west", Queue: to.Name,
			Codings: []v1alpha1.ChannelCoding{v1alpha1.ChannelCodingZstd, v1alpha1.ChannelCodingDeflate},
			Batch:   v1alpha1.QueueChannelBatch{Messages: 10},
		}
	})
	west.waitForQueue(t, to, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	t.Logf("without a grant: %s", east.waitForQueue(t, from, v1alpha1.ConditionStalled, v1alpha1.ReasonNotGranted))

	const first, rest = 20, 120
	messages := orders(first + rest)
	putter.connect(t)
	putter.put(t, messages[:first])
	east.see(t, from, "keep what cannot be sent", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics != nil && s.Statistics.Depth == first && s.Channel != nil && s.Channel.State == "Retrying" &&
			s.Channel.Messages == 0
	})
	grant := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{namespace}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedQueue, Name: to.Name}},
		},
	}
	if err := west.Create(ctx, grant); err != nil {
		t.Fatal(err)
	}
	east.waitForQueue(t, from, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	east.waitForQueue(t, from, v1alpha1.ConditionChannelCompression, v1alpha1.ReasonNegotiated)
	getter.connect(t)
	getter.get(t, messages[:first])
	compressed := int64(first / 2)
	east.see(t, from, "count what it sent", func(s v1alpha1.QueueStatus) bool {
		c := s.Channel
		return s.Statistics.Depth == 0 && c.State == "Running" && c.NegotiatedCodec == "zstd" && c.Messages == first &&
			c.Batches >= first/10 && c.InDoubt == 0 &&
			c.Recoded == 0 && c.Bytes*2 < c.UncompressedBytes && c.WireBytes > c.Bytes && c.LastError != nil
	})
	west.see(t, to, "count what arrived", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics.Depth == 0 && s.Statistics.Puts.Count == 0 && s.Statistics.Compressions.Count == 0 &&
			s.Statistics.Decompressions.Count == compressed &&
			len(s.Received) == 1 && s.Received[0].Source == "east/"+namespace+"/"+from.Name && s.Received[0].Connected &&
			s.Received[0].Messages == first
	})

	// Members are killed while messages are on their way: what was put is put, and nothing comes twice.
	half := first + rest/2
	putter.putNext(t, messages[first:half])
	receiver := west.member(t, to)
	west.KillAgent(t, namespace, "queue")
	putter.putNext(t, messages[half:])
	sender := east.member(t, from)
	east.KillAgent(t, namespace, "queue")
	// Until then status may be that of before.
	west.waitForNext(t, receiver)
	east.waitForNext(t, sender)
	west.see(t, to, "hold each message once", func(s v1alpha1.QueueStatus) bool {
		return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) && s.Statistics.Depth == rest &&
			len(s.Received) == 1 && s.Received[0].Position == first+rest
	})
	east.see(t, from, "be empty", func(s v1alpha1.QueueStatus) bool {
		return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) && s.Statistics.Depth == 0 &&
			s.Channel.State == "Running" && s.Channel.Recoded == 0
	})
	getter.connect(t)
	getter.get(t, messages[first:])
	west.see(t, to, "be empty", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics.Depth == 0 && s.Statistics.Unacknowledged == 0 && len(s.Received) == 1 &&
			s.Received[0].Position == first+rest
	})

	if err := west.Delete(ctx, grant); err != nil {
		t.Fatal(err)
	}
	t.Logf("without its grant: %s", east.waitForQueue(t, from, v1alpha1.ConditionStalled, v1alpha1.ReasonNotGranted))
}
