// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/audit"
)

// lines are those of a log, as objects.
type lines []map[string]any

func (l *lines) logger(t *testing.T) logr.Logger {
	return funcr.NewJSON(func(text string) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		*l = append(*l, line)
	}, funcr.Options{})
}

func TestUse(t *testing.T) {
	var log lines
	registry := prometheus.NewRegistry()
	uses := audit.NewUses(log.logger(t), registry)
	uses.Record(audit.Use{
		Peer: "east", Namespace: "bank", ToNamespace: "vault", Kind: v1alpha1.GrantedPersistentVolumeClaim,
		Name: "ledger-copy", Path: "/in",
		Transfer: "ledger", Run: "7f3ca", Attempt: 2, Delete: true, Bytes: 4096, Duration: 1500 * time.Millisecond,
		Result: "Succeeded",
	})
	uses.Record(audit.Use{
		Peer: "east", Namespace: "bank", ToNamespace: "vault", Kind: v1alpha1.GrantedQueue, Name: "orders",
		Bytes: 10, Returned: 20, Duration: time.Minute, Result: audit.ResultClosed,
	})
	for i, want := range []map[string]any{
		{
			"msg": "Grant used", "audit": true, "peer": "east", "namespace": "bank", "toNamespace": "vault",
			"kind": "PersistentVolumeClaim",
			"name": "ledger-copy", "path": "/in", "transfer": "ledger", "run": "7f3ca", "attempt": 2.0, "delete": true,
			"privileged": false,
			"bytes":      4096.0, "seconds": 1.5, "result": "Succeeded",
		},
		{
			"msg": "Grant used", "audit": true, "peer": "east", "namespace": "bank", "toNamespace": "vault", "kind": "Queue",
			"name":  "orders",
			"bytes": 10.0, "returnedBytes": 20.0, "seconds": 60.0, "result": "Closed",
		},
	} {
		got := log[i]
		delete(got, "logger")
		delete(got, "level")
		for key, value := range want {
			if got[key] != value {
				t.Errorf("line %d: %s is %v, want %v", i, key, got[key], value)
			}
		}
		if len(got) != len(want) {
			t.Errorf("line %d: %v, want %v", i, got, want)
		}
	}
	want := map[string]float64{
		"PersistentVolumeClaim vault east Succeeded": 1,
		"Queue vault east Closed":                    1,
	}
	if got := counts(t, registry); !maps.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
}

// counts are those of a registry by the values of their labels, which are in the order of the labels' names.
func counts(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			var values []string
			for _, label := range series.GetLabel() {
				values = append(values, label.GetValue())
			}
			all[strings.Join(values, " ")] = series.GetCounter().GetValue()
		}
	}
	return all
}

// A flood of rejections fills no log, hides no other peer's or reason's, and every one is counted.
func TestRejectionsAreLimited(t *testing.T) {
	var log lines
	clock := clocktesting.NewFakePassiveClock(time.Now())
	registry := prometheus.NewRegistry()
	rejections := audit.NewRejections(log.logger(t), registry, clock)
	flood := audit.Rejection{Peer: "", Method: "Hello", Reason: "PeerUntrusted", Message: strings.Repeat("x", 100_000)}
	for range 1000 {
		rejections.Record(flood)
	}
	if len(log) != 5 || len(log[4]["cause"].(string)) > 2000 {
		t.Fatalf("%d lines", len(log))
	}
	rejections.Record(audit.Rejection{Peer: "east", Method: "Open", Reason: "PeerUntrusted"})
	rejections.Record(audit.Rejection{Peer: "", Method: "Open", Reason: "NotGranted"})
	if len(log) != 7 || log[5]["peer"] != "east" || log[6]["reason"] != "NotGranted" {
		t.Fatalf("other rejections are hidden: %v", log[5:])
	}
	clock.SetTime(clock.Now().Add(10 * time.Second))
	rejections.Record(flood)
	rejections.Record(flood)
	if len(log) != 8 || log[7]["suppressed"] != 995.0 {
		t.Errorf("after a while: %v", log[7:])
	}
	want := map[string]float64{"Hello  PeerUntrusted": 1002, "Open east PeerUntrusted": 1, "Open  NotGranted": 1}
	if got := counts(t, registry); !maps.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
}
