// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/queue"
)

// follow observes a queue again and again.
type follow struct {
	*testing.T
	wanted queue.Wanted
	at     time.Time
}

func newFollow(t *testing.T, q *v1alpha1.Queue) *follow {
	t.Helper()
	return &follow{t, wantWith(t, q, queue.Neighbours{NamespaceUID: "namespace-1"}), now}
}

// see observes members that have a stream of a time, with so many messages; none is known when it is zero.
func (f *follow) see(created time.Time, messages uint64) v1alpha1.QueueStatus {
	facts := well(f.wanted)
	f.at = f.at.Add(time.Minute)
	facts.Now = f.at
	for _, member := range facts.Members {
		if created.IsZero() {
			member.Report.Content = nil
			continue
		}
		member.Report.Content.Created, member.Report.Content.Messages, member.Report.Content.Bytes = timestamppb.New(created),
			messages, 100*messages
	}
	f.wanted.Queue.Status = queue.Observe(f.wanted.Queue, &f.wanted, facts)
	return f.wanted.Queue.Status
}

func (f *follow) ready(status v1alpha1.QueueStatus) {
	f.Helper()
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) || status.Loss != nil {
		f.Errorf("loss %+v, conditions %+v", status.Loss, status.Conditions)
	}
}

func (f *follow) lost(status v1alpha1.QueueStatus, messages int64, says ...string) {
	f.Helper()
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != "True" || stalled.Reason != v1alpha1.ReasonMessagesLost || status.Loss == nil ||
		status.Loss.Messages.Count != messages {
		f.Fatalf("loss %+v, conditions %+v", status.Loss, status.Conditions)
	}
	for _, text := range says {
		if !strings.Contains(stalled.Message, text) {
			f.Errorf("%q lacks %q", stalled.Message, text)
		}
	}
}

// TestLoss: a stream in place of the one that was is a loss, which is shown until somebody accepts this very one.
func TestLoss(t *testing.T) {
	f := newFollow(t, newQueue(nil))
	first, second, third := now.Add(-time.Hour+123*time.Millisecond), now, now.Add(time.Hour)
	f.ready(f.see(first, 41))
	f.ready(f.see(first, 42))
	if s := f.wanted.Queue.Status.Statistics; s.ContentTime != nil {
		t.Errorf("what members say is as of %v", s.ContentTime)
	}
	known := f.wanted.Queue.Status.Statistics
	f.see(time.Time{}, 0)
	since := f.at
	status := f.see(time.Time{}, 0)
	if s := status.Statistics; s.Depth != 42 || s.Consumers != known.Consumers ||
		s.Unacknowledged != known.Unacknowledged || s.Redelivered != known.Redelivered ||
		s.ContentTime == nil || !s.ContentTime.Time.Equal(since.Truncate(time.Second)) {
		t.Errorf("while nobody knows, it is %+v", s)
	}
	f.lost(
		f.see(second, 0), 42, "42 messages (4200 bytes", "2026-03-04T04:06:07Z",
		"kubectl annotate queue -n bank orders --overwrite lighterage.dev/accept-loss=2026-03-04T05:06:07Z",
	)
	f.lost(f.see(second, 3), 42)
	status = f.see(second, 3)
	if loss := status.Loss; !loss.FormerCreationTime.Time.Equal(first.Truncate(time.Second)) ||
		!loss.StreamCreationTime.Time.Equal(second) || !loss.NoticedTime.Time.Equal(now.Add(5*time.Minute)) ||
		loss.Messages.Bytes != 4200 {
		t.Errorf("loss %+v", loss)
	}
	// An annotation of another loss, or of none, accepts nothing.
	for _, value := range []string{"true", "2026-03-04T04:06:07Z"} {
		f.wanted.Queue.Annotations = map[string]string{v1alpha1.AcceptLossAnnotation: value}
		f.lost(f.see(second, 3), 42)
	}
	f.wanted.Queue.Annotations[v1alpha1.AcceptLossAnnotation] = "2026-03-04T05:06:07Z"
	f.ready(f.see(second, 3))
	// It does not accept the next one. Of two that nobody accepted, the first stays known.
	f.lost(f.see(third, 0), 3)
	f.see(third, 5)
	f.lost(f.see(third.Add(time.Hour), 0), 8, second.Format(time.RFC3339))
}

// TestNoLoss: what is none.
func TestNoLoss(t *testing.T) {
	memory := newFollow(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Storage.Type = v1alpha1.QueueStorageMemory }))
	memory.ready(memory.see(now, 7))
	memory.ready(memory.see(now.Add(time.Hour), 0))
	spills := newFollow(t, newQueue(spilling("10Gi")))
	spills.ready(spills.see(now, 7))
	if s := spills.wanted.Queue.Status.Statistics; s.NonPersistent.Count != 7 || s.Persistent.Count != 0 {
		t.Errorf("messages in memory that spills: %+v", s)
	}
	spills.ready(spills.see(now.Add(time.Hour), 0))

	// Status of a manager that did not know of it, and members that do not say it.
	older := newFollow(t, newQueue(nil))
	older.see(now, 7)
	older.wanted.Queue.Status.StreamCreationTime = nil
	older.ready(older.see(now.Add(time.Hour), 7))
	older.see(time.Time{}, 0)
	older.ready(older.see(now.Add(time.Hour), 7))
}

// TestLossElsewhere: external servers may lose a stream as well; what keeps clients from being served is said before
// it.
func TestLossElsewhere(t *testing.T) {
	f := newFollow(t, newQueue(inExternal(authority(t, "nats"))))
	f.ready(f.see(now, 7))
	f.lost(f.see(now.Add(time.Hour), 0), 7, "in the external servers")
	facts := well(f.wanted)
	facts.Members[0].Report.ExternalFailure = &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED, Message: "let them in",
	}
	status := queue.Observe(f.wanted.Queue, &f.wanted, facts)
	if c := meta.FindStatusCondition(
		status.Conditions, v1alpha1.ConditionStalled,
	); c.Reason != v1alpha1.ReasonExternalRefused || status.Loss == nil {
		t.Errorf("loss %+v, condition %+v", status.Loss, c)
	}
	archived := newFollow(t, newQueue(nil))
	archived.wanted.Queue.Spec.Archive = &v1alpha1.QueueArchive{}
	archived.see(now, 7)
	archived.see(now.Add(time.Hour), 0)
	archived.lost(archived.wanted.Queue.Status, 7, "spec.restore")
}
