// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/httpproxy"
	"github.com/lighterage/lighterage/agent/serve"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// failures are those of health checks as the manager is told of them.
var failures = map[httpproxy.Failure]wirev1.BackendFailure{
	httpproxy.FailureBlocked:    wirev1.BackendFailure_BACKEND_FAILURE_BLOCKED,
	httpproxy.FailureName:       wirev1.BackendFailure_BACKEND_FAILURE_NAME,
	httpproxy.FailureRefused:    wirev1.BackendFailure_BACKEND_FAILURE_REFUSED,
	httpproxy.FailureTimeout:    wirev1.BackendFailure_BACKEND_FAILURE_TIMEOUT,
	httpproxy.FailureTLS:        wirev1.BackendFailure_BACKEND_FAILURE_TLS,
	httpproxy.FailureStatus:     wirev1.BackendFailure_BACKEND_FAILURE_STATUS,
	httpproxy.FailureConnection: wirev1.BackendFailure_BACKEND_FAILURE_CONNECTION,
}

// GetHTTPReport implements wirev1.HTTPAgentServer.
func (a *Agent) GetHTTPReport(context.Context, *wirev1.GetHTTPReportRequest) (*wirev1.GetHTTPReportResponse, error) {
	return &wirev1.GetHTTPReportResponse{Report: a.Report()}, nil
}

// SetHTTPConfig implements wirev1.HTTPAgentServer.
func (a *Agent) SetHTTPConfig(
	ctx context.Context, request *wirev1.SetHTTPConfigRequest,
) (*wirev1.SetHTTPConfigResponse, error) {
	if err := a.frame.Set(ctx, request.GetConfig(), &wirev1.HTTPConfig{}); err != nil {
		return nil, err
	}
	return &wirev1.SetHTTPConfigResponse{}, nil
}

// Report returns what there is to say. It is the caller's to keep.
func (a *Agent) Report() *wirev1.HTTPReport { return serve.Report(a.frame, a.report) }

func (a *Agent) report(reset string) *wirev1.HTTPReport {
	status := a.frame.Status()
	r := &wirev1.HTTPReport{
		State: wirev1.HTTPState_HTTP_STATE_STARTING, Version: wirev1.Version, Architecture: runtime.GOARCH,
		StartTime: status.StartTime, Revision: status.Revision, ConfigError: status.ConfigError,
		Configuration: status.Configuration,
		Certificate:   status.Certificate,
	}
	server := a.server.Load()
	if server == nil {
		r.Detail = "the configuration is not read yet"
		if r.GetCertificate().GetState() != wirev1.CertificateState_CERTIFICATE_STATE_NONE {
			r.Detail = "there is no certificate to serve: " + r.GetCertificate().GetMessage()
		}
		return r
	}
	r.State = wirev1.HTTPState_HTTP_STATE_SERVING
	if server.Draining() {
		r.State = wirev1.HTTPState_HTTP_STATE_DRAINING
	}
	if b := server.Backend(); b.Checked && !b.Healthy {
		r.BackendFailure, r.BackendStatus = failures[b.Failure], uint32(max(b.Status, 0))
	}
	s := server.Statistics()
	r.Statistics, r.Cpu = statistics(s), a.frame.CPU()
	r.Statistics.Reset_, r.Cpu.CompressNanos = reset, uint64(s.Meter.CPU)
	r.Compression = compression.Report(s.Meter)
	r.Decisions = decisions(server.Decisions())
	r.WireBytes, r.Traffic = uint64(max(s.Wire.Wire, 0)), s.Wire.Traffic.Wire()
	return r
}

// decisions is nil in other modes than Auto.
func decisions(d httpproxy.Decisions) *wirev1.Decisions {
	if d.Objective == "" {
		return nil
	}
	out := &wirev1.Decisions{
		Objective: string(d.Objective), Regret: compression.Regret(d.Lost, d.Best, d.Known),
	}
	compression.Carrier(out, d.Carrier)
	for _, c := range d.Classes {
		one := &wirev1.ClassDecision{
			Content: c.Content, Size: c.Length, Codec: c.Codec.String(), Operations: uint64(c.Bodies), Bytes: uint64(c.Bytes),
			Trials: uint64(c.Trials),
		}
		compression.Judged(one, c.Reason, c.Recent, c.Weighed)
		out.Classes = append(out.Classes, one)
	}
	return out
}

func statistics(s httpproxy.Statistics) *wirev1.HTTPStatistics {
	out := &wirev1.HTTPStatistics{
		ActiveConnections: uint64(s.Active), HighWaterConnections: uint64(s.HighWater), RefusedConnections: uint64(s.Refused),
		Reused: uint64(s.Reused), TimedOut: uint64(s.TimedOut), UrlErrors: uint64(s.URLErrors),
		HardwareResponses: uint64(s.Hardware), SoftwareResponses: uint64(s.Software),
		UncompressedResponses: uint64(s.Uncompressed),
		ResponsesByCoding:     make(map[string]uint64), Since: timestamppb.New(s.Since),
		CompressedPlainBytes: uint64(s.CompressedPlainBytes), CompressedBytes: uint64(s.CompressedBytes),
		RecentOperations: uint64(s.Recent.Bodies), RecentPlainBytes: uint64(s.Recent.PlainBytes),
		RecentBytes: uint64(s.Recent.Bytes), RecentNanos: uint64(max(s.Recent.CPU, 0)),
	}
	for c, n := range s.ByCoding {
		out.ResponsesByCoding[c.String()] = uint64(n)
	}
	return out
}

// HealthHandler answers GET /livez and GET /readyz. An agent is ready once it knows whether its first backend is
// healthy, which it may not be: a rolling update does not replace agents that reach the backend by ones that do not
// yet.
func (a *Agent) HealthHandler() http.Handler {
	var checked atomic.Bool
	return serve.HealthHandler(func() error {
		server := a.server.Load()
		if server == nil || server.Draining() {
			return serve.ErrNotServing
		}
		if !checked.Load() {
			if !server.Backend().Checked {
				return errors.New("the backend is being checked")
			}
			checked.Store(true)
		}
		return nil
	})
}
