// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/deadlineplan"
)

// mostBytes bounds what figures of agents make of a forecast.
const mostBytes = 1 << 60

// measured are the attempts of one run.
type measured struct {
	active      time.Duration
	bytes, wire int64
}

// ofRun sums up the attempts of a run in the history, which has at most ten, the newest first. One that was lost counts
// from the start of its run, so that what attempts before it took is left out of it.
func ofRun(history []v1alpha1.AttemptRecord, id string) (m measured) {
	var before time.Time
	for i := len(history) - 1; i >= 0; i-- {
		r := &history[i]
		if r.RunID != id || r.Duration == nil {
			continue
		}
		took := r.Duration.Duration
		if r.StartTime != nil && r.CompletionTime != nil {
			if r.StartTime.Time.Before(before) {
				took = min(took, r.CompletionTime.Sub(before))
			}
			if r.CompletionTime.After(before) {
				before = r.CompletionTime.Time
			}
		}
		m.active = min(m.active+min(max(took, 0), deadlineplan.MostActive), deadlineplan.MostActive)
		m.bytes, m.wire = addBytes(m.bytes, r.Bytes), addBytes(m.wire, r.CompressedBytes)
	}
	return m
}

// addBytes adds what agents reported, which may be anything.
func addBytes(a, b int64) int64 {
	return min(min(max(a, 0), mostBytes)+min(max(b, 0), mostBytes), mostBytes)
}

// lastRun are the figures of the newest run in the history that is complete, but for the present one.
func lastRun(history []v1alpha1.AttemptRecord, present string) measured {
	for i := range history {
		if history[i].Reason == v1alpha1.ReasonSucceeded && history[i].RunID != present {
			return ofRun(history, history[i].RunID)
		}
	}
	return measured{}
}

// workLeft is what the run has left that is under way, or what the next one will have to do: as the last complete one.
// known is false while nothing was measured.
func workLeft(status *v1alpha1.TransferStatus) (work deadlineplan.Work, known bool) {
	run := status.Run
	if run == nil || run.CompletionTime != nil {
		return likeLast(measured{}, lastRun(status.History, ""))
	}
	own, last := ofRun(status.History, run.ID), lastRun(status.History, run.ID)
	recorded := len(status.History) > 0 && status.History[0].RunID == run.ID && status.History[0].Attempt == run.Attempt
	if c := status.Compression; c != nil && !recorded {
		own.bytes = addBytes(own.bytes, c.UncompressedBytes)
	}
	work, known = byProgress(status, own, last)
	like, likeKnown := likeLast(own, last)
	if p := status.Progress; known && (p.ETA != nil || p.Bytes >= p.BytesTotal) || !likeKnown {
		return work, known
	}
	// Not all files may have been found yet.
	if !known || like.Active > work.Active {
		return like, true
	}
	return work, true
}

// likeLast is what is left of a run that is like the last one.
func likeLast(own, last measured) (work deadlineplan.Work, known bool) {
	part := 1.0
	if last.bytes > 0 {
		part = max(1-float64(own.bytes)/float64(last.bytes), 0)
	}
	return deadlineplan.Work{
		Active: time.Duration(part * float64(last.active)), WireBytes: int64(part * float64(last.wire)),
	}, last.active > 0
}

// byProgress is what is left of the bytes that were found, at the rate of now, of this run, or of the last one.
func byProgress(status *v1alpha1.TransferStatus, own, last measured) (work deadlineplan.Work, known bool) {
	p := status.Progress
	if p == nil || p.BytesTotal <= 0 {
		return deadlineplan.Work{}, false
	}
	left, rate := float64(max(p.BytesTotal-max(p.Bytes, 0), 0)), float64(p.BytesPerSecond)
	for _, m := range []measured{own, last} {
		if rate <= 0 && m.bytes > 0 && m.active > 0 {
			rate = float64(m.bytes) / m.active.Seconds()
		}
	}
	if rate <= 0 {
		return deadlineplan.Work{}, false
	}
	wire := left
	if c := status.Compression; c != nil && c.UncompressedBytes > 0 {
		wire *= float64(max(c.CompressedBytes, 0)) / float64(c.UncompressedBytes)
	}
	seconds := min(left/rate, deadlineplan.MostActive.Seconds())
	return deadlineplan.Work{
		Active: time.Duration(seconds * float64(time.Second)), WireBytes: int64(min(wire, mostBytes)),
	}, true
}
