// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"testing"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestNews: what conditions follow from is news, what is counted is not.
func TestNews(t *testing.T) {
	before := func() *wirev1.HTTPReport {
		return &wirev1.HTTPReport{
			State: wirev1.HTTPState_HTTP_STATE_SERVING, Revision: "a", Statistics: &wirev1.HTTPStatistics{},
			Compression: &wirev1.Compression{},
		}
	}
	for name, test := range map[string]struct {
		change func(*wirev1.HTTPReport)
		news   bool
	}{
		"statistics":  {func(r *wirev1.HTTPReport) { r.Statistics.Reused, r.WireBytes = 7, 7 }, false},
		"compression": {func(r *wirev1.HTTPReport) { r.Compression.UncompressedBytes = 7 }, false},
		"state":       {func(r *wirev1.HTTPReport) { r.State = wirev1.HTTPState_HTTP_STATE_DRAINING }, true},
		"revision":    {func(r *wirev1.HTTPReport) { r.Revision = "b" }, true},
		"backend":     {func(r *wirev1.HTTPReport) { r.BackendFailure = wirev1.BackendFailure_BACKEND_FAILURE_NAME }, true},
		"reset":       {func(r *wirev1.HTTPReport) { r.Statistics.Reset_ = "monday" }, true},
		"reason":      {func(r *wirev1.HTTPReport) { r.Compression.Reason = "Busy" }, true},
		"certificate": {func(r *wirev1.HTTPReport) { r.Certificate = &wirev1.HTTPCertificate{State: 3} }, true},
	} {
		after := before()
		test.change(after)
		if news := !proto.Equal(stateOf(before()), stateOf(after)); news != test.news {
			t.Errorf("%s: news: %v", name, news)
		}
	}
}
