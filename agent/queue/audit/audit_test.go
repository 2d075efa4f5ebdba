// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

// lines are those of a log.
func lines(t *testing.T, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range bytes.Lines(b.Bytes()) {
		var one map[string]any
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		if one["audit"] != true {
			t.Errorf("%s: not an audit line", line)
		}
		all = append(all, one)
	}
	b.Reset()
	return all
}

func newLog() (*Log, *bytes.Buffer, *time.Time) {
	var b bytes.Buffer
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	l := New(slog.New(slog.NewJSONHandler(&b, nil)))
	l.now = func() time.Time { return now }
	l.all.at = now
	return l, &b, &now
}

// TestSession: a line when a client comes, with what it may do, and one when it goes, with what it did.
func TestSession(t *testing.T) {
	l, b, now := newLog()
	s := l.Begin(roles.Client{Name: "token:till", Operations: roles.Put}, "nats", "192.0.2.1:7")
	s.Puts.Add(3)
	s.Bytes.Add(70)
	*now = now.Add(time.Minute)
	s.End()
	s.End()
	got := lines(t, b)
	if len(got) != 2 || got[0]["msg"] != "Client authenticated" || got[0]["client"] != "token:till" ||
		got[0]["operations"] != "Put" || got[0]["remote"] != "192.0.2.1:7" || got[0]["protocol"] != "nats" ||
		got[1]["msg"] != "Client disconnected" || got[1]["puts"] != 3.0 || got[1]["bytes"] != 70.0 ||
		got[1]["duration"] != "1m0s" {
		t.Errorf("%v", got)
	}
	(*Session)(nil).End()
}

// TestStorm: sessions without end have few lines, and are all counted.
func TestStorm(t *testing.T) {
	l, b, now := newLog()
	const sessions, each = 10_000, 100
	counted := map[string]float64{}
	total := 0
	count := func() {
		for _, line := range lines(t, b) {
			total++
			switch line["msg"] {
			case "Client disconnected":
				counted["sessions"]++
				counted["puts"] += line["puts"].(float64)
			case "Client sessions":
				counted["sessions"] += line["sessions"].(float64)
				counted["puts"] += line["puts"].(float64)
			case "Request rejected":
				counted["rejected"] += line["count"].(float64)
			}
		}
	}
	for i := range sessions {
		s := l.Begin(roles.Client{Name: fmt.Sprint("CN:", i%3), Operations: roles.Put}, "http", "192.0.2.1:7")
		s.Puts.Add(2)
		s.End()
		l.Reject(Unauthenticated, "", "nats", "192.0.2.1:7")
		if i%each == 0 {
			*now = now.Add(time.Second)
		}
		if i%(10*each) == 0 {
			l.Flush()
		}
	}
	l.Flush()
	count()
	if counted["sessions"] != sessions || counted["puts"] != 2*sessions || counted["rejected"] != sessions {
		t.Errorf("counted %v", counted)
	}
	if total > 1000 {
		t.Errorf("%d lines in %d seconds", total, sessions/each)
	}
	// Clients whose names never end are not told apart for ever, nor remembered.
	for i := range 5 * maxKept {
		l.Begin(roles.Client{Name: fmt.Sprint("CN:other ", i), Operations: roles.Get}, "grpc", "x").End()
		l.Reject(Forbidden, fmt.Sprint("CN:other ", i), "grpc", "x")
	}
	if len(l.clients) > maxKept+1 || len(l.rejected) > maxKept+1 {
		t.Errorf("%d clients and %d rejections are kept", len(l.clients), len(l.rejected))
	}
	*now = now.Add(time.Hour)
	l.Flush()
	if len(l.clients)+len(l.rejected) > 0 {
		t.Errorf("%d clients and %d rejections are kept for ever", len(l.clients), len(l.rejected))
	}
}
