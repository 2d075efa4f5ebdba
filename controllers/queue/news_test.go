// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestNews: what conditions follow from is news, what is counted is not.
func TestNews(t *testing.T) {
	before := func() *wirev1.QueueReport {
		return &wirev1.QueueReport{
			State: wirev1.QueueState_QUEUE_STATE_SERVING, Revision: "a",
			Content:    &wirev1.QueueContent{Leader: "orders-0", Messages: 1},
			Statistics: &wirev1.QueueStatistics{}, Compression: &wirev1.Compression{Engine: "dfltcc"},
			Channel: &wirev1.ChannelStatus{State: wirev1.ChannelState_CHANNEL_STATE_RUNNING},
			Archive: &wirev1.QueueArchiveStatus{Sequence: 1},
			Restore: &wirev1.QueueRestoreStatus{Sequence: 1},
		}
	}
	failure := func(message string) *wirev1.Failure {
		return &wirev1.Failure{Reason: wirev1.FailureReason_FAILURE_REASON_STORAGE_FULL, Message: message}
	}
	for name, test := range map[string]struct {
		change func(*wirev1.QueueReport)
		news   bool
	}{
		"messages":     {func(r *wirev1.QueueReport) { r.Content.Messages = 7 }, false},
		"statistics":   {func(r *wirev1.QueueReport) { r.Statistics.Opened = 7; r.WireBytes = 7 }, false},
		"compression":  {func(r *wirev1.QueueReport) { r.Compression.UncompressedBytes = 7 }, false},
		"channel":      {func(r *wirev1.QueueReport) { r.Channel.Messages = 7 }, false},
		"archive":      {func(r *wirev1.QueueReport) { r.Archive.Sequence = 7 }, false},
		"restore":      {func(r *wirev1.QueueReport) { r.Restore.Sequence = 7 }, false},
		"state":        {func(r *wirev1.QueueReport) { r.State = wirev1.QueueState_QUEUE_STATE_DRAINING }, true},
		"revision":     {func(r *wirev1.QueueReport) { r.Revision = "b" }, true},
		"leader":       {func(r *wirev1.QueueReport) { r.Content.Leader = "orders-1" }, true},
		"unreachable":  {func(r *wirev1.QueueReport) { r.Content.Unreachable = 1 }, true},
		"reset":        {func(r *wirev1.QueueReport) { r.Statistics.Reset_ = "monday" }, true},
		"engine":       {func(r *wirev1.QueueReport) { r.Compression.Engine = "go" }, true},
		"channel ends": {func(r *wirev1.QueueReport) { r.Channel.State = wirev1.ChannelState_CHANNEL_STATE_RETRYING }, true},
		"archived":     {func(r *wirev1.QueueReport) { r.Archive.LastTime = timestamppb.Now() }, true},
		"restored":     {func(r *wirev1.QueueReport) { r.Restore.Done = true }, true},
		"volume":       {func(r *wirev1.QueueReport) { r.StorageFailure = failure("7 bytes are left") }, true},
		"certificate":  {func(r *wirev1.QueueReport) { r.Certificate = &wirev1.HTTPCertificate{State: 3} }, true},
	} {
		after := before()
		test.change(after)
		if news := !proto.Equal(stateOf(before()), stateOf(after)); news != test.news {
			t.Errorf("%s: news: %v", name, news)
		}
	}
	was, is := before(), before()
	was.StorageFailure, is.StorageFailure = failure("7 bytes are left"), failure("6 bytes are left")
	if !proto.Equal(stateOf(was), stateOf(is)) {
		t.Error("a failure in other words is news")
	}
}
