// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/queue"
)

// authority is the CA of a cluster, as PEM.
func authority(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: now.Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func peerOf(name, endpoint string, ca []byte) v1alpha1.Peer {
	return v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeerSpec{Endpoint: endpoint, CABundle: ca},
	}
}

// toWest is a spec whose messages go to west.
func toWest(s *v1alpha1.QueueSpec) {
	s.Channel = &v1alpha1.QueueChannel{
		Peer: "west", Queue: "invoices",
		Batch: v1alpha1.QueueChannelBatch{Messages: 100, Delay: &metav1.Duration{Duration: time.Second}},
	}
}

func wantWith(t *testing.T, q *v1alpha1.Queue, neighbours queue.Neighbours) queue.Wanted {
	t.Helper()
	wanted, problem := queue.Want(q, nil, nil, neighbours, false, now)
	if problem != nil {
		t.Fatal(problem.Message)
	}
	return wanted
}

func TestChannelOfASpec(t *testing.T) {
	ca := authority(t, "west")
	west := queue.Neighbours{
		Peers: []v1alpha1.Peer{peerOf("east", "", authority(t, "east")), peerOf("west", "west.example:8443", ca)},
	}
	wanted := wantWith(t, newQueue(toWest), west)
	c := wanted.Config.GetChannel()
	if c.GetGatewayEndpoint() != "west.example:8443" || c.GetNamespace() != "bank" || c.GetQueue() != "invoices" ||
		c.GetBatchMessages() != 100 ||
		c.GetBatchDelay().AsDuration() != time.Second || !slices.Equal(c.GetCodecs(), []string{"deflate"}) ||
		string(wanted.Files[pki.PeerCAKey]) != string(ca) {
		t.Errorf("channel %v", c)
	}
	dials := peerOf("west", "", ca)
	dials.Spec.Connection = v1alpha1.PeerListen
	c = wantWith(t, newQueue(toWest), queue.Neighbours{
		Peers: []v1alpha1.Peer{dials}, Tunnels: "own.example:8445",
	}).Config.GetChannel()
	if c.GetGatewayEndpoint() != "own.example:8445" || c.GetGatewayTunnel() != "west.peer.lighterage.internal:443" {
		t.Errorf("to a peer that dials: channel %v", c)
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.QueueSpec)
		codecs []string
		levels []wirev1.CompressionLevel
	}{
		"those that are given": {
			func(s *v1alpha1.QueueSpec) { s.Channel.Codings = []v1alpha1.ChannelCoding{"zstd", "none"} },
			[]string{"zstd", "none"}, nil,
		},
		"at levels of their own": {
			func(s *v1alpha1.QueueSpec) {
				s.Channel.Codings = []v1alpha1.ChannelCoding{"deflate-high", "zstd", "none"}
			},
			[]string{"deflate", "zstd", "none"}, []wirev1.CompressionLevel{
				wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH, wirev1.CompressionLevel_COMPRESSION_LEVEL_UNSPECIFIED,
				wirev1.CompressionLevel_COMPRESSION_LEVEL_UNSPECIFIED,
			},
		},
		"those that are stored": {func(s *v1alpha1.QueueSpec) {
			s.Compression = &v1alpha1.QueueCompression{Codecs: []v1alpha1.Codec{"zstd", "deflate"}}
		}, []string{"zstd", "deflate"}, nil},
		"nothing where it is off": {func(s *v1alpha1.QueueSpec) {
			s.Compression = &v1alpha1.QueueCompression{MinSize: ptr.To(resource.MustParse("0"))}
		}, nil, nil},
		"nothing by policy": {func(s *v1alpha1.QueueSpec) {
			s.Compression = &v1alpha1.QueueCompression{Mode: v1alpha1.CompressionNever}
		}, nil, nil},
	} {
		q := newQueue(func(s *v1alpha1.QueueSpec) { toWest(s); s.Channel.Namespace = "vault"; test.change(s) })
		if c := wantWith(t, q, west).Config.GetChannel(); !slices.Equal(c.GetCodecs(), test.codecs) ||
			!slices.Equal(c.GetLevels(), test.levels) || c.GetNamespace() != "vault" {
			t.Errorf("%s: %v", name, c)
		}
	}
}

// A queue serves clients whatever its channel lacks, and says what that is.
func TestChannelLacksItsPeer(t *testing.T) {
	for name, test := range map[string]struct {
		peers        []v1alpha1.Peer
		reason, says string
	}{
		"no peer": {nil, v1alpha1.ReasonPeerNotFound, `Peer "west"`},
		"no endpoint": {
			[]v1alpha1.Peer{peerOf("west", "", authority(t, "west"))}, v1alpha1.ReasonPeerHasNoEndpoint, "spec.endpoint",
		},
		"no authority": {
			[]v1alpha1.Peer{peerOf("west", "west.example:8443", []byte("none"))}, v1alpha1.ReasonPeerUntrusted, "spec.caBundle",
		},
	} {
		wanted := wantWith(t, newQueue(toWest), queue.Neighbours{Peers: test.peers})
		if c := wanted.Config.GetChannel(); c == nil || c.GetGatewayEndpoint() != "" || len(wanted.Files) > 0 || len(wanted.Objects(nil, nil, image)) == 0 {
			t.Errorf("%s: %v", name, wanted.Config)
		}
		status := queue.Observe(wanted.Queue, &wanted, well(wanted))
		stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
		if stalled.Status != "True" || stalled.Reason != test.reason || !strings.Contains(stalled.Message, test.says) ||
			status.Channel.State != "Blocked" {
			t.Errorf("%s: %+v, %+v", name, stalled, status.Channel)
		}
	}
}

func queueGrant(peer string, namespaces []string, to ...v1alpha1.PeerGrantTo) v1alpha1.PeerGrant {
	return v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank"},
		Spec:       v1alpha1.PeerGrantSpec{From: []v1alpha1.PeerGrantFrom{{Peer: peer, Namespaces: namespaces}}, To: to},
	}
}

func TestAcceptance(t *testing.T) {
	east, same := authority(t, "east"), authority(t, "same")
	this := v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue, Name: "orders"}
	deleted := queueGrant("east", []string{"deleted"}, this)
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	key := []byte("key")
	neighbours := queue.Neighbours{
		ChannelKey: key,
		Peers: []v1alpha1.Peer{
			peerOf("twin", "", same), peerOf("north", "", authority(t, "north")), peerOf("east", "", east),
			peerOf("other-twin", "", append(authority(t, "more"), same...)),
			peerOf("broken", "", []byte("none")),
		},
		Grants: []v1alpha1.PeerGrant{
			queueGrant("east", []string{"shop", "bank"}, v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue}),
			queueGrant(
				"east", []string{"bank", "vault"},
				v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "orders"}, this,
			),
			queueGrant("north", []string{"bank"}, v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue, Name: "invoices"}),
			queueGrant("twin", []string{"bank"}, this), queueGrant("other-twin", []string{"bank"}, this),
			queueGrant("broken", []string{"bank"}, this),
			queueGrant("gone", []string{"bank"}, this), queueGrant("", []string{"shop"}, this), deleted,
		},
	}
	a := wantWith(t, newQueue(nil), neighbours).Config.GetAcceptance()
	if len(a.GetPeers()) != 1 || a.GetPeers()[0].GetName() != "east" ||
		string(a.GetPeers()[0].GetCaBundle()) != string(east) ||
		!slices.EqualFunc(a.GetPeers()[0].GetNamespaces(), []string{"bank", "shop", "vault"}, func(
			got *wirev1.ChannelNamespace, want string,
		) bool {
			return got.GetName() == want && got.GetServerName() == pki.ChannelServerName(key, "east", want, "bank", "orders")
		}) || a.GetAddress() != ":8444" {
		t.Errorf("acceptance %v", a)
	}
	for accept, test := range map[v1alpha1.QueueAccept]struct {
		any    bool
		codecs []string
	}{
		"": {}, v1alpha1.QueueAcceptAny: {true, nil}, v1alpha1.QueueAcceptNone: {},
		v1alpha1.QueueAcceptListed: {false, []string{"deflate"}},
	} {
		q := newQueue(func(s *v1alpha1.QueueSpec) {
			s.Receiving = v1alpha1.QueueReceiving{Accept: accept, Codings: []v1alpha1.Codec{"deflate"}}
		})
		if a := wantWith(t, q, neighbours).Config.GetAcceptance(); a.GetAnyCodec() != test.any ||
			!slices.Equal(a.GetCodecs(), test.codecs) {
			t.Errorf("%q: %v", accept, a)
		}
	}
	// A grant takes effect without a restart, whether it is the first or the last.
	with, without := statefulSet(
		t, wantWith(t, newQueue(nil), neighbours), nil,
	), statefulSet(t, want(t, newQueue(nil)), nil)
	if with.Spec.Template.String() != without.Spec.Template.String() {
		t.Error("a PeerGrant restarts the members")
	}
}

// Peer.spec.revokedBefore is in the configuration of members, for that Peer alone.
func TestMembersLearnWhatIsRevoked(t *testing.T) {
	revoked := metav1.NewTime(now.Add(-time.Hour))
	this := v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue, Name: "orders"}
	east, north := peerOf("east", "", authority(t, "east")), peerOf("north", "", authority(t, "north"))
	east.Spec.RevokedBefore = &revoked
	neighbours := queue.Neighbours{
		ChannelKey: []byte("key"), Peers: []v1alpha1.Peer{east, north},
		Grants: []v1alpha1.PeerGrant{queueGrant("east", []string{"bank"}, this), queueGrant("north", []string{"bank"}, this)},
	}
	got := map[string]int64{}
	for _, peer := range wantWith(t, newQueue(nil), neighbours).Config.GetAcceptance().GetPeers() {
		got[peer.GetName()] = peer.GetRevokedBefore()
	}
	if want := map[string]int64{"east": revoked.Unix(), "north": 0}; !maps.Equal(got, want) {
		t.Errorf("revoked_before is %v, want %v", got, want)
	}
}

// sends is well, with a channel in the second of three members, which leads.
func sends(t *testing.T, channel *wirev1.ChannelStatus, change func(*v1alpha1.QueueSpec)) (queue.Wanted, queue.Facts) {
	t.Helper()
	wanted := wantWith(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Replicas = 3
		toWest(s)
		s.Channel.Codings = []v1alpha1.ChannelCoding{"zstd", "deflate"}
		if change != nil {
			change(s)
		}
	}), queue.Neighbours{Peers: []v1alpha1.Peer{peerOf("west", "west.example:8443", authority(t, "west"))}})
	facts := well(wanted)
	for i, m := range facts.Members {
		m.Report.Content.Leader = facts.Members[1].Report.GetMember()
		if m.Report.Channel = channel; i != 1 {
			// One that led before, and knows of an older failure.
			m.Report.Channel = &wirev1.ChannelStatus{
				State: wirev1.ChannelState_CHANNEL_STATE_STANDBY, Messages: 10, InDoubt: 99, MilliMessagesPerSecond: 99,
				LastError:     &wirev1.Failure{Reason: wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST},
				LastErrorTime: timestamppb.New(now.Add(-time.Hour)),
			}
		}
	}
	return wanted, facts
}

func TestStatesOfChannels(t *testing.T) {
	failed := func(reason wirev1.FailureReason, message string) *wirev1.ChannelStatus {
		return &wirev1.ChannelStatus{
			State: wirev1.ChannelState_CHANNEL_STATE_RETRYING, LastError: &wirev1.Failure{Reason: reason, Message: message},
			LastErrorTime: timestamppb.New(now),
			NextTryTime:   timestamppb.New(now.Add(time.Minute)),
		}
	}
	for name, test := range map[string]struct {
		channel                 *wirev1.ChannelStatus
		condition, reason, says string
		state                   string
	}{
		"runs": {
			&wirev1.ChannelStatus{State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Codec: "zstd"}, v1alpha1.ConditionReady,
			v1alpha1.ReasonServing, "west/bank/invoices", "Running",
		},
		"nobody sends": {nil, v1alpha1.ConditionReconciling, v1alpha1.ReasonChannelConnecting, "does not send", "Unknown"},
		"connects": {
			&wirev1.ChannelStatus{State: wirev1.ChannelState_CHANNEL_STATE_CONNECTING}, v1alpha1.ConditionReconciling,
			v1alpha1.ReasonChannelConnecting, "being set up", "Connecting",
		},
		"parted": {
			failed(wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE, "no route"), v1alpha1.ConditionReconciling,
			v1alpha1.ReasonPeerUnreachable, "messages wait in this Queue", "Retrying",
		},
		"not granted": {
			failed(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "make a PeerGrant"), v1alpha1.ConditionStalled,
			v1alpha1.ReasonNotGranted, "make a PeerGrant", "Retrying",
		},
		"no such queue": {
			failed(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND, "no Queue"), v1alpha1.ConditionStalled,
			v1alpha1.ReasonDestinationNotFound, "no Queue", "Retrying",
		},
		"full": {
			failed(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL, "full"), v1alpha1.ConditionReconciling,
			v1alpha1.ReasonDestinationFull, "full", "Retrying",
		},
		"other consumers": {
			failed(wirev1.FailureReason_FAILURE_REASON_SOURCE_IN_USE, "(clerk)"), v1alpha1.ConditionStalled,
			v1alpha1.ReasonSourceInUse, "(clerk)", "Retrying",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, facts := sends(t, test.channel, nil)
			status := queue.Observe(wanted.Queue, &wanted, facts)
			found := meta.FindStatusCondition(status.Conditions, test.condition)
			if found == nil || found.Status != "True" || found.Reason != test.reason ||
				!strings.Contains(found.Message, test.says) {
				t.Errorf("conditions %+v", status.Conditions)
			}
			if status.Channel.State != test.state || status.Channel.Destination != "west/bank/invoices" {
				t.Errorf("channel %+v", status.Channel)
			}
		})
	}
}

func TestChannelCompression(t *testing.T) {
	for name, test := range map[string]struct {
		codec        string
		change       func(*v1alpha1.QueueSpec)
		status       metav1.ConditionStatus
		reason, says string
	}{
		"the first":  {"zstd", nil, "True", v1alpha1.ReasonNegotiated, "travel in zstd"},
		"the second": {"deflate", nil, "True", v1alpha1.ReasonNegotiated, "does not accept zstd"},
		"refused":    {"none", nil, "False", v1alpha1.ReasonCodingsRefused, "none of zstd, deflate"},
		"not wanted": {
			"none", func(s *v1alpha1.QueueSpec) { s.Channel.Codings = []v1alpha1.ChannelCoding{"none"} }, "False",
			v1alpha1.ReasonNoCodings, "spec.channel.codings",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, facts := sends(
				t, &wirev1.ChannelStatus{State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Codec: test.codec}, test.change,
			)
			status := queue.Observe(wanted.Queue, &wanted, facts)
			found := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionChannelCompression)
			if found == nil || found.Status != test.status || found.Reason != test.reason ||
				!strings.Contains(found.Message, test.says) {
				t.Errorf("condition %+v", found)
			}
			if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
				t.Error("what is not compressed is taken for a failure")
			}

			// It stays while the channel does not run, and goes with it.
			wanted.Queue.Status = status
			facts.Members[1].Report.Channel.State = wirev1.ChannelState_CHANNEL_STATE_CONNECTING
			if status = queue.Observe(wanted.Queue, &wanted, facts); meta.FindStatusCondition(
				status.Conditions, v1alpha1.ConditionChannelCompression,
			) == nil {
				t.Error("it was forgotten")
			}
			wanted.Queue.Spec.Channel, wanted.Queue.Status = nil, status
			if status = queue.Observe(wanted.Queue, &wanted, facts); meta.FindStatusCondition(
				status.Conditions, v1alpha1.ConditionChannelCompression,
			) != nil || status.Channel != nil {
				t.Error("it was kept without a channel")
			}
		})
	}
}

func TestStatisticsOfChannels(t *testing.T) {
	wanted, facts := sends(t, &wirev1.ChannelStatus{
		State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Codec: "zstd",
		Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH, Messages: 30, Batches: 3, PlainBytes: 4000,
		PayloadBytes: 1000, Recoded: 2, InDoubt: 7, Dictionaries: 6,
		MilliMessagesPerSecond: 1500, Starts: 2, WireBytes: 1200, DeadLetters: 4,
		DataPath: &wirev1.DataPath{
			Type: "MPTCP", Reason: "Negotiated", RoundTripNanos: 40_000_000, CongestionControl: "bbr",
		},
	}, nil)
	arrived := func(queue string, connected bool, position uint64) *wirev1.ReceivedChannel {
		return &wirev1.ReceivedChannel{
			Peer: "north", Namespace: "bank", Queue: queue, Connected: connected, Codec: "zstd", Position: position, Messages: 5,
			Batches: 1, PayloadBytes: 50, Dictionaries: 3,
		}
	}
	facts.Members[0].Report.Received = []*wirev1.ReceivedChannel{
		arrived("b", false, 900), arrived("a", false, 3), arrived(strings.Repeat("x", 500), true, 1),
	}
	facts.Members[2].Report.Received = []*wirev1.ReceivedChannel{arrived("b", true, 40)}
	status := queue.Observe(wanted.Queue, &wanted, facts)
	c := *status.Channel
	if c.LastError == nil || c.LastError.Reason != v1alpha1.ReasonConnectionLost {
		t.Errorf("last error %+v", c.LastError)
	}
	if diff := cmp.Diff(&v1alpha1.DataPath{
		Type: "MPTCP", Reason: "Negotiated", RoundTripTime: &metav1.Duration{Duration: 40 * time.Millisecond},
		CongestionControl: "bbr",
	}, c.DataPath); diff != "" {
		t.Error(diff)
	}
	c.LastError, c.DataPath = nil, nil
	if c != (v1alpha1.QueueChannelStatus{
		State: "Running", Destination: "west/bank/invoices", NegotiatedCodec: "zstd", NegotiatedLevel: "High",
		MessagesPerSecond: "1.5", Messages: 50,
		Batches: 3, InDoubt: 7,
		UncompressedBytes: 4000, Bytes: 1000, Ratio: "4.00", Recoded: 2, WireBytes: 1200, Starts: 2, DeadLetters: 4,
		Dictionaries: 6,
	}) {
		t.Errorf("channel %+v", c)
	}
	if len(status.Received) != 2 ||
		status.Received[0] != (v1alpha1.ReceivedChannel{
			Source: "north/bank/a", Position: 3, Messages: 5, Batches: 1, Bytes: 50, Dictionaries: 3,
		}) ||
		status.Received[1] != (v1alpha1.ReceivedChannel{
			Source: "north/bank/b", Connected: true, NegotiatedCodec: "zstd", Position: 40, Messages: 10, Batches: 2, Bytes: 100,
			Dictionaries: 6,
		}) {
		t.Errorf("received %+v", status.Received)
	}

	// Between refreshes counts stay, and what people act upon does not.
	wanted.Queue.Status, facts.RefreshStatistics = status, false
	channel := facts.Members[1].Report.Channel
	channel.DataPath.Type, channel.DataPath.Reason = "TCP", "FellBack"
	status = queue.Observe(wanted.Queue, &wanted, facts)
	if path := status.Channel.DataPath; path == nil || path.Type != "TCP" || path.Reason != "FellBack" {
		t.Errorf("a channel that began again is on %+v", path)
	}
	channel.DataPath.Type = "RDMA"
	if path := queue.Observe(wanted.Queue, &wanted, facts).Channel.DataPath; path != nil {
		t.Errorf("no agent says %+v", path)
	}
	channel.DataPath.Type = "TCP"
	channel.Level = 0
	channel.Messages, channel.Dictionaries, channel.Codec = 99, 99, ""
	channel.State = wirev1.ChannelState_CHANNEL_STATE_RETRYING
	channel.LastError, channel.LastErrorTime = &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED,
	}, timestamppb.New(now)
	status = queue.Observe(wanted.Queue, &wanted, facts)
	if c := status.Channel; c.Messages != 50 || c.Dictionaries != 6 || c.State != "Retrying" || c.NegotiatedCodec != "" ||
		c.NegotiatedLevel != "" || c.DataPath != nil || c.LastError.Reason != v1alpha1.ReasonNotGranted {
		t.Errorf("channel %+v", c)
	}
}

// Members try what the manager does. One that listens for SMC begins again for it, and otherwise nothing changes for
// it.
func TestDataPathOfChannels(t *testing.T) {
	west := []v1alpha1.Peer{peerOf("west", "west.example:8443", authority(t, "west"))}
	with := func(path string) (config *wirev1.QueueConfig, digest string) {
		w := wantWith(t, newQueue(toWest), queue.Neighbours{Peers: west, DataPath: path})
		return w.Config, statefulSet(t, w, nil).Spec.Template.Annotations["lighterage.dev/start-digest"]
	}
	plain, before := with("")
	if plain.GetChannel().GetDataPath() != "" || plain.GetAcceptance().GetDataPath() != "" {
		t.Errorf("%v", plain)
	}
	mptcp, digest := with("MPTCP")
	if mptcp.GetChannel().GetDataPath() != "MPTCP" || mptcp.GetAcceptance().GetDataPath() != "" || digest != before {
		t.Errorf("%v, restarts: %t", mptcp, digest != before)
	}
	smc, digest := with("SMC")
	if smc.GetChannel().GetDataPath() != "SMC" || smc.GetAcceptance().GetDataPath() != "SMC" || digest == before {
		t.Errorf("%v, restarts: %t", smc, digest != before)
	}
}

// A peer that is granted may claim to have any number of queues; the API server must not refuse the status for that.
func TestReceivedAreBounded(t *testing.T) {
	wanted := want(t, newQueue(nil))
	facts := well(wanted)
	for i := range 200 {
		facts.Members[0].Report.Received = append(facts.Members[0].Report.Received, &wirev1.ReceivedChannel{
			Peer: "north", Namespace: "bank", Queue: strings.Repeat("q", i+1), Connected: i == 199,
		})
	}
	received := queue.Observe(wanted.Queue, &wanted, facts).Received
	if len(received) != 64 || !slices.ContainsFunc(received, func(c v1alpha1.ReceivedChannel) bool {
		return c.Connected
	}) {
		t.Errorf("%d are shown", len(received))
	}
}
