// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/scale/bed"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
)

// measured is a result whose figures are easy to tell.
func measured(transfers int, have stage) result {
	begun := time.Unix(1000, 0)
	at := func(seconds int, cpu time.Duration) bed.Point {
		p := bed.Point{At: begun.Add(time.Duration(seconds) * time.Second)}
		p.Manager = harness.Usage{CPU: cpu, Resident: 100 << 20, Peak: 200 << 20}
		p.Metrics = controlplane.Metrics{`controller_runtime_reconcile_total{controller="transfer"}`: 1000 * cpu.Seconds()}
		p.Record = controlplane.Record{Requests: map[controlplane.Kind]int64{
			{Program: controlplane.Manager, Verb: "patch", Resource: "transfers/status"}:     int64(seconds) * 5,
			{Program: controlplane.Manager, Verb: "patch", Resource: "statefulsets"}:         int64(seconds),
			{Program: controlplane.Gateway, Verb: "create", Resource: "deliveries"}:          int64(seconds),
			{Program: controlplane.Manager, Verb: "get", Resource: "jobs"}:                   int64(seconds),
			{Program: controlplane.Manager, Verb: "update", Resource: "leases"}:              int64(seconds),
			{Program: controlplane.Manager, Verb: "patch", Resource: "httpendpoints/status"}: int64(seconds) * 2,
		}, Progress: int64(seconds) * 5, Statistics: int64(seconds) * 2}
		p.Put = float64(seconds) * 1e5
		p.Asked.Runs = int64(seconds) * 10
		return p
	}
	r := result{world: fleet.World{Transfers: transfers}, have: have, observed: 30 * time.Second}
	r.first = bed.Span{From: at(0, 0), To: at(10, time.Second)}
	r.steady = bed.Span{From: at(10, time.Second), To: at(110, 11*time.Second)}
	r.quiet = bed.Span{From: at(110, 0), To: at(120, 0)}
	r.quiet.To.Put = r.quiet.From.Put
	r.restart = bed.Span{From: at(120, 0), To: at(125, time.Second)}
	r.silent = bed.Span{From: at(125, 0), To: at(135, 0)}
	r.silent.To.Asked.Runs = r.silent.From.Asked.Runs + 80
	r.ended = bed.Span{From: at(135, 0), To: at(145, 2*time.Second)}
	return r
}

func TestTargets(t *testing.T) {
	got := map[string]string{}
	for _, one := range targets([]result{measured(2000, haveArrivals), measured(10000, haveArrivals)}) {
		got[one.Name] = one.Figure(one.Measured.Value) + " " + one.Verdict()
	}
	for name, want := range map[string]string{
		"rss-10000": "200 ok", "cpu-per-reconcile-10000": "1.0 ok", "progress-writes-10000": "5.0 ok",
		"etcd-growth-10000": "30.0 ok",
		"restart-10000":     "30.0 ok", "restart-writes-10000": "5 miss", "steady-cpu-10000": "0.10 ok",
		"silent-slowdown-10000": "20.0 miss",
		"first-pass-cpu-growth": "0.20 ok", "first-pass-rss-growth": "0.20 ok",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if _, judged := got["reconcile-p99-10000"]; judged {
		t.Error("times are judged although the machine was not idle")
	}
}

// TestTargetsOfAManagerThatEnded: what could not be measured misses.
func TestTargetsOfAManagerThatEnded(t *testing.T) {
	for _, one := range targets([]result{measured(2000, haveArrivals), measured(10000, 0)}) {
		if one.OK() {
			t.Errorf("%s", one.Line())
		}
	}
}

// limitedWorld takes twice the CPU time of measured(10000) while runs end, and lists all Transfers for every tenth.
func limitedWorld() result {
	r := measured(10000, haveEnded)
	r.world.Limited, r.world.Peers = true, 50
	r.ended.To.Manager.CPU += 2 * time.Second
	r.ended.To.Record.Requests[controlplane.Kind{
		Program: controlplane.Manager, Verb: "list", Resource: "transfers",
	}] = 200
	return r
}

func TestCompared(t *testing.T) {
	got := map[string]string{}
	for _, one := range compared(measured(10000, haveEnded), limitedWorld()) {
		got[one.Name] = one.Figure(one.Measured.Value) + " " + one.Verdict()
	}
	for name, want := range map[string]string{
		// The first pass takes 1 s of CPU time and the end 2 s, of which the steady state would have taken 1 s.
		"limits-cpu-10000": "2.00 miss", "limits-rss-10000": "1.00 ok", "limits-steady-cpu-10000": "1.00 ok",
		"limits-lists-10000": "0.10 miss",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, one := range compared(measured(10000, haveSteady), limitedWorld()) {
		if one.Name != "limits-steady-cpu-10000" && one.OK() {
			t.Errorf("%s although runs did not end", one.Line())
		}
	}
}

func TestReport(t *testing.T) {
	all := []result{measured(2000, haveArrivals), measured(10000, 0)}
	all[1].problems = []string{"manager ended"}
	r := report(full, all, limitedWorld(), problems(all))
	directory := t.TempDir()
	if err := (&harness.Run{Name: "scale", Out: directory}).Publish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(directory, "scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 2,000 | 10,000 |", "| 10,000 Transfers | without limits | with limits |",
		"| reconciles | 1000 | - |", "\n- 10,000 Transfers: manager ended\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if requests(all[0]) == "" || !strings.Contains(r.Drawing, "10,000") {
		t.Error("no requests, or nothing drawn")
	}
}
