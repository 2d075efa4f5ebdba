// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/bill"
	"github.com/lighterage/lighterage/controllers/overview"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/table"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// destinations shows how far each of several is.
func (p *picturing) destinations(t *v1alpha1.Transfer) {
	p.replaces("Destinations")
	f := newFigure("Destinations", nil, "Destination", "#Progress", "Where", "Phase", "#Arrived+", "#Of+", "Transfer+")
	for i := range t.Status.Destinations {
		d := &t.Status.Destinations[i]
		percent := min(max(d.Percent, 0), 100)
		row := f.bar(only(bySoftware, float64(percent)), d.Name, fmt.Sprintf("%d %%", percent), overview.PlaceOf(t, d),
			cmp.Or(string(d.Phase), unknown), table.Bytes(max(d.Bytes, 0)), table.Bytes(max(d.BytesTotal, 0)),
			cmp.Or(d.Transfer, unknown))
		if d.Reason != "" && d.Phase != v1alpha1.TransferComplete {
			row.Why = text(d.Reason + ": " + d.Message).Text
		}
	}
	p.add(f)
}

// drills shows the last ones by how long they took.
func (p *picturing) drills(records []v1alpha1.DrillRecord) {
	p.replaces("Drills before")
	f := newFigure("History: last drills by how long they took", nil, "Drill", "#Took", "Result", "#Ended", "#Bytes+",
		"#Rate+", "#CPU/GiB+", "Node+")
	for i := range records {
		r := &records[i]
		took, ended, cpu, seconds := unknown, unknown, "", 0.0
		if r.Duration != nil {
			seconds, took = max(r.Duration.Seconds(), 0), r.Duration.Round(time.Second).String()
		}
		if r.CompletionTime != nil {
			ended = Age(p.now, r.CompletionTime.Time) + " ago"
		}
		if r.CPU != nil {
			cpu = r.CPU.SecondsPerGiB
		}
		row := f.bar(only(bySoftware, seconds), r.ID, took, cmp.Or(r.Reason, unknown), ended, table.Bytes(max(r.Bytes, 0)),
			table.Rate(float64(max(r.BytesPerSecond, 0))), cmp.Or(cpu, unknown), cmp.Or(r.Node, unknown))
		if r.Reason != v1alpha1.ReasonRecovered && r.Reason != v1alpha1.ReasonVerified && r.Message != "" {
			row.Why = text(r.Message).Text
		}
	}
	p.add(f)
}

// members shows how the claims of a TransferSet are.
func (p *picturing) members(m *v1alpha1.TransferSetMembers) {
	if m == nil {
		return
	}
	f := newFigure("Claims", nil, "State", "#Claims", "#Share")
	f.Palette = "states"
	for _, s := range []struct {
		class int
		name  string
		n     int32
	}{{0, "failed", m.Failed}, {2, "waiting", m.Waiting}, {3, "running", m.Running}, {4, "complete", m.Complete}} {
		n := float64(max(s.n, 0))
		f.bar(only(s.class, n), s.name, fmt.Sprint(s.n), share(n, float64(m.Selected)))
	}
	p.add(f)
}

func (p *picturing) messages(s *v1alpha1.QueueStatistics) {
	if s == nil {
		return
	}
	f := newFigure("Messages", nil, "Which", "#Messages")
	row := func(class int, name string, n int64) { f.bar(only(class, float64(n)), name, fmt.Sprint(n)) }
	row(bySoftware, "held", s.Depth)
	row(bySoftware, "of that, with consumers", s.Unacknowledged)
	row(asItWas, "dead letters", s.DeadLetters)
	p.add(f)
}

func (p *picturing) responses(s *v1alpha1.HTTPStatistics) {
	if s == nil || s.Responses == 0 {
		return
	}
	f := newFigure("Responses", nil, "Compressed", "#Responses", "#Share")
	for class, way := range []struct {
		name string
		n    int64
	}{{"by hardware", s.HardwareCount}, {"by software", s.SoftwareCount}, {"sent as they were", s.UncompressedCount}} {
		f.bar(only(class, float64(way.n)), way.name, fmt.Sprint(way.n), share(float64(way.n), float64(s.Responses)))
	}
	p.add(f)
}

// engines shows how fast the engines of a node are on one core.
func (p *picturing) engines(engines []v1alpha1.EngineProfile) {
	p.replaces("Engines on one core")
	f := newFigure("Engines on one core, on the agents' sample", nil, "Engine", "#Rate", "#Ratio", "Used")
	for _, e := range engines {
		class := bySoftware
		if e.Name == placement.EngineHardware {
			class = byHardware
		}
		note := ""
		if !e.Verified {
			note = ", not verified"
		}
		for _, l := range e.Levels {
			used := "no"
			if l.Selected {
				used = "to compress"
			}
			f.bar(only(class, float64(l.CompressBytesPerSecond)), fmt.Sprintf("%s %s %s, compress", e.Codec, e.Name, l.Level),
				table.Rate(float64(l.CompressBytesPerSecond)), cmp.Or(l.Ratio, unknown), used+note)
		}
		used := "no"
		if e.Inflates {
			used = "to inflate"
		}
		f.bar(only(asItWas, float64(e.DecompressBytesPerSecond)), fmt.Sprintf("%s %s, inflate", e.Codec, e.Name),
			table.Rate(float64(e.DecompressBytesPerSecond)), unknown, used+note)
	}
	p.add(f)
}

// results shows what engines took for the sample of a trial.
func (p *picturing) results(results []v1alpha1.TrialResult) {
	f := newFigure("What engines took: CPU seconds for a GiB of the sample", []string{"compress", "inflate"}, "Choice",
		"#Compress", "#Inflate", "#Ratio", "Problem+")
	for _, r := range results {
		compress, inflate := decimal(r.CompressSecondsPerGiB), decimal(r.DecompressSecondsPerGiB)
		f.bar([]float64{compress, inflate}, strings.TrimSpace(r.Codec+" "+r.Engine+" "+r.Level),
			cmp.Or(r.CompressSecondsPerGiB, unknown), cmp.Or(r.DecompressSecondsPerGiB, unknown), cmp.Or(r.Ratio, unknown),
			cmp.Or(r.Problem, unknown))
	}
	p.add(f)
}

// statement shows what a namespace was charged, by kind and by day.
func (p *picturing) statement(s *v1alpha1.Statement) {
	period, err := bill.NewPeriod(s.Spec.Month, "", "", p.now)
	if err != nil {
		return
	}
	account := bill.NewAccount(period)
	if account.Add(s) != nil {
		return // it has values that no manager writes
	}
	legend := []string{"network", "CPU", "network stack", "storage", "object stores"}
	for _, by := range []struct {
		title, first string
		dimension    bill.Dimension
	}{{"Cost by kind", "Kind", bill.ByKind}, {"Cost by Peer", "Peer", bill.ByPeer}, {"Cost by day", "Day", bill.ByDay}} {
		spent := account.By([]bill.Dimension{by.dimension})
		currencies := map[string]*figure{}
		var order []*figure
		for i := range spent.Entries {
			m := spent.Entries[i].Money()
			if m.Currency == "" {
				continue
			}
			f := currencies[m.Currency]
			if f == nil {
				f = newFigure(by.title+", in "+text(m.Currency).Text, legend, by.first, "#Cost", "#Network+", "#CPU+",
					"#Network stack+", "#Storage+", "#Stores+", "#Avoided", "#On the wire+")
				currencies[m.Currency] = f
				order = append(order, f)
			}
			parts := []float64{m.Network, m.CPU, m.NetworkCPU, m.Storage, m.Stores}
			cells := []string{tariff.Money(m.Cost())}
			for _, amount := range append(parts, m.Avoided) {
				cells = append(cells, tariff.Money(amount))
			}
			f.bar(parts, cmp.Or(m.Keys[0], unknown), append(cells, table.Bytes(m.WireBytes))...)
		}
		for _, f := range order {
			p.add(f)
		}
	}
}

// quota shows how much of each limit is used.
func (p *picturing) quota(q *v1alpha1.DataQuota) {
	p.replaces("Limits")
	used := v1alpha1.DataQuotaResources{}
	if q.Status.Used != nil {
		used = *q.Status.Used
	}
	f := newFigure("Limits", []string{"used", "free"}, "Of", "#Used", "#Limit", "#Share")
	row := func(name, now, limit string, part, whole float64) {
		// All bars are as long: they are shares.
		filled := 0.0
		if whole > 0 {
			filled = min(max(part/whole, 0), 1)
		}
		f.bar([]float64{filled, 1 - filled}, name, now, limit, share(part, whole))
	}
	count := func(name string, limit, now *int32) {
		if limit == nil {
			return
		}
		n := int32(0)
		if now != nil {
			n = *now
		}
		row(name, fmt.Sprint(n), fmt.Sprint(*limit), float64(n), float64(*limit))
	}
	amount := func(name string, limit, now *resource.Quantity) {
		if limit == nil {
			return
		}
		n := resource.Quantity{}
		if now != nil {
			n = *now
		}
		row(name, n.String(), limit.String(), n.AsApproximateFloat64(), limit.AsApproximateFloat64())
	}
	hard := q.Spec.Hard
	count("running Transfers", hard.RunningTransfers, used.RunningTransfers)
	count("running Deliveries", hard.RunningDeliveries, used.RunningDeliveries)
	amount("bandwidth", hard.Bandwidth, used.Bandwidth)
	amount("storage of Queues", hard.QueueBytes, used.QueueBytes)
	p.add(f)
}

// traffic shows what was exchanged with a Peer.
func (p *picturing) traffic(peer *v1alpha1.Peer) {
	f := newFigure("Traffic", nil, "Direction", "#On the wire", "#Before compression", "#CPU seconds+")
	for class, way := range []struct {
		name string
		used *v1alpha1.UsedByStatus
	}{{"sent", peer.Status.Sent}, {"received", peer.Status.Received}} {
		if way.used == nil {
			continue
		}
		f.bar(only(class+1, float64(way.used.WireBytes)), way.name, table.Bytes(max(way.used.WireBytes, 0)),
			table.Bytes(max(way.used.UncompressedBytes, 0)), cmp.Or(way.used.CPUSeconds, unknown))
	}
	p.add(f)
}
