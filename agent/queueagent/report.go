// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"net/http"
	"runtime"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// GetQueueReport implements wirev1.QueueAgentServer.
func (a *Agent) GetQueueReport(
	ctx context.Context, _ *wirev1.GetQueueReportRequest,
) (*wirev1.GetQueueReportResponse, error) {
	return &wirev1.GetQueueReportResponse{Report: a.Report(ctx)}, nil
}

// Report returns what there is to say. It is the caller's to keep. Its counters are all from before a reset or all from
// after it: the manager adds up what they have grown by.
func (a *Agent) Report(ctx context.Context) *wirev1.QueueReport {
	for {
		a.mu.Lock()
		reset := a.reset
		a.mu.Unlock()
		report := a.report(ctx)
		a.mu.Lock()
		same := reset == a.reset
		a.mu.Unlock()
		if same {
			return report
		}
	}
}

func (a *Agent) report(ctx context.Context) *wirev1.QueueReport {
	a.mu.Lock()
	r := &wirev1.QueueReport{
		State: wirev1.QueueState_QUEUE_STATE_STARTING, Version: wirev1.Version, Architecture: runtime.GOARCH,
		StartTime: timestamppb.New(a.started),
		Member:    a.options.Member, Revision: a.config.GetRevision(), ConfigError: a.configError,
		AuthenticationError: a.authError, Detail: a.detail,
	}
	if a.pending {
		r.Revision = "" // the limits of an earlier one are in effect
	}
	reset, base, unopened, held := a.reset, a.cpuBase, a.external, a.held
	longest, unmoved := maxMessage(a.config), a.unmoved.problem()
	directory := a.config.GetStorage().GetDirectory()
	a.mu.Unlock()
	r.Certificate = a.certificates.Load().Report()
	r.Restore = restoreStatus(a.restorer.Load())
	running := a.running.Load()
	if running == nil {
		r.ExternalFailure, r.StorageFailure = failure.ToWire(unopened), volumeFailure(held)
		return r
	}
	if running.store.Shared() {
		r.ExternalFailure = failure.ToWire(running.store.Ready())
	} else {
		r.StorageFailure = storageFailure(running.store, directory, longest, unmoved)
	}
	r.Detail, r.State = "", wirev1.QueueState_QUEUE_STATE_SERVING
	if running.front.Draining() {
		r.State = wirev1.QueueState_QUEUE_STATE_DRAINING
	} else if err := running.store.Ready(); err != nil {
		r.Detail = err.Error()
	}
	s := running.front.Statistics()
	r.Statistics = statistics(s)
	r.Statistics.Reset_ = reset
	r.Statistics.VolumeSyncs = running.syncs.report()
	if content, err := running.store.Statistics(ctx, running.conn); err != nil {
		a.options.Log.Warn("Content of the queue is not known", "error", err.Error())
	} else {
		r.Content = contentOf(content)
		held, again := running.messages.held()
		r.Content.Unacknowledged += held
		r.Content.Redelivered += again
		if used := content.Used; used != nil {
			r.Statistics.FileBlocks, r.Statistics.FileBytes, r.Statistics.MemoryBytes = &used.FileBlocks, &used.FileBytes,
				&used.MemoryBytes
		}
	}
	forChannels, ofChannels := running.channels.worked()
	encoded, decoded := s.Compression.Plus(forChannels), s.Decompression.Plus(ofChannels)
	r.Compression, r.Decompression = compression.Report(encoded), compression.Decompression(decoded, "")
	r.WireBytes = count(s.WireBytes)
	r.Cpu = &wirev1.CPU{
		CompressNanos: uint64(encoded.CPU), DecompressNanos: uint64(decoded.CPU),
		AcceleratorNanos: uint64(hardware.CallTime()),
	}
	running.channels.report(r)
	r.Archive, r.StoreArchive = archiveStatus(running.archivers.claim), archiveStatus(running.archivers.store)
	if user, system, err := meter.ProcessCPU(); err == nil {
		r.Cpu.SendNanos = uint64(user + system - base)
		r.Cpu.IdleNanos = min(uint64(a.idle.Spent()), r.GetCpu().GetSendNanos())
	}
	return r
}

// passed is a number that changes when this member has said something to a client or another cluster, or heard of them,
// or taken over a change from another member.
func (r *running) passed() uint64 {
	channels := &wirev1.QueueReport{}
	r.channels.report(channels)
	return uint64(r.front.WireBytes().Load()) + channels.GetChannel().GetWireBytes() +
		channels.GetReceivedWireBytes() + r.store.Applied()
}

func count(n int64) uint64 { return uint64(max(n, 0)) }

func contentOf(s store.Statistics) *wirev1.QueueContent {
	c := &wirev1.QueueContent{
		Messages: s.Messages, Bytes: s.Bytes, FirstSequence: s.FirstSequence, LastSequence: s.LastSequence,
		Consumers:      uint64(s.Consumers),
		Unacknowledged: uint64(s.Unacknowledged), Redelivered: uint64(s.Redelivered), Waiting: uint64(s.Waiting),
		Leader: s.Leader, Lag: s.Lag, Unreachable: uint64(s.Offline), DeadLetters: s.DeadLetters, Kept: s.Kept,
	}
	if !s.OldestTime.IsZero() {
		c.OldestTime = timestamppb.New(s.OldestTime)
	}
	if !s.Created.IsZero() {
		c.Created = timestamppb.New(s.Created)
	}
	return c
}

func statistics(s front.Statistics) *wirev1.QueueStatistics {
	rate := func(r front.Rate) *wirev1.QueueRate {
		return &wirev1.QueueRate{
			Count: count(r.Count), MilliPerSecond: uint64(r.PerSecond * 1000), HighMilliPerSecond: uint64(r.Highest * 1000),
		}
	}
	return &wirev1.QueueStatistics{
		Puts: rate(s.Puts), Gets: rate(s.Gets), Compressions: rate(s.Encoded), Decompressions: rate(s.Decoded),
		CompressedPlainBytes: count(s.CompressedPlainBytes), CompressedBytes: count(s.CompressedBytes),
		RecentPlainBytes: count(s.RecentPlainBytes), RecentBytes: count(s.RecentBytes),
		Tried: count(s.Tried), TriedNanos: uint64(max(s.Compression.CPU, 0)),
		StoredFormGets: count(s.StoredGets), RefusedPuts: count(s.RefusedPuts), Duplicates: count(s.Duplicates),
		Connections: count(s.Connections), HighWaterConnections: count(s.HighWater), Opened: count(s.Opened),
		Closed:             count(s.Closed),
		RefusedConnections: count(s.Refused), FailedAuthentications: count(s.Unauthenticated),
		ForbiddenRequests: count(s.Forbidden), Since: timestamppb.New(s.Since),
	}
}

// HealthHandler answers GET /livez and GET /readyz.
func (a *Agent) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		r := a.running.Load()
		switch {
		case r == nil || r.front.Draining():
			http.Error(w, "no connections of clients are taken", http.StatusServiceUnavailable)
		default:
			if err := r.store.Ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusOK)
		}
	})
	return mux
}
