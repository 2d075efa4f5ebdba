// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/queue"
)

// named is a Queue of the namespace that sends to others of it.
func named(name string, to ...string) v1alpha1.Queue {
	q := v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name}}
	for _, one := range to {
		q.Spec.Channels = append(q.Spec.Channels, v1alpha1.QueueChannel{Queue: one})
	}
	return q
}

func toQueues(to ...v1alpha1.QueueChannel) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) { s.Channels = to }
}

func TestChannelWithinTheNamespace(t *testing.T) {
	q := newQueue(func(s *v1alpha1.QueueSpec) { s.Channel = &v1alpha1.QueueChannel{Queue: "copies"} })
	for name, test := range map[string]struct {
		queues []v1alpha1.Queue
		reason string
	}{
		"there":             {[]v1alpha1.Queue{*q, named("copies")}, ""},
		"not there":         {[]v1alpha1.Queue{*q, named("other")}, v1alpha1.ReasonDestinationNotFound},
		"sends back":        {[]v1alpha1.Queue{*q, named("copies", "orders")}, v1alpha1.ReasonChannelCycle},
		"sends back by two": {[]v1alpha1.Queue{*q, named("copies", "x"), named("x", "y", "orders")}, v1alpha1.ReasonChannelCycle},
		"cycle elsewhere":   {[]v1alpha1.Queue{*q, named("copies", "x"), named("x", "copies")}, ""},
		"sends to a peer": {[]v1alpha1.Queue{*q, {
			ObjectMeta: metav1.ObjectMeta{Name: "copies"},
			Spec:       v1alpha1.QueueSpec{Channel: &v1alpha1.QueueChannel{Peer: "west", Queue: "orders"}},
		}}, ""},
	} {
		wanted := wantWith(t, q, queue.Neighbours{Queues: test.queues})
		c := wanted.Config.GetChannel()
		if test.reason == "" {
			if wanted.ChannelProblems[0] != nil || c.GetAddress() != "copies.bank.svc:8444" || c.GetGatewayEndpoint() != "" ||
				c.GetServerName() != pki.OwnChannelServerName("bank", "copies") || len(wanted.Files) > 0 {
				t.Errorf("%s: %v, %v", name, c, wanted.ChannelProblems)
			}
			continue
		}
		status := queue.Observe(wanted.Queue, &wanted, well(wanted))
		stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
		if c == nil || c.GetAddress() != "" || c.GetGatewayEndpoint() != "" || stalled.Reason != test.reason || status.Channel.State != "Blocked" ||
			status.Channel.Destination != "bank/copies" {
			t.Errorf("%s: %v, %+v, %+v", name, c, stalled, status.Channel)
		}
	}
	itself := newQueue(func(s *v1alpha1.QueueSpec) { s.Channel = &v1alpha1.QueueChannel{Queue: "orders"} })
	wanted := wantWith(t, itself, queue.Neighbours{Queues: []v1alpha1.Queue{*itself}})
	if p := wanted.ChannelProblems[0]; p == nil || p.Reason != v1alpha1.ReasonChannelCycle {
		t.Errorf("to itself: %+v", p)
	}
}

// A Queue to which another one of its namespace sends believes certificates of its own cluster's CA, under a name that
// its own certificate has.
func TestAcceptanceWithinTheNamespace(t *testing.T) {
	ca := authority(t, "own")
	a := wantWith(t, newQueue(nil), queue.Neighbours{CA: ca}).Config.GetAcceptance()
	if len(a.GetPeers()) != 1 || a.GetPeers()[0].GetName() != "" || string(a.GetPeers()[0].GetCaBundle()) != string(ca) ||
		len(a.GetPeers()[0].GetNamespaces()) != 1 || a.GetPeers()[0].GetNamespaces()[0].GetName() != "bank" ||
		a.GetPeers()[0].GetNamespaces()[0].GetServerName() != pki.OwnChannelServerName("bank", "orders") {
		t.Errorf("acceptance %v", a)
	}
}

// Two Peers for one cluster would be one channel to the receiver, which ends the other of both.
func TestSeveralChannelsToOneCluster(t *testing.T) {
	ca := authority(t, "west")
	for name, test := range map[string]struct {
		second    v1alpha1.Peer
		namespace string
		one       bool
	}{
		"the same CA":       {peerOf("again", "again.example:8443", ca), "", true},
		"the same endpoint": {peerOf("again", "west.example:8443", authority(t, "again")), "bank", true},
		"two clusters":      {peerOf("again", "again.example:8443", authority(t, "again")), "", false},
		"two Queues":        {peerOf("again", "west.example:8443", ca), "vault", false},
	} {
		wanted := wantWith(t, newQueue(toQueues(
			v1alpha1.QueueChannel{Peer: "west", Queue: "x"},
			v1alpha1.QueueChannel{Peer: "again", Namespace: test.namespace, Queue: "x"},
		)), queue.Neighbours{Peers: []v1alpha1.Peer{peerOf("west", "west.example:8443", ca), test.second}})
		all, problems := wanted.Config.GetChannels(), wanted.ChannelProblems
		if len(all) != 2 || all[0].GetGatewayEndpoint() == "" || problems[0] != nil ||
			(all[1].GetGatewayEndpoint() == "") != test.one || (problems[1] != nil) != test.one {
			t.Errorf("%s: %v, %v", name, all, problems)
		}
	}
}

func TestSeveralChannels(t *testing.T) {
	ca := authority(t, "west")
	neighbours := queue.Neighbours{
		Peers: []v1alpha1.Peer{peerOf("west", "west.example:8443", ca)}, Queues: []v1alpha1.Queue{named("copies")},
	}
	q := newQueue(toQueues(
		v1alpha1.QueueChannel{Peer: "west", Queue: "invoices"}, v1alpha1.QueueChannel{Queue: "copies"},
		v1alpha1.QueueChannel{Peer: "north", Queue: "invoices"},
	))
	wanted := wantWith(t, q, neighbours)
	all := wanted.Config.GetChannels()
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.GetName())
	}
	if wanted.Config.GetChannel() != nil ||
		!slices.Equal(names, []string{"west/bank/invoices", "bank/copies", "north/bank/invoices"}) ||
		all[0].GetGatewayEndpoint() != "west.example:8443" || string(wanted.Files[all[0].GetCaFile()]) != string(ca) ||
		all[1].GetAddress() == "" || all[2].GetGatewayEndpoint() != "" || all[2].GetAddress() != "" {
		t.Fatalf("channels %v, files of %d", all, len(wanted.Files))
	}

	facts := well(wanted)
	running := func(name string, position uint64) *wirev1.ChannelStatus {
		return &wirev1.ChannelStatus{
			Name: name, State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Codec: "deflate", Position: position,
			Messages: position, WireBytes: 100 * position, OwnCluster: name == "bank/copies",
		}
	}
	facts.Members[0].Report.Channels = []*wirev1.ChannelStatus{running("bank/copies", 9), running("west/bank/invoices", 3)}
	// What the member counted of channels that have ended.
	facts.Members[0].Report.Channels = append(facts.Members[0].Report.Channels, &wirev1.ChannelStatus{WireBytes: 100})
	facts.Members[0].Report.OwnReceivedWireBytes, facts.Members[0].Report.ReceivedWireBytes = 7, 30
	status := queue.Observe(q, &wanted, facts)
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	if stalled.Reason != v1alpha1.ReasonPeerNotFound || status.Channel != nil || len(status.Channels) != 3 {
		t.Fatalf("conditions %+v, channels %+v", status.Conditions, status.Channels)
	}
	for i, want := range []v1alpha1.QueueChannelStatus{
		{Destination: "west/bank/invoices", State: "Running", Position: 3},
		{Destination: "bank/copies", State: "Running", Position: 9}, {Destination: "north/bank/invoices", State: "Blocked"},
	} {
		if got := status.Channels[i]; got.Destination != want.Destination || got.State != want.State ||
			got.Position != want.Position {
			t.Errorf("channel %d: %+v", i, got)
		}
	}
	// Bytes of channels within the cluster are not charged.
	if status.Usage.ChannelBytes != 430 || status.Usage.WireBytes != 1337 {
		t.Errorf("usage %+v", status.Usage)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionChannelCompression) {
		t.Error("nothing is said of compression")
	}

	// Another look changes nothing.
	q.Status = status
	if again := queue.Observe(q, &wanted, facts); !equality.Semantic.DeepEqual(again, status) {
		t.Errorf("status has become\n%+v, and was\n%+v", again, status)
	}
	facts.Members[0].Report.Channels[1].State = wirev1.ChannelState_CHANNEL_STATE_RETRYING
	neighbours.Peers = append(neighbours.Peers, peerOf("north", "north.example:8443", authority(t, "north")))
	wanted = wantWith(t, q, neighbours)
	facts.Members[0].Report.Revision = wanted.Config.GetRevision()
	status = queue.Observe(q, &wanted, facts)
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReconciling); c == nil ||
		status.Channels[0].State != "Retrying" || status.Channels[2].State != "Unknown" {
		t.Errorf("conditions %+v, channels %+v", status.Conditions, status.Channels)
	}
	q = newQueue(toQueues(
		v1alpha1.QueueChannel{Peer: "west", Queue: "x"}, v1alpha1.QueueChannel{Peer: "west", Namespace: "bank", Queue: "x"},
	))
	if _, problem := queue.Want(q, nil, nil, neighbours, false, now); problem == nil {
		t.Error("a Queue is named twice")
	}
}
