// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/overview"
	"github.com/lighterage/lighterage/controllers/table"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// kinds say what there is to tell of the objects of each kind beside their conditions. A test holds that all kinds of
// the API are here.
var kinds = map[string]func(Object, *sheet){
	"CompressionPolicy":      facts(ofPolicy),
	"CompressionTrial":       facts(ofTrial),
	"DataQuota":              facts(ofQuota),
	"Delivery":               facts(ofDelivery),
	"Drill":                  facts(ofDrill),
	"HTTPEndpoint":           facts(ofEndpoint),
	"LocalCompressionPolicy": facts(ofLocalPolicy),
	"NodeProfile":            facts(ofProfile),
	"ObjectStore":            facts(ofStore),
	"Peer":                   facts(ofPeer),
	"PeerGrant":              facts(ofGrant),
	"Queue":                  facts(ofQueue),
	"Statement":              facts(ofStatement),
	"Tariff":                 facts(ofTariff),
	"Transfer":               facts(ofTransfer),
	"TransferSet":            facts(ofSet),
}

// facts makes what tells facts of a kind one that does so of any object, which is of that kind.
func facts[T any](tell func(*T, *sheet)) func(Object, *sheet) {
	return func(object Object, s *sheet) {
		if typed, ok := any(object).(*T); ok {
			tell(typed, s)
		}
	}
}

// ofTransfer adds what Explain does not have.
func ofTransfer(t *v1alpha1.Transfer, s *sheet) {
	s.pull(t)
	s.copies(t)
	s.template(t)
	s.destinations(t)
	s.history(t.Status.History)
	s.omissions(t.Status.Omissions)
	s.atRest(t)
	if t.Spec.Schedule != nil && t.Status.Schedule != nil {
		s.section("Schedule")
		s.row("cron", t.Status.Schedule.Cron)
		s.row("time zone", t.Status.Schedule.TimeZone)
		s.at("last time", t.Status.Schedule.LastTime)
		s.at("next time", t.Status.Schedule.NextTime)
		s.count("missed runs", t.Status.Schedule.MissedRuns)
		s.at("window ends", t.Status.Schedule.WindowEnd)
		s.at("next window", t.Status.Schedule.NextWindow)
		if run := t.Status.Run; run != nil && run.WindowLimit != nil {
			s.row("limit of open windows", run.WindowLimit.String()+" bytes per second")
		}
	}
	s.deadline(t)
	if r := t.Status.Receipt; r != nil && r.ConfigMapName != "" {
		s.next("verify the receipt of the run: kubectl lighterage receipt verify %s -n %s", r.ConfigMapName, t.Namespace)
	}
}

// deadline tells what is expected of the run that is awaited or under way, or how the last one ended.
func (s *sheet) deadline(t *v1alpha1.Transfer) {
	d := t.Status.Deadline
	if d == nil {
		return
	}
	s.section("Deadline")
	s.row("complete by", clock(d.Time.Time))
	s.at("wanted since", d.StartTime)
	s.at("expected", d.PredictedTime)
	if d.Slack != nil {
		s.row("slack", d.Slack.Duration.String())
	}
	if d.Hurried {
		s.row("hurried", "the run minimises its time, since with the objective of its policy it would have been late")
	}
	if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionWithinDeadline); c != nil {
		s.row("state", c.Reason+": "+c.Message)
	}
	s.planned(d)
}

// planned tells what strategy Cheapest has planned, and what else could have been.
func (s *sheet) planned(d *v1alpha1.DeadlineStatus) {
	if d.Message != "" {
		s.row("not by price", d.Message)
	}
	p := d.Plan
	if p == nil {
		return
	}
	cost := func(start, end time.Time, cost string) string {
		return fmt.Sprintf("start %s, end %s, cost %s %s", clock(start), clock(end), cost, p.Currency)
	}
	s.row("planned", cost(p.StartTime.Time, p.PredictedTime.Time, p.ExpectedCost)+", objective "+string(p.Objective))
	if len(p.NodeSelector) > 0 {
		s.row("preferred nodes", labels.FormatLabels(p.NodeSelector))
	}
	for _, a := range p.Alternatives {
		s.row("instead: "+string(a.Name), cost(a.StartTime.Time, a.PredictedTime.Time, a.ExpectedCost))
	}
}

// destinations tell how each of several is.
func (s *sheet) destinations(t *v1alpha1.Transfer) {
	if len(t.Status.Destinations) == 0 {
		return
	}
	s.section("Destinations")
	for i := range t.Status.Destinations {
		d := &t.Status.Destinations[i]
		text := fmt.Sprintf("%s, %s, %d%%, %s of %s, Transfer %s", overview.PlaceOf(t, d),
			cmp.Or(d.Phase, v1alpha1.TransferPending), d.Percent, table.Bytes(d.Bytes), table.Bytes(d.BytesTotal), d.Transfer)
		if d.Phase != v1alpha1.TransferComplete && d.Reason != "" {
			text += ": " + d.Reason + ": " + d.Message
		}
		s.row(d.Name, text)
	}
}

// copies tell which state of the source is read, and which the destination has.
func (s *sheet) copies(t *v1alpha1.Transfer) {
	method := t.Spec.Source.CopyMethod
	if t.Status.Staged == nil && t.Status.RecoveryPoint == nil && t.Spec.Objective == nil &&
		t.Spec.Destination.Snapshot == nil && len(t.Status.Snapshots) == 0 &&
		(method == "" || method == v1alpha1.CopyDirect) {
		return
	}
	s.section("Point in time")
	s.row("copy method", string(method))
	if c := t.Status.Staged; c != nil {
		s.rowf("copy", "%s %s of run %s", c.Method, c.State, c.RunID)
		s.row("name", c.Name)
		s.at("begun", &c.StartTime)
		s.at("has the state of", c.PointInTime)
		if c.Size != nil {
			s.row("size", c.Size.String())
		}
	}
	s.at("recovery point", t.Status.RecoveryPoint)
	s.snapshots(t.Spec.Destination.Snapshot != nil, t.Status.Snapshots, t.Status.Conditions)
	if t.Spec.Objective != nil {
		s.row("may be old", t.Spec.Objective.MaxAge.Duration.String())
	}
}

// snapshots tell which states the destination keeps.
func (s *sheet) snapshots(wanted bool, all []v1alpha1.SnapshotStatus, of []metav1.Condition) {
	if !wanted && len(all) == 0 {
		return
	}
	states := map[v1alpha1.SnapshotState]int{}
	for i := range all {
		states[all[i].State]++
	}
	s.rowf("history", "%d VolumeSnapshots of the destination: %d ready, %d failed", len(all),
		states[v1alpha1.SnapshotReady], states[v1alpha1.SnapshotFailed])
	if c := meta.FindStatusCondition(of, v1alpha1.ConditionHistoryKept); c != nil {
		s.rowf("newest", "%s: %s", c.Reason, c.Message)
	}
}

// template tells what claim is created.
func (s *sheet) template(t *v1alpha1.Transfer) {
	template := t.Spec.Destination.PersistentVolumeClaim.Template
	if template == nil {
		return
	}
	s.section("Claim of the destination")
	s.row("created if there is none", t.Spec.Destination.PersistentVolumeClaim.ClaimName)
	s.row("class", cmp.Or(template.StorageClassName, "(default)"))
	if template.Size != nil {
		s.row("at least", template.Size.String())
	}
	if template.HeadroomPercent != nil {
		s.rowf("headroom", "%d %% of the source's capacity", *template.HeadroomPercent)
	}
	if run := t.Status.Run; run != nil && run.ClaimSize != nil {
		s.row("asked for", run.ClaimSize.String())
	}
}

func ofDelivery(d *v1alpha1.Delivery, s *sheet) {
	of := d.Spec.Transfer
	s.section("Run")
	s.rowf("of", "Transfer %s/%s of %s, run %s, attempt %d", of.Namespace, of.Name,
		cmp.Or(d.Spec.Peer, v1alpha1.ThisCluster), of.Run, of.Attempt)
	into := d.Spec.Destination.PersistentVolumeClaim
	s.rowf("into", "claim %s, directory %s", into.ClaimName, cmp.Or(into.Path, "/"))
	if template := d.Spec.Destination.Template; template != nil {
		s.rowf("created if there is none", "%s of class %s", template.Size.String(),
			cmp.Or(template.StorageClassName, "(default)"))
	}
	s.row("phase", string(d.Status.Phase))
	s.snapshots(d.Spec.Destination.Snapshot != nil, d.Status.Snapshots, d.Status.Conditions)
	if p := d.Status.Progress; p != nil {
		s.rowf("progress", "%d%%, %d of %d files, %s of %s", p.Percent, p.Files, p.FilesTotal, table.Bytes(p.Bytes),
			table.Bytes(p.BytesTotal))
	}
	s.run(d.Status.Run)
	s.omissions(d.Status.Omissions)
	s.compression(d.Status.Compression, d.Status.Decompression)
	s.spent(d.Status.CPU, d.Status.Usage, d.Status.Cost)
	s.placement(d.Status.Placement)
	if d.Spec.Peer != "" {
		s.next("what was decided, and what else would have cost, shows the cluster of Peer %s: kubectl lighterage explain "+
			"transfer/%s -n %s", d.Spec.Peer, of.Name, of.Namespace)
	}
}

func ofTrial(t *v1alpha1.CompressionTrial, s *sheet) {
	s.run(t.Status.Run)
	s.policy(t.Status.Policy)
	if sample := t.Status.Sample; sample != nil {
		s.section("Sample")
		s.rowf("measured", "%s of %s", table.Bytes(sample.Bytes), table.Bytes(sample.BytesTotal))
		s.rowf("hopeless", "%s would be sent as they are in mode Auto", table.Bytes(sample.HopelessBytes))
		s.count("silent agents", sample.SilentAgents)
	}
	if r := t.Status.Recommendation; r != nil {
		s.section("Recommendation")
		s.row("why", r.Message)
		for _, c := range r.Choices {
			s.rowf(c.Link, "%s: %s", strings.Trim(c.Codec+" "+c.Engine+" "+c.Level, " "), c.Message)
		}
		s.next("write the recommended policy: kubectl get compressiontrial %s -n %s -o "+
			"jsonpath='{.status.recommendation.policy}'", t.Name, t.Namespace)
		s.next("see all figures: kubectl lighterage trial report %s -n %s -o text", t.Name, t.Namespace)
	}
	results, currency := OfResults(t)
	s.alternatives("Alternatives: what each engine did with the sample, and is predicted to do over links", results, currency)
	s.placement(t.Status.Placement)
}

func ofEndpoint(e *v1alpha1.HTTPEndpoint, s *sheet) {
	s.section("Service")
	s.row("backend", e.Status.Backend)
	s.row("ready", e.Status.Ready)
	s.at("certificate ends", e.Status.CertificateExpirationTime)
	if h := e.Status.Statistics; h != nil {
		s.rowf("responses", "%d: %d compressed by hardware, %d by software, %d as they were", h.Responses, h.HardwareCount,
			h.SoftwareCount, h.UncompressedCount)
		s.count("refused connections", h.Refused)
		s.count("timed out", h.TimedOut)
	}
	for _, r := range e.Status.Replicas {
		if r.State != "Serving" || !r.Current {
			s.rowf("replica "+r.Name, "%s on %s", r.State, cmp.Or(r.Node, "no node yet"))
		}
	}
	s.policy(e.Status.Policy)
	s.compression(e.Status.Compression, nil)
	s.decisions("bodies", "a client", e.Status.Decisions, e.Status.Compression)
	s.spent(e.Status.CPU, e.Status.Usage, e.Status.Cost)
	s.placement(e.Status.Placement)
	s.tryOthers(e.Namespace, "spec.source.httpEndpoint")
}

func ofQueue(q *v1alpha1.Queue, s *sheet) {
	s.section("Service")
	s.row("address", q.Status.Address)
	s.row("ready", q.Status.Ready)
	s.at("certificate ends", q.Status.CertificateExpirationTime)
	if t := q.Status.Statistics; t != nil {
		s.rowf("messages", "%d held, %d with consumers, %d dead letters", t.Depth, t.Unacknowledged, t.DeadLetters)
		s.at("oldest", t.OldestMessageTime)
		s.count("rejected puts", t.RefusedPuts)
		s.count("failed authentications", t.FailedAuthentications)
	}
	for _, m := range q.Status.Members {
		if m.State != "Serving" || !m.Current {
			s.rowf("member "+m.Name, "%s on %s", m.State, cmp.Or(m.Node, "no node yet"))
		}
	}
	if l := q.Status.Loss; l != nil {
		s.rowf("lost", "%d messages, noticed %s", l.Messages.Count, clock(l.NoticedTime.Time))
	}
	for _, c := range q.Status.SendingChannels() {
		s.section("Channel to " + c.Destination)
		s.row("state", c.State)
		s.row("carries", strings.TrimSpace(c.NegotiatedCodec+" "+string(c.NegotiatedLevel)))
		s.row("data path", pathText(c.DataPath))
		s.rowf("messages", "%d stored there, %d in doubt, %d dead letters", c.Messages, c.InDoubt, c.DeadLetters)
		s.count("position", c.Position)
		s.count("dictionaries sent", c.Dictionaries)
		if c.LastError != nil {
			s.row("last error", c.LastError.Reason+": "+c.LastError.Message)
		}
		s.at("next try", c.NextTryTime)
	}
	for _, r := range q.Status.Received {
		if r.LastError == nil && r.Dictionaries == 0 {
			continue
		}
		s.section("Channel from " + r.Source)
		s.count("dictionaries received", r.Dictionaries)
		if r.LastError != nil {
			s.row("last error", r.LastError.Reason+": "+r.LastError.Message)
		}
	}
	s.archive("claim", q.Status.Archive)
	s.archive("object store", q.Status.StoreArchive)
	s.policy(q.Status.Policy)
	s.compression(q.Status.Compression, q.Status.Decompression)
	s.decisions("messages", "another member or server", q.Status.Decisions, q.Status.Compression)
	if d := q.Status.Dictionaries; d != nil {
		s.section("Dictionaries")
		s.row("state", d.Message)
		s.rowf("kept", "%d, %d of them of deflate", d.Kept, d.KeptDeflate)
		s.rowf("referring", "%d messages since the members started or the last reset", d.Messages)
		if c := d.Current; c != nil {
			s.rowf("in use", "number %d of %s, %d bytes, trained on %d messages", c.Number, cmp.Or(c.Codec, v1alpha1.CodecZstd),
				c.Bytes, c.TrainingMessages)
			s.at("trained", c.TrainedTime)
			s.rowf("saves", "%s %% of the bytes of %d later messages, against %s %% without, at %s times the CPU time",
				c.SavedPercent, c.MeasuredMessages, c.SavedPercentWithout, c.CPURatio)
		}
	}
	for _, c := range q.Status.SendingChannels() {
		what, to := "messages of the channel", "the peer"
		if q.Status.Channel == nil {
			what += " to " + c.Destination
		}
		if strings.Count(c.Destination, "/") == 1 {
			to = "the other Queue"
		}
		s.decisions(what, to, c.Decisions, nil)
	}
	s.spent(q.Status.CPU, q.Status.Usage, q.Status.Cost)
	s.placement(q.Status.Placement)
	s.tryOthers(q.Namespace, "spec.source.queue")
}

func ofStore(o *v1alpha1.ObjectStore, s *sheet) {
	s.section("Store")
	s.rowf("at", "bucket %s of %s, prefix %q", o.Spec.Bucket, o.Spec.Endpoint, o.Spec.Prefix)
	if p := o.Status.Probe; p != nil {
		s.at("probed", o.Status.LastProbeTime)
		s.at("next probe", p.NextTime)
		s.count("failures in a row", int64(p.Failures))
	}
	if len(o.Status.Promises) > 0 {
		s.section("What the last probe found")
	}
	for _, p := range o.Status.Promises {
		answer := "no: " + p.Message
		if p.Kept != nil && *p.Kept {
			answer = "yes"
		}
		s.row(string(p.Type), answer)
	}
	s.next("have it probed now: change spec, or wait for the next probe")
}

func ofTariff(t *v1alpha1.Tariff, s *sheet) {
	s.section("Prices now")
	if err := tariff.Validate(t); err != nil {
		s.row("none", err.Error())
		return
	}
	add := func(name string, node map[string]string, peer string, direction v1alpha1.Direction) {
		prices, err := tariff.Resolve(tariff.Query{
			Tariffs: []v1alpha1.Tariff{*t}, Name: t.Name, Node: node, Peer: peer, Direction: direction, Time: s.now,
		})
		if err == nil && prices != nil {
			s.row(name, pricesText(*prices))
		}
	}
	add("otherwise", nil, "", "")
	for i, rule := range t.Spec.CPUHour.Rules {
		if len(rule.NodeSelector) > 0 {
			add(fmt.Sprintf("nodes of cpuHour.rules[%d]", i), rule.NodeSelector, "", "")
		}
	}
	for _, rule := range t.Spec.NetworkGiB.Rules {
		for _, peer := range rule.Peers {
			direction := cmp.Or(rule.Direction, v1alpha1.DirectionSend)
			add(strings.ToLower(string(direction))+", Peer "+peer, nil, peer, direction)
		}
	}
	s.row("storage", cmp.Or(t.Spec.StorageGiBMonth, "0")+" per GiB and month")
	of := t.Spec.ObjectStore
	s.rowf("object stores", "%s per 1,000 requests that write, %s per 1,000 that read, %s per GiB read",
		cmp.Or(of.WriteRequests, "0"), cmp.Or(of.ReadRequests, "0"), cmp.Or(of.EgressGiB, "0"))
	if why := tariff.Unreachable(t); why != "" {
		s.row("unreachable", why)
	}
	s.section("Used by")
	s.rowf("policies", "%d: %s", t.Status.PolicyCount, strings.Join(t.Status.Policies, ", "))
	s.next("see what was charged: kubectl lighterage cost --all-namespaces")
}

func ofProfile(p *v1alpha1.NodeProfile, s *sheet) {
	s.section("Node")
	s.rowf("machine", "%s, %d cores, %s, kernel %s", p.Status.Architecture, p.Status.Cores,
		cmp.Or(p.Status.CPUModel, unknown), cmp.Or(p.Status.Kernel, unknown))
	s.at("measured", p.Status.MeasuredTime)
	if a := p.Status.Accelerator; a != nil {
		s.rowf("accelerator", "%s, %s: %s", a.State, a.Reason, a.Message)
		if a.SlowerThanSoftware {
			s.row("", "software compresses faster here")
		}
		s.row("busy", a.BusyFraction)
	}
	s.row("network stack", cmp.Or(p.Status.NetworkCPUSecondsPerGiB, unknown)+" CPU seconds per GiB")
	if c := p.Status.LastChange; c != nil {
		s.row("changed", c.Reason+": "+c.Message)
	}
	if len(p.Status.DataPaths) > 0 {
		s.section("Moving data, by the runs of agents here")
		s.row("PATH", "CPU S/GIB", "RUNS", "LAST")
	}
	for _, d := range p.Status.DataPaths {
		s.row(string(d.Type), d.CPUSecondsPerGiB, strconv.Itoa(int(d.Runs)), clock(d.MeasuredTime.Time))
	}
	if len(p.Status.Engines) > 0 {
		s.section("Engines on one core, on the agents' sample")
		s.row("CODEC", "ENGINE", "LEVEL", "COMPRESSES", "RATIO", "INFLATES", "USED")
	}
	for _, e := range p.Status.Engines {
		for _, l := range e.Levels {
			var used []string
			if l.Selected {
				used = append(used, "to compress")
			}
			if e.Inflates {
				used = append(used, "to inflate")
			}
			if !e.Verified {
				used = append(used, "not verified")
			}
			s.row(e.Codec, e.Name, string(l.Level), table.Rate(float64(l.CompressBytesPerSecond)), l.Ratio,
				table.Rate(float64(e.DecompressBytesPerSecond)), cmp.Or(strings.Join(used, ", "), "no"))
		}
	}
	s.next("prove the accelerator now: kubectl lighterage prove %s", p.Name)
}

func ofStatement(t *v1alpha1.Statement, s *sheet) {
	s.section("Month " + t.Spec.Month)
	s.row("state", string(t.Status.State))
	s.at("booked until", t.Status.LastBookingTime)
	s.row("continued in", t.Status.Successor)
	s.count("objects that are not booked", int64(t.Status.UnbookedObjects))
	for _, total := range t.Status.Totals {
		text := fmt.Sprintf("%s moved, %s on the wire, %s s of CPU", table.Bytes(total.PlainBytes),
			table.Bytes(total.WireBytes), cmp.Or(total.CPUSeconds, "0"))
		if total.Currency == "" {
			s.row("not charged", text)
			continue
		}
		s.rowf("total", "%s %s for %s; compression avoided %s", total.Currency, total.Cost, text, total.Avoided)
	}
	s.next("see it by day, Peer, direction or engine: kubectl lighterage cost -n %s --month %s", t.Namespace, t.Spec.Month)
}

func ofQuota(q *v1alpha1.DataQuota, s *sheet) {
	s.section("Limits")
	hard, used := q.Spec.Hard, v1alpha1.DataQuotaResources{}
	if q.Status.Used != nil {
		used = *q.Status.Used
	}
	count := func(name string, limit, now *int32) {
		if limit != nil {
			s.rowf(name, "%s of %d", numeral(now), *limit)
		}
	}
	amount := func(name string, limit, now *resource.Quantity) {
		if limit != nil {
			text := unknown
			if now != nil {
				text = now.String()
			}
			s.rowf(name, "%s of %s", text, limit.String())
		}
	}
	count("running Transfers", hard.RunningTransfers, used.RunningTransfers)
	count("running Deliveries", hard.RunningDeliveries, used.RunningDeliveries)
	amount("bandwidth", hard.Bandwidth, used.Bandwidth)
	amount("storage of Queues", hard.QueueBytes, used.QueueBytes)
	s.next("see what waits: kubectl lighterage status -n %s", q.Namespace)
}

func numeral(n *int32) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

// sheet collects the facts about an object.
type sheet struct {
	report *Report
	now    time.Time
}

// section begins another table. One that stays empty is not shown.
func (s *sheet) section(title string) {
	s.report.Sections = append(s.report.Sections, Section{Title: title, Rows: table.Rows{}})
}

// row adds a row of cells, of which one at least is beside the name, unless these are empty.
func (s *sheet) row(name string, cells ...string) {
	if strings.Join(cells, "") == "" {
		return
	}
	last := &s.report.Sections[len(s.report.Sections)-1]
	last.Rows.Add(append([]string{name}, cells...)...)
}

func (s *sheet) rowf(name, format string, values ...any) { s.row(name, fmt.Sprintf(format, values...)) }

// at adds a time, unless it is not known.
func (s *sheet) at(name string, t *metav1.Time) {
	if t != nil && !t.IsZero() {
		s.row(name, clock(t.Time))
	}
}

// count adds a number, unless it is 0.
func (s *sheet) count(name string, n int64) {
	if n != 0 {
		s.row(name, fmt.Sprint(n))
	}
}

func (s *sheet) next(format string, values ...any) {
	s.report.Next = append(s.report.Next, fmt.Sprintf(format, values...))
}
