// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

var statTime = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func busy() *v1alpha1.Queue {
	return &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "orders"},
		Spec:       v1alpha1.QueueSpec{Storage: v1alpha1.QueueStorage{Size: resource.MustParse("10Gi")}},
		Status: v1alpha1.QueueStatus{
			Ready: "2/3",
			Members: []v1alpha1.QueueMember{
				{Name: "orders-0", State: "Serving", Leader: true, Current: true}, {Name: "orders-1", State: "Starting"}, {Name: "orders-2", State: "Serving"},
			},
			Address: "tls://orders.bank.svc:4222", Compression: &v1alpha1.CompressionStatus{Engine: "isa-l"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "MembersNotReady", Message: "orders-1 starts"}},
			Statistics: &v1alpha1.QueueStatistics{
				Depth: 12, Persistent: v1alpha1.QueueMessages{Count: 12, Bytes: 3 << 20}, OldestMessageTime: new(metav1.NewTime(statTime.Add(-90 * time.Minute))),
				Puts: v1alpha1.QueueRate{Count: 500, PerSecond: "12.5", HighPerSecond: "90.0"}, Gets: v1alpha1.QueueRate{Count: 488},
				AverageRatio: "4.20", RecentRatio: "4.00", RefusedPuts: 2, Duplicates: 1, Unacknowledged: 3, Redelivered: 1, DeadLetters: 4,
				Connections: 5, Consumers: 1, RefusedConnections: 6, FailedAuthentications: 7, LastReset: new(metav1.NewTime(statTime.Add(-24 * time.Hour))),
			},
		},
	}
}

func TestStatText(t *testing.T) {
	empty := busy()
	empty.Spec.Storage.Type = v1alpha1.QueueStorageMemory
	empty.Status = v1alpha1.QueueStatus{Ready: "1/1", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}, Statistics: &v1alpha1.QueueStatistics{}}
	fresh := busy()
	fresh.Status = v1alpha1.QueueStatus{}
	sending := busy()
	sending.Status = v1alpha1.QueueStatus{
		Ready: "1/1", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		Channel: &v1alpha1.QueueChannelStatus{
			State: "Running", Destination: "west/bank/orders", NegotiatedCodec: "zstd", Messages: 40, MessagesPerSecond: "1.5", InDoubt: 2,
			LastError: &v1alpha1.ChannelError{Reason: "PeerUnreachable", Message: "no answer", Time: new(metav1.NewTime(statTime.Add(-time.Hour)))},
		},
		Received: []v1alpha1.ReceivedChannel{
			{Source: "north/bank/a", Connected: true, NegotiatedCodec: "deflate", Messages: 7, LastError: &v1alpha1.ChannelError{Reason: "Old", Message: "over"}},
			{Source: "south/bank/b", Messages: 3, LastError: &v1alpha1.ChannelError{Reason: "NotGranted", Message: "no PeerGrant"}},
		},
	}
	rescued := busy()
	rescued.Status = v1alpha1.QueueStatus{
		Ready: "0/1", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		Archive: &v1alpha1.QueueArchiveStatus{
			Path: "orders.2", Behind: 3, Ranges: 2, RangeBytes: 5 << 20, Messages: 70, Ratio: "4.10",
			LastError: &v1alpha1.QueueArchiveError{Reason: "DestinationFull", Message: "make it larger", Time: new(metav1.NewTime(statTime.Add(-time.Hour)))},
		},
		Restore: &v1alpha1.QueueRestoreStatus{
			State: "Failed", Messages: 50, Path: "orders.1", MegabytesPerSecond: "40.00", CPUSecondsPerMegabyte: "0.004000",
			LastError: &v1alpha1.QueueArchiveError{Reason: "InvalidData", Message: "a file is damaged"},
		},
	}
	stalled := busy()
	stalled.Status = v1alpha1.QueueStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "No", Message: "it is not"},
		{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "NoSecret", Message: "make the Secret"},
	}}
	silent := busy()
	silent.Status = v1alpha1.QueueStatus{
		Ready: "0/1", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		Statistics: &v1alpha1.QueueStatistics{Depth: 12, ContentTime: new(metav1.NewTime(statTime.Add(-3 * time.Minute)))},
	}
	for name, test := range map[string]struct {
		queue   *v1alpha1.Queue
		service serviceStat
		want    string
	}{
		"busy": {busy(), serviceStat{Serves: true, Where: "pod orders-0", Seconds: 0.0123}, `Queue bank/orders
  members         2/3 ready; orders-0 leads; orders-1 is Starting; orders-2 has not taken the present spec
  problem         MembersNotReady: orders-1 starts
  address         tls://orders.bank.svc:4222
  depth           12 messages
  oldest          90m ago
  stored          3.0Mi of 10Gi
  unacknowledged  3, of which 1 were delivered before
  dead letters    4
  puts            500, now 12.5/s, at most 90.0/s; 2 refused, 1 duplicates
  gets            488, now 0/s
  ratio           4.20, recently 4.00, by isa-l
  connections     5 of clients, 1 consumers; 6 refused, 7 without a valid token or certificate
  counted since   2026-05-03T03:02:01Z
  service         pod orders-0 serves you, asked and answered in 12 ms
`},
		"empty": {empty, serviceStat{Error: "you may not"}, `Queue bank/orders
  members         1/1 ready
  depth           0 messages
  stored          0 B of 10Gi, in memory: lost when the last member ends
  unacknowledged  0, of which 0 were delivered before
  dead letters    0
  puts            0, now 0/s; 0 refused, 0 duplicates
  gets            0, now 0/s
  ratio           nothing was compressed
  connections     0 of clients, 0 consumers; 0 refused, 0 without a valid token or certificate
  service         does not serve you, or could not be asked: you may not
`},
		"no member answers": {silent, serviceStat{Error: "you may not"}, `Queue bank/orders
  members         0/1 ready
  content         not known for 3m; this is what it was then
  depth           12 messages
  stored          0 B of 10Gi
  unacknowledged  0, of which 0 were delivered before
  dead letters    0
  puts            0, now 0/s; 0 refused, 0 duplicates
  gets            0, now 0/s
  ratio           nothing was compressed
  connections     0 of clients, 0 consumers; 0 refused, 0 without a valid token or certificate
  service         does not serve you, or could not be asked: you may not
`},
		"channels": {sending, serviceStat{Error: "you may not"}, `Queue bank/orders
  members       1/1 ready
  messages      not known: no member has reported yet
  channel to    west/bank/orders, Running in zstd
  sent          40 messages, now 1.5/s, 2 in doubt
  ended last    60m ago: PeerUnreachable: no answer
  channel from  north/bank/a, Running in deflate, 7 messages
  channel from  south/bank/b, Disconnected, 3 messages
  ended last    NotGranted: no PeerGrant
  service       does not serve you, or could not be asked: you may not
`},
		"archive": {rescued, serviceStat{Error: "you may not"}, `Queue bank/orders
  members      0/1 ready
  messages     not known: no member has reported yet
  archive      orders.2, 3 messages behind, 5.0Mi in 2 files
  archived     70 messages, ratio 4.10
  failed last  60m ago: DestinationFull: make it larger
  restore      Failed, 50 messages of orders.1
  recovery     40.00 MB/s, 0.004000 s of CPU per MB
  failed last  InvalidData: a file is damaged
  service      does not serve you, or could not be asked: you may not
`},
		"new": {fresh, serviceStat{Error: "none is ready"}, `Queue bank/orders
  problem   the manager has not seen it yet
  messages  not known: no member has reported yet
  service   does not serve you, or could not be asked: none is ready
`},
		"stalled": {stalled, serviceStat{Error: "none is ready"}, `Queue bank/orders
  problem   NoSecret: make the Secret
  messages  not known: no member has reported yet
  service   does not serve you, or could not be asked: none is ready
`},
	} {
		found := statOf(test.queue)
		found.Service = test.service
		var out strings.Builder
		if err := found.writeText(&out, statTime); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, out.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0Ki", 5 << 30: "5.0Gi", 1 << 50: "1024.0Ti"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestStat asks the status and the service, and says what it can where the service may not be asked.
func TestStat(t *testing.T) {
	service := startService(t)
	service.add("a message")
	cluster := startCluster(t, service)
	cluster.queue.Status.Statistics = busy().Status.Statistics
	arguments := []string{"queue", "stat", "orders", "-o", "json", "--kubeconfig", cluster.kubeconfig}
	stat := func() queueStat {
		t.Helper()
		out, _, err := try(t, "", arguments...)
		if err != nil {
			t.Fatal(err)
		}
		var found queueStat
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	found := stat()
	if !found.Service.Serves || found.Service.Where != "pod orders-2" || found.Statistics == nil || found.Statistics.Depth != 12 || found.Statistics.DeadLetters != 4 {
		t.Errorf("%+v", found)
	}
	if len(service.messages) != 1 || len(service.given) != 0 {
		t.Errorf("asking took a message")
	}
	cluster.forbidden = []string{"/secrets/"}
	if found = stat(); found.Service.Serves || !strings.Contains(found.Service.Error, "verb get") || found.Statistics.Depth != 12 {
		t.Errorf("%+v", found)
	}
	cluster.forbidden = []string{"/queues/"}
	if _, _, err := try(t, "", arguments...); err == nil || !strings.Contains(err.Error(), "verb get on queues") {
		t.Errorf("got %v", err)
	}
}
