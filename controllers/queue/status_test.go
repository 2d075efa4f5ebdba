// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/queue"
)

func TestStates(t *testing.T) {
	three := func(s *v1alpha1.QueueSpec) {
		s.Replicas = 3
		s.TLS = &v1alpha1.QueueTLS{SecretName: "orders-tls"}
	}
	for name, test := range map[string]struct {
		change    func(*queue.Facts)
		condition string
		reason    string
		says      string
	}{
		"well": {
			func(*queue.Facts) {}, v1alpha1.ConditionReady, v1alpha1.ReasonServing, "tls://orders.bank.svc:4222",
		},
		"nothing there": {func(f *queue.Facts) { f.Set = nil }, v1alpha1.ConditionReconciling, v1alpha1.ReasonPending, ""},
		"kept": {
			func(f *queue.Facts) {
				f.Kept = &agentpod.Problem{Reason: v1alpha1.ReasonMessagesRemain, Message: "has 2"}
			},
			v1alpha1.ConditionStalled, v1alpha1.ReasonMessagesRemain, "has 2",
		},
		"refused": {
			func(f *queue.Facts) { f.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonRefused, Message: "quota"} },
			v1alpha1.ConditionStalled, v1alpha1.ReasonRefused, "meanwhile 3 members",
		},
		"no certificate": {func(f *queue.Facts) {
			f.Members[1].Report.Certificate.State = wirev1.CertificateState_CERTIFICATE_STATE_MISSING
		}, v1alpha1.ConditionStalled, v1alpha1.ReasonCertificateNotFound, "orders-tls"},
		"no tokens": {
			func(f *queue.Facts) { f.Members[2].Report.AuthenticationError = "there is no token" }, v1alpha1.ConditionStalled,
			v1alpha1.ReasonAuthenticationUnusable, `"orders-tokens"`,
		},
		"not accepted": {func(f *queue.Facts) {
			f.Members[0].Report.Revision, f.Members[0].Report.ConfigError = "older", "less than is stored"
		}, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec, "less than is stored"},
		"limits of before": {func(f *queue.Facts) {
			f.Members[0].Report.Revision, f.Members[0].Report.ConfigError = "", "insufficient storage"
		}, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut, "insufficient storage"},
		"one not ready, which says why": {func(f *queue.Facts) {
			f.Set.Status.ReadyReplicas, f.Members[1].Report.Detail = 2, "the store is not ready"
		}, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut, "-1: the store is not ready"},
		"one away, whose space counts": {func(f *queue.Facts) {
			f.Set.Status.ReadyReplicas, f.Members[0].Report.Detail = 2, "messages may take 65536 bytes"
			f.Members = f.Members[:2]
		}, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut, "-0: messages may take 65536 bytes; 3 of 3 run"},
		"volume full": {func(f *queue.Facts) {
			f.Set.Status.ReadyReplicas = 2
			f.Members[1].Report.StorageFailure = &wirev1.Failure{
				Reason: wirev1.FailureReason_FAILURE_REASON_STORAGE_FULL, Message: "no space left on device",
			}
		}, v1alpha1.ConditionStalled, v1alpha1.ReasonStorageFull, "make spec.storage.size, which is 1Gi, larger"},
		"volume broken": {func(f *queue.Facts) {
			f.Set.Status.ReadyReplicas = 2
			f.Members[1].Report.StorageFailure = &wirev1.Failure{
				Reason: wirev1.FailureReason_FAILURE_REASON_STORAGE_FAILED, Message: "read-only file system",
			}
		}, v1alpha1.ConditionStalled, v1alpha1.ReasonStorageFailed, "node z15-1"},
		"limit not moved": {func(f *queue.Facts) {
			f.Members[1].Report.StorageFailure = &wirev1.Failure{
				Reason: wirev1.FailureReason_FAILURE_REASON_INTERNAL, Message: "the limit could not follow",
			}
		}, v1alpha1.ConditionStalled, v1alpha1.ReasonInternal, "-1: the limit could not follow; the member uses its volume " +
			"meanwhile, and tries again by itself"},
		"one not ready": {
			func(f *queue.Facts) { f.Set.Status.ReadyReplicas = 2 }, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut,
			"2 of 3 members are ready and serve clients",
		},
		"one that catches up": {func(f *queue.Facts) {
			f.Set.Status.ReadyReplicas = 2
			for _, m := range f.Members {
				m.Report.Content.Lag = 70
			}
		}, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut, "one lacks 70 changes"},
		"most are gone": {func(f *queue.Facts) {
			f.Set.Status.ReadyReplicas, f.Members = 1, f.Members[:1]
			f.Members[0].Report.Content = nil
		}, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut, "nothing can be put or got"},
		"silent": {
			func(f *queue.Facts) { f.Members[1].Report = nil }, v1alpha1.ConditionReconciling, v1alpha1.ReasonAgentUnreachable,
			"-1)",
		},
		"older": {
			func(f *queue.Facts) { f.Members[1].Report.Revision = "older" }, v1alpha1.ConditionReconciling,
			v1alpha1.ReasonRollingOut, "1 of 3",
		},
		"no leader": {func(f *queue.Facts) {
			for _, m := range f.Members {
				m.Report.Content.Leader = ""
			}
		}, v1alpha1.ConditionReconciling, v1alpha1.ReasonNoLeader, "6222"},
		"fewer copies": {
			func(f *queue.Facts) { f.Members[0].Report.Content.Unreachable = 1 }, v1alpha1.ConditionReconciling,
			v1alpha1.ReasonMembersUnreachable, "1 member is not reached",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := want(t, newQueue(three))
			facts := well(wanted)
			test.change(&facts)
			status := queue.Observe(wanted.Queue, &wanted, facts)
			found := meta.FindStatusCondition(status.Conditions, test.condition)
			if found == nil || found.Status != "True" || found.Reason != test.reason ||
				!strings.Contains(found.Message, test.says) {
				t.Fatalf("%s in place of %s: %+v", test.condition, test.reason, status.Conditions)
			}
			// Only what is gone for good may be deleted.
			if strings.Contains(found.Message, "delete the claim") != (test.reason == v1alpha1.ReasonStorageFailed) {
				t.Errorf("%s is to be fixed so: %s", test.reason, found.Message)
			}
		})
	}
}

// A pod that the StatefulSet controller may not create stalls the Queue; one that it is about to create again does not.
func TestPodsThatAreNotCreated(t *testing.T) {
	q := newQueue(func(s *v1alpha1.QueueSpec) { s.Replicas = 3 })
	wanted := want(t, q)
	facts := well(wanted)
	facts.Set.Status.ReadyReplicas, facts.Members = 2, facts.Members[:2]
	start := facts.Now
	for _, step := range []struct {
		after   time.Duration
		stalled bool
	}{{0, false}, {time.Minute, false}, {5 * time.Minute, true}, {10 * time.Minute, true}} {
		facts.Now = start.Add(step.after)
		q.Status = queue.Observe(q, &wanted, facts)
		stalled := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionStalled)
		if got := stalled.Status == metav1.ConditionTrue && stalled.Reason == v1alpha1.ReasonRefused; got != step.stalled {
			t.Errorf("after %s: %+v", step.after, stalled)
		}
	}
	// The quota was raised, and days later a pod is deleted.
	facts = well(wanted)
	facts.Now = start.Add(time.Hour)
	q.Status = queue.Observe(q, &wanted, facts)
	facts.Set.Status.ReadyReplicas, facts.Members, facts.Now = 2, facts.Members[:2], start.Add(48*time.Hour)
	if q.Status = queue.Observe(q, &wanted, facts); meta.IsStatusConditionTrue(
		q.Status.Conditions, v1alpha1.ConditionStalled,
	) {
		t.Errorf("a pod that was deleted: %+v", q.Status.Conditions)
	}
}

func TestStatisticsAreSums(t *testing.T) {
	wanted := want(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Replicas = 3 }))
	facts := well(wanted)
	for i, m := range facts.Members {
		r, n := m.Report, uint64(i+1)
		r.Content = &wirev1.QueueContent{
			Messages: 10 * n, DeadLetters: 4 * n, Kept: 20 * n, Bytes: 2000 * n, LastSequence: 100 - n,
			Leader: wanted.Config.GetMembers()[1].GetName(), Consumers: n,
		}
		r.Statistics.Puts = &wirev1.QueueRate{Count: n, MilliPerSecond: 1500, HighMilliPerSecond: 2500}
		r.Statistics.Compressions = &wirev1.QueueRate{Count: 2}
		r.Statistics.Tried, r.Statistics.TriedNanos = 5, 1e6
		r.Statistics.VolumeSyncs = &wirev1.QueueVolumeSyncs{
			Count: n, LastNanos: 1e6 * n, HighNanos: 1e9 / n, WaitingNanos: 2e9 * (n / 2), Failed: 1,
		}
		r.Statistics.CompressedPlainBytes, r.Statistics.CompressedBytes = 8000, 2000
		r.Statistics.RecentPlainBytes, r.Statistics.RecentBytes = 600, 200
		r.Statistics.RecentTried, r.Statistics.RecentTriedNanos = 2, 1e6
		if i > 0 { // the first is of an earlier version
			r.Statistics.RecentOperations = 3
		}
		r.Statistics.Reset_ = "monday"
		r.Compression = &wirev1.Compression{
			Engine: "dfltcc", Reason: v1alpha1.CompressionHardwareUsed, UncompressedBytes: 8000, CompressedBytes: 2000,
			Hardware: &wirev1.Operations{Operations: 2, Bytes: 8000},
		}
		r.Decompression = &wirev1.Decompression{Fallback: &wirev1.Operations{Operations: n}}
		r.Cpu = &wirev1.CPU{SendNanos: 3e9, IdleNanos: 2e9, CompressNanos: 3e6}
	}
	status := queue.Observe(wanted.Queue, &wanted, facts)
	s := status.Statistics
	if s.Depth != 20 || s.Persistent.Bytes != 4000 || s.Persistent.Count != 20 || s.DeadLetters != 8 ||
		s.NonPersistent.Count != 0 || s.AverageSize != 100 || s.Consumers != 2 {
		t.Errorf("content of another member than the leader: %+v", s)
	}
	if s.Puts != (v1alpha1.QueueRate{Count: 6, PerSecond: "4.5", HighPerSecond: "7.5"}) {
		t.Errorf("puts %+v", s.Puts)
	}
	if s.AverageRatio != "4.00" || s.RecentRatio != "3.00" || s.AverageUncompressedSize != 4000 ||
		s.RecentUncompressedSize != 200 || s.AverageCompressSeconds != "0.000200" ||
		s.RecentCompressSeconds != "0.000500" {
		t.Errorf(
			"ratio %s, recently %s, size %d, recently %d, %s s, recently %s s", s.AverageRatio, s.RecentRatio,
			s.AverageUncompressedSize, s.RecentUncompressedSize, s.AverageCompressSeconds, s.RecentCompressSeconds,
		)
	}
	if want := (v1alpha1.QueueVolumeSync{
		Count: 6, Failed: 3, LastSeconds: "0.003000", HighSeconds: "1.000000", WaitingSeconds: "2.000000",
	}); s.VolumeSync == nil || *s.VolumeSync != want {
		t.Errorf("syncs of the volumes %+v", s.VolumeSync)
	}
	if s.LastResetRequest != "monday" {
		t.Errorf("last reset %q", s.LastResetRequest)
	}
	if status.Compression.SavedPercent != 75 || status.Compression.Engine != "dfltcc" ||
		status.Decompression.Fallback.Operations != 6 || status.CPU.SendSeconds != "9.00" ||
		status.CPU.IdleSeconds != "6.00" {
		t.Errorf("compression %+v, decompression %+v, CPU %+v", status.Compression, status.Decompression, status.CPU)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionHardwareCompression) {
		t.Errorf("conditions %+v", status.Conditions)
	}
	if !status.Members[1].Leader || status.Members[0].Leader || status.Members[0].State != "Serving" ||
		!status.Members[0].Current {
		t.Errorf("members %+v", status.Members)
	}

	// One that has not acted on the reset yet: the old request stays shown.
	facts.Members[2].Report.Statistics.Reset_ = ""
	wanted.Queue.Status = status
	if got := queue.Observe(wanted.Queue, &wanted, facts).Statistics.LastResetRequest; got != "monday" {
		t.Errorf("last reset %q", got)
	}
	facts.RefreshStatistics = false
	facts.Members[0].Report.Statistics.Puts.Count = 99
	if got := queue.Observe(wanted.Queue, &wanted, facts).Statistics.Puts.Count; got != 6 {
		t.Errorf("%d puts though statistics are not due", got)
	}
}
