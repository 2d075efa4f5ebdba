// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"net/http"
	"runtime"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/serve"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// GetQueueReport implements wirev1.QueueAgentServer.
func (a *Agent) GetQueueReport(
	ctx context.Context, _ *wirev1.GetQueueReportRequest,
) (*wirev1.GetQueueReportResponse, error) {
	return &wirev1.GetQueueReportResponse{Report: a.Report(ctx)}, nil
}

// SetQueueConfig implements wirev1.QueueAgentServer.
func (a *Agent) SetQueueConfig(
	ctx context.Context, request *wirev1.SetQueueConfigRequest,
) (*wirev1.SetQueueConfigResponse, error) {
	if err := a.frame.Set(ctx, request.GetConfig(), &wirev1.QueueConfig{}); err != nil {
		return nil, err
	}
	return &wirev1.SetQueueConfigResponse{}, nil
}

// Report returns what there is to say. It is the caller's to keep.
func (a *Agent) Report(ctx context.Context) *wirev1.QueueReport {
	return serve.Report(a.frame, func(reset string) *wirev1.QueueReport { return a.report(ctx, reset) })
}

func (a *Agent) report(ctx context.Context, reset string) *wirev1.QueueReport {
	config, status := a.frame.Config(), a.frame.Status()
	a.mu.Lock()
	r := &wirev1.QueueReport{
		State: wirev1.QueueState_QUEUE_STATE_STARTING, Version: wirev1.Version, Architecture: runtime.GOARCH,
		StartTime: status.StartTime, Certificate: status.Certificate,
		Member: a.options.Member, Revision: status.Revision, ConfigError: status.ConfigError,
		Configuration:       status.Configuration,
		AuthenticationError: a.authError, Detail: a.detail,
	}
	if a.pending != nil {
		r.Revision = "" // the limits of an earlier one are in effect
		if r.ConfigError == "" {
			r.ConfigError = a.pending.Error()
		}
	}
	if config.GetExternal() == nil {
		r.Dictionaries = &wirev1.QueueDictionaries{Deflate: true} // This release knows them.
	}
	unopened, held, unmoved := a.external, a.held, a.unmoved.problem()
	a.mu.Unlock()
	r.Restore = restoreStatus(a.restorer.Load())
	running := a.running.Load()
	if running == nil {
		r.ExternalFailure, r.StorageFailure = failure.ToWire(unopened), volumeFailure(held)
		return r
	}
	if running.store.Shared() {
		r.ExternalFailure = failure.ToWire(running.store.Ready())
	} else {
		r.StorageFailure = storageFailure(running.store, config.GetStorage().GetDirectory(), maxMessage(config), unmoved)
	}
	r.Detail, r.State = "", wirev1.QueueState_QUEUE_STATE_SERVING
	if running.front.Draining() {
		r.State = wirev1.QueueState_QUEUE_STATE_DRAINING
	} else if err := running.store.Ready(); err != nil {
		r.Detail = err.Error()
	}
	s := running.front.Statistics()
	r.Statistics = s.QueueStatistics
	r.Statistics.Reset_ = reset
	r.Statistics.VolumeSyncs, r.Statistics.Checkpoints = running.syncs.report(), running.checkpoints.report()
	if own, ok := running.store.(*store.Store); ok {
		if swept := own.Swept(); swept != nil {
			r.Statistics.Sweeps, r.Statistics.AbortedSweeps, r.Statistics.SweptBytes = &swept.Sweeps, &swept.Aborted,
				&swept.Bytes
		}
	}
	if content, err := running.store.Statistics(ctx, running.conn); err != nil {
		a.options.Log.Warn("Content of the queue is not known", "error", err.Error())
	} else {
		r.Content = content.QueueContent
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
	r.Decisions = running.front.Decisions()
	r.WireBytes = count(s.Wire.Wire)
	r.Cpu = a.frame.CPU()
	r.Cpu.CompressNanos, r.Cpu.DecompressNanos = uint64(encoded.CPU), uint64(decoded.CPU)
	r.Traffic = s.Wire.Traffic.Plus(running.channels.report(r)).Wire()
	r.Store = a.asked.Wire()
	if running.dictionaries != nil {
		r.Dictionaries = running.dictionaries.Report()
	}
	r.Archive, r.StoreArchive = archiveStatus(running.archivers.claim), archiveStatus(running.archivers.store)
	return r
}

// passed is a number that changes when this member has said something to a client or another cluster, or heard of them,
// or taken over a change from another member.
func (r *running) passed() uint64 {
	channels := &wirev1.QueueReport{}
	r.channels.report(channels)
	sent := channels.GetChannel().GetWireBytes()
	for _, one := range channels.GetChannels() {
		sent += one.GetWireBytes()
	}
	return uint64(r.front.Wire().Bytes()) + sent +
		channels.GetReceivedWireBytes() + channels.GetOwnReceivedWireBytes() + r.store.Applied()
}

func count(n int64) uint64 { return uint64(max(n, 0)) }

// HealthHandler answers GET /livez and GET /readyz.
func (a *Agent) HealthHandler() http.Handler {
	return serve.HealthHandler(func() error {
		r := a.running.Load()
		if r == nil || r.front.Draining() {
			return serve.ErrNotServing
		}
		return r.store.Ready()
	})
}
