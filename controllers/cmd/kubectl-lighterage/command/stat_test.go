// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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
				{Name: "orders-0", State: "Serving", Leader: true, Current: true}, {Name: "orders-1", State: "Starting"},
				{Name: "orders-2", State: "Serving"},
			},
			Address: "tls://orders.bank.svc:4222", Compression: &v1alpha1.CompressionStatus{Engine: "isa-l"},
			Conditions: []metav1.Condition{
				{
					Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "MembersNotReady",
					Message: "orders-1 starts",
				},
			},
			Statistics: &v1alpha1.QueueStatistics{
				Depth: 12, Persistent: v1alpha1.QueueMessages{Count: 12, Bytes: 3 << 20},
				OldestMessageTime: new(metav1.NewTime(statTime.Add(-90 * time.Minute))),
				Puts:              v1alpha1.QueueRate{Count: 500, PerSecond: "12.5", HighPerSecond: "90.0"},
				Gets:              v1alpha1.QueueRate{Count: 488},
				AverageRatio:      "4.20", RecentRatio: "4.00", RefusedPuts: 2, Duplicates: 1, Unacknowledged: 3, Redelivered: 1,
				DeadLetters: 4, AverageUncompressedSize: 70 << 10, RecentUncompressedSize: 3 << 10,
				AverageCompressSeconds: "0.000120", RecentCompressSeconds: "0.000015",
				Connections: 5, Consumers: 1, RefusedConnections: 6, FailedAuthentications: 7,
				LastReset: new(metav1.NewTime(statTime.Add(-24 * time.Hour))),
			},
		},
	}
}

func TestStatText(t *testing.T) {
	empty := busy()
	empty.Spec.Storage.Type = v1alpha1.QueueStorageMemory
	empty.Status = v1alpha1.QueueStatus{
		Ready: "1/1", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		Statistics: &v1alpha1.QueueStatistics{},
	}
	spilling := busy()
	spilling.Spec.Storage.Type, spilling.Spec.Storage.Spill = v1alpha1.QueueStorageMemory,
		&v1alpha1.QueueSpill{Size: resource.MustParse("40Gi")}
	spilling.Status = v1alpha1.QueueStatus{Ready: "1/1", Statistics: &v1alpha1.QueueStatistics{
		Sweeps: new(int64(8)), AbortedSweeps: new(int64(2)), SweptBytes: new(int64(3 << 20)),
	}, Conditions: empty.Status.Conditions}
	fresh := busy()
	fresh.Status = v1alpha1.QueueStatus{}
	sending := busy()
	sending.Status = v1alpha1.QueueStatus{
		Ready: "1/1", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		Channel: &v1alpha1.QueueChannelStatus{
			State: "Running", Destination: "west/bank/orders", NegotiatedCodec: "zstd", Messages: 40, MessagesPerSecond: "1.5",
			InDoubt: 2,
			LastError: &v1alpha1.ChannelError{
				Reason: "PeerUnreachable", Message: "no answer", Time: new(metav1.NewTime(statTime.Add(-time.Hour))),
			},
		},
		Received: []v1alpha1.ReceivedChannel{
			{
				Source: "north/bank/a", Connected: true, NegotiatedCodec: "deflate", Messages: 7,
				LastError: &v1alpha1.ChannelError{Reason: "Old", Message: "over"},
			},
			{
				Source: "south/bank/b", Messages: 3,
				LastError: &v1alpha1.ChannelError{Reason: "NotGranted", Message: "no PeerGrant"},
			},
		},
	}
	rescued := busy()
	rescued.Status = v1alpha1.QueueStatus{
		Ready: "0/1", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		Archive: &v1alpha1.QueueArchiveStatus{
			Path: "orders.2", Behind: 3, Ranges: 2, RangeBytes: 5 << 20, Messages: 70, Ratio: "4.10",
			LastError: &v1alpha1.QueueArchiveError{
				Reason: "DestinationFull", Message: "make it larger", Time: new(metav1.NewTime(statTime.Add(-time.Hour))),
			},
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
		rows    string              // names of all, in order
		facts   map[string][]string // by name of the row
	}{
		"busy": {busy(), serviceStat{Serves: true, Where: "pod orders-0", Seconds: 0.0123},
			"members,problem,address,depth,oldest,stored,unacknowledged,dead letters,puts,gets,ratio,compressed size," +
				"compress time,connections,counted since,service",
			map[string][]string{
				"members": {"2/3", "orders-0", "orders-1", "Starting", "orders-2"},
				"problem": {"MembersNotReady", "orders-1 starts"}, "address": {"tls://orders.bank.svc:4222"},
				"depth": {"12"}, "oldest": {"90m"}, "stored": {"3.00 MiB", "10Gi"}, "unacknowledged": {"3", "1"},
				"dead letters": {"4"},
				"puts":         {"500", "12.5/s", "90.0/s", "2", "1"}, "gets": {"488", "0/s"}, "ratio": {"4.20", "4.00", "isa-l"},
				"compressed size": {"70.00 KiB", "3.00 KiB"}, "compress time": {"120 µs", "15 µs"},
				"connections":   {"5", "1", "6", "7"},
				"counted since": {"2026-05-03T03:02:01Z"}, "service": {"pod orders-0", "12 ms"},
			}},
		"empty": {empty, serviceStat{Error: "you may not"}, "members,depth,stored,unacknowledged,dead " +
			"letters,puts,gets,ratio,connections,service",
			map[string][]string{"members": {"1/1"}, "stored": {"0 B", "memory"}, "service": {"you may not"}}},
		"spilling": {spilling, serviceStat{Error: "you may not"}, "members,depth,stored,sweeps,unacknowledged,dead " +
			"letters,puts,gets,ratio,connections,service",
			map[string][]string{"stored": {"0 B", "40Gi", "memory"}, "sweeps": {"8", "3.00 MiB", "2 aborted"}}},
		"no member answers": {silent, serviceStat{Error: "you may not"}, "members,content,depth,stored,unacknowledged,dead " +
			"letters,puts,gets,ratio,connections,service",
			map[string][]string{"content": {"3m"}, "depth": {"12"}}},
		"channels": {sending, serviceStat{Error: "you may not"}, "members,messages,channel to,sent,ended last,channel " +
			"from,channel from,ended last,service",
			map[string][]string{
				"channel to": {"west/bank/orders", "Running", "zstd"}, "sent": {"40", "1.5/s", "2"},
				"ended last":   {"60m", "PeerUnreachable: no answer", "NotGranted: no PeerGrant"},
				"channel from": {"north/bank/a", "Running", "deflate", "7", "south/bank/b", "Disconnected", "3"},
			}},
		"archive": {rescued, serviceStat{Error: "you may not"}, "members,messages,archive,archived,failed " +
			"last,restore,recovery,failed last,service",
			map[string][]string{
				"archive": {"orders.2", "3", "5.00 MiB", "2"}, "archived": {"70", "4.10"},
				"failed last": {"60m", "DestinationFull: make it larger", "InvalidData: a file is damaged"},
				"restore":     {"Failed", "50", "orders.1"}, "recovery": {"40.00 MB/s", "0.004000 s"},
			}},
		"new": {fresh, serviceStat{Error: "none is ready"}, "problem,messages,service", nil},
		"stalled": {
			stalled, serviceStat{Error: "none\nis ready"}, "problem,messages,service",
			map[string][]string{"problem": {"NoSecret: make the Secret"}, "service": {"none is ready"}},
		},
	} {
		found := statOf(test.queue)
		found.Service = test.service
		var out strings.Builder
		if err := found.writeText(&out, statTime); err != nil {
			t.Fatal(err)
		}
		head, table, _ := strings.Cut(out.String(), "\n")
		if head != "Queue bank/orders" {
			t.Errorf("%s: %q", name, head)
		}
		var names []string
		values := map[string]string{}
		for line := range strings.Lines(table) {
			label, value, _ := strings.Cut(strings.TrimSpace(line), "  ")
			names = append(names, label)
			values[label] += " " + strings.TrimSpace(value)
		}
		if got := strings.Join(names, ","); got != test.rows {
			t.Errorf("%s: rows %s\n%s", name, got, out.String())
		}
		for label, facts := range test.facts {
			for _, fact := range facts {
				if !strings.Contains(values[label], fact) {
					t.Errorf("%s: %q is not in row %s: %s", name, fact, label, values[label])
				}
			}
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
	if !found.Service.Serves || found.Service.Where != "pod orders-2" || found.Statistics == nil ||
		found.Statistics.Depth != 12 || found.Statistics.DeadLetters != 4 {
		t.Errorf("%+v", found)
	}
	if len(service.messages) != 1 || len(service.given) != 0 {
		t.Errorf("asking took a message")
	}
	asYAML := slices.Clone(arguments)
	asYAML[4] = "yaml"
	out, _, err := try(t, "", asYAML...)
	var same queueStat
	if err == nil {
		err = yaml.Unmarshal([]byte(out), &same)
	}
	if err != nil || same.Queue != "orders" || same.Statistics == nil || same.Statistics.Depth != 12 {
		t.Errorf("%v: %s", err, out)
	}
	cluster.forbidden = []string{"/secrets/"}
	if found = stat(); found.Service.Serves || !strings.Contains(found.Service.Error, "verb get") ||
		found.Statistics.Depth != 12 {
		t.Errorf("%+v", found)
	}
	cluster.forbidden = []string{"/queues/"}
	if _, _, err := try(t, "", arguments...); err == nil || !strings.Contains(err.Error(), "get on queues") {
		t.Errorf("got %v", err)
	}
}
