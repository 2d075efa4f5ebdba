// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/gateway"
)

// trail are the lines of the audit trail in a log.
type trail struct {
	mu    sync.Mutex
	lines []map[string]any
}

func (a *trail) logger(t *testing.T) logr.Logger {
	return funcr.NewJSON(func(text string) {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if line["audit"] == true {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.lines = append(a.lines, line)
		}
	}, funcr.Options{})
}

func (a *trail) saying(message string) []map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.lines), func(line map[string]any) bool { return line["msg"] != message })
}

// counted is the value of a counter's series by the values of its labels, which are in the order of the labels' names.
func counted(t *testing.T, registry *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			var values []string
			for _, label := range series.GetLabel() {
				values = append(values, label.GetValue())
			}
			if family.GetName() == name && slices.Equal(values, labels) {
				return series.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// Every rejection is counted; the log gets at most a burst of lines for each peer and reason.
func TestAuditOfRejections(t *testing.T) {
	const total = "lighterage_gateway_rejections_total"
	east, stranger := newCA(t, "east"), newCA(t, "stranger")
	log, registry := &trail{}, prometheus.NewRegistry()
	w := newWest(t, func(o *gateway.Options) { o.Log, o.Registerer = log.logger(t), registry }, peerOf("east", east))
	c := w.dial(issue(t, east, sender("east"), time.Now()))
	for range 20 {
		open(t, c, ledger("7f3ca", 1)).refused(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)
	}
	if _, err := w.dial(
		issue(t, stranger, sender("east"), time.Now()),
	).Hello(context.Background(), &wirev1.HelloRequest{}); err == nil {
		t.Error("a stranger is answered")
	}
	// The stream ends for the caller a moment before the gateway has counted.
	eventually(t, func() bool {
		return counted(t, registry, total, "Open", "east", "NotGranted") == 20 &&
			counted(t, registry, total, "Hello", "", "PeerUntrusted") == 1
	})
	lines := log.saying("Request rejected")
	if len(lines) != 6 {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	for _, line := range lines[:5] {
		if line["peer"] != "east" || line["method"] != "Open" || line["reason"] != "NotGranted" ||
			line["identity"] != "/ns/bank/transfer/ledger" ||
			!strings.Contains(line["cause"].(string), "PeerGrant") {
			t.Errorf("line %v", line)
		}
	}
	if line := lines[5]; line["peer"] != "" || line["reason"] != "PeerUntrusted" || line["identity"] != "" {
		t.Errorf("line %v", line)
	}
}

// What is throttled is a rejection like others.
func TestAuditOfThrottledRequests(t *testing.T) {
	east := newCA(t, "east")
	log, registry := &trail{}, prometheus.NewRegistry()
	w := newWest(t, func(o *gateway.Options) {
		o.Log, o.Registerer, o.RequestsPerSecond, o.RequestBurst = log.logger(t), registry, 0.001, 1
	}, peerOf("east", east))
	c := w.dial(issue(t, east, manager("east"), time.Now()))
	for range 3 {
		_, _ = c.Hello(context.Background(), &wirev1.HelloRequest{})
	}
	eventually(t, func() bool {
		return counted(t, registry, "lighterage_gateway_rejections_total", "Hello", "east", "Unavailable") == 2
	})
	if lines := log.saying("Request rejected"); len(lines) != 2 || lines[1]["reason"] != "Unavailable" {
		t.Errorf("lines %v", lines)
	}
}
