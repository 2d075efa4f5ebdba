// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/overview"
	"github.com/lighterage/lighterage/controllers/table"
)

// column of a list is a title, as columns reads it, and what an object has there.
type column[T any] struct {
	title string
	cell  func(*T) string
}

// lists are the columns of kinds beside those that all have.
var lists = map[string]func() ([]string, func(explain.Object) []string){
	"Transfer": of(
		column[v1alpha1.Transfer]{"Phase", func(t *v1alpha1.Transfer) string { return string(t.Status.Phase) }},
		column[v1alpha1.Transfer]{"Other side+", func(t *v1alpha1.Transfer) string {
			r := overview.OfTransfer(t)
			return r.Side()
		}},
		column[v1alpha1.Transfer]{"#Saved", func(t *v1alpha1.Transfer) string { return saved(t.Status.Compression) }},
		column[v1alpha1.Transfer]{"Engine+", func(t *v1alpha1.Transfer) string { return engine(t.Status.Compression) }},
		column[v1alpha1.Transfer]{"#Cost", func(t *v1alpha1.Transfer) string { return cost(t.Status.Cost) }},
	),
	"TransferSet": of(
		column[v1alpha1.TransferSet]{"#Claims", func(s *v1alpha1.TransferSet) string {
			return members(s, func(m *v1alpha1.TransferSetMembers) int32 { return m.Selected })
		}},
		column[v1alpha1.TransferSet]{"#Complete", func(s *v1alpha1.TransferSet) string {
			return members(s, func(m *v1alpha1.TransferSetMembers) int32 { return m.Complete })
		}},
		column[v1alpha1.TransferSet]{"#Failed", func(s *v1alpha1.TransferSet) string {
			return members(s, func(m *v1alpha1.TransferSetMembers) int32 { return m.Failed })
		}},
		column[v1alpha1.TransferSet]{"#At the destinations+", func(s *v1alpha1.TransferSet) string {
			return table.Bytes(max(s.Status.Bytes, 0))
		}},
	),
	"Drill": of(
		column[v1alpha1.Drill]{"Recoverable", func(d *v1alpha1.Drill) string {
			c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionRecoverable)
			if c == nil {
				return ""
			}
			return c.Reason
		}},
		column[v1alpha1.Drill]{"Last recoverable", func(d *v1alpha1.Drill) string {
			return timestamp(d.Status.LastRecoverableTime)
		}},
		column[v1alpha1.Drill]{"#Took", func(d *v1alpha1.Drill) string {
			if len(d.Status.History) == 0 || d.Status.History[0].Duration == nil {
				return ""
			}
			return d.Status.History[0].Duration.Round(time.Second).String()
		}},
		column[v1alpha1.Drill]{"#CPU/GiB+", func(d *v1alpha1.Drill) string {
			if len(d.Status.History) == 0 || d.Status.History[0].CPU == nil {
				return ""
			}
			return d.Status.History[0].CPU.SecondsPerGiB
		}},
	),
	"ObjectStore": of(
		column[v1alpha1.ObjectStore]{"Bucket", func(o *v1alpha1.ObjectStore) string { return o.Spec.Bucket }},
		column[v1alpha1.ObjectStore]{"Endpoint+", func(o *v1alpha1.ObjectStore) string { return o.Spec.Endpoint }},
		column[v1alpha1.ObjectStore]{"Probed+", func(o *v1alpha1.ObjectStore) string {
			return timestamp(o.Status.LastProbeTime)
		}},
	),
	"CompressionTrial": of(
		column[v1alpha1.CompressionTrial]{"Phase", func(t *v1alpha1.CompressionTrial) string {
			return string(t.Status.Phase)
		}},
	),
	"Delivery": of(
		column[v1alpha1.Delivery]{"Phase", func(d *v1alpha1.Delivery) string { return string(d.Status.Phase) }},
		column[v1alpha1.Delivery]{"From", func(d *v1alpha1.Delivery) string {
			return cmp.Or(d.Spec.Peer, v1alpha1.ThisCluster) + ", " + d.Spec.Transfer.Namespace + "/" + d.Spec.Transfer.Name
		}},
		column[v1alpha1.Delivery]{"#Saved", func(d *v1alpha1.Delivery) string { return saved(d.Status.Compression) }},
		column[v1alpha1.Delivery]{"#Cost+", func(d *v1alpha1.Delivery) string { return cost(d.Status.Cost) }},
	),
	"Queue": of(
		column[v1alpha1.Queue]{"Members", func(q *v1alpha1.Queue) string { return q.Status.Ready }},
		column[v1alpha1.Queue]{"#Messages", func(q *v1alpha1.Queue) string {
			return queued(q, func(s *v1alpha1.QueueStatistics) string { return fmt.Sprint(s.Depth) })
		}},
		column[v1alpha1.Queue]{"#With consumers+", func(q *v1alpha1.Queue) string {
			return queued(q, func(s *v1alpha1.QueueStatistics) string { return fmt.Sprint(s.Unacknowledged) })
		}},
		column[v1alpha1.Queue]{"#Dead letters", func(q *v1alpha1.Queue) string {
			return queued(q, func(s *v1alpha1.QueueStatistics) string { return fmt.Sprint(s.DeadLetters) })
		}},
		column[v1alpha1.Queue]{"#Puts/s+", func(q *v1alpha1.Queue) string {
			return queued(q, func(s *v1alpha1.QueueStatistics) string { return s.Puts.PerSecond })
		}},
		column[v1alpha1.Queue]{"#Gets/s+", func(q *v1alpha1.Queue) string {
			return queued(q, func(s *v1alpha1.QueueStatistics) string { return s.Gets.PerSecond })
		}},
		column[v1alpha1.Queue]{"Channel+", func(q *v1alpha1.Queue) string {
			var all []string
			for _, c := range q.Status.SendingChannels() {
				all = append(all, c.State+" to "+c.Destination)
			}
			return strings.Join(all, ", ")
		}},
		column[v1alpha1.Queue]{"#Saved", func(q *v1alpha1.Queue) string { return saved(q.Status.Compression) }},
	),
	"HTTPEndpoint": of(
		column[v1alpha1.HTTPEndpoint]{"Replicas", func(e *v1alpha1.HTTPEndpoint) string { return e.Status.Ready }},
		column[v1alpha1.HTTPEndpoint]{"Backend+", func(e *v1alpha1.HTTPEndpoint) string { return e.Status.Backend }},
		column[v1alpha1.HTTPEndpoint]{"#Responses", func(e *v1alpha1.HTTPEndpoint) string {
			if e.Status.Statistics == nil {
				return ""
			}
			return fmt.Sprint(e.Status.Statistics.Responses)
		}},
		column[v1alpha1.HTTPEndpoint]{"#Active+", func(e *v1alpha1.HTTPEndpoint) string {
			if e.Status.Statistics == nil {
				return ""
			}
			return fmt.Sprint(e.Status.Statistics.Active)
		}},
		column[v1alpha1.HTTPEndpoint]{"#Saved", func(e *v1alpha1.HTTPEndpoint) string { return saved(e.Status.Compression) }},
		column[v1alpha1.HTTPEndpoint]{"#Cost+", func(e *v1alpha1.HTTPEndpoint) string { return cost(e.Status.Cost) }},
	),
	"NodeProfile": of(
		column[v1alpha1.NodeProfile]{"Machine", func(p *v1alpha1.NodeProfile) string {
			return strings.Trim(fmt.Sprintf("%s, %d cores", p.Status.Architecture, p.Status.Cores), ", ")
		}},
		column[v1alpha1.NodeProfile]{"Accelerator", func(p *v1alpha1.NodeProfile) string {
			if p.Status.Accelerator == nil {
				return ""
			}
			return string(p.Status.Accelerator.State)
		}},
		column[v1alpha1.NodeProfile]{"#Busy+", func(p *v1alpha1.NodeProfile) string {
			if p.Status.Accelerator == nil {
				return ""
			}
			return p.Status.Accelerator.BusyFraction
		}},
		column[v1alpha1.NodeProfile]{"#Compresses", func(p *v1alpha1.NodeProfile) string {
			best := int64(0)
			for _, e := range p.Status.Engines {
				best = max(best, e.CompressBytesPerSecond)
			}
			if best <= 0 {
				return ""
			}
			return table.Rate(float64(best))
		}},
		column[v1alpha1.NodeProfile]{"#Network CPU/GiB+", func(p *v1alpha1.NodeProfile) string {
			return p.Status.NetworkCPUSecondsPerGiB
		}},
	),
	"Peer": of(
		column[v1alpha1.Peer]{"Endpoint+", func(p *v1alpha1.Peer) string { return p.Spec.Endpoint }},
		column[v1alpha1.Peer]{"Version+", func(p *v1alpha1.Peer) string { return p.Status.Version }},
		column[v1alpha1.Peer]{"#Sent", func(p *v1alpha1.Peer) string { return wired(p.Status.Sent) }},
		column[v1alpha1.Peer]{"#Received", func(p *v1alpha1.Peer) string { return wired(p.Status.Received) }},
	),
	"Statement": of(
		column[v1alpha1.Statement]{"Booking", func(s *v1alpha1.Statement) string { return string(s.Status.State) }},
		column[v1alpha1.Statement]{"#Moved+", func(s *v1alpha1.Statement) string {
			return totals(s, func(t *v1alpha1.StatementTotal) string { return table.Bytes(max(t.PlainBytes, 0)) })
		}},
		column[v1alpha1.Statement]{"#On the wire+", func(s *v1alpha1.Statement) string {
			return totals(s, func(t *v1alpha1.StatementTotal) string { return table.Bytes(max(t.WireBytes, 0)) })
		}},
		column[v1alpha1.Statement]{"#Cost", func(s *v1alpha1.Statement) string {
			return totals(s, func(t *v1alpha1.StatementTotal) string { return strings.TrimSpace(t.Currency + " " + t.Cost) })
		}},
		column[v1alpha1.Statement]{"#Avoided", func(s *v1alpha1.Statement) string {
			return totals(s, func(t *v1alpha1.StatementTotal) string { return strings.TrimSpace(t.Currency + " " + t.Avoided) })
		}},
	),
}

// of makes the entry of a kind.
func of[T any](all ...column[T]) func() ([]string, func(explain.Object) []string) {
	return func() ([]string, func(explain.Object) []string) {
		var titles []string
		for _, c := range all {
			titles = append(titles, c.title)
		}
		return titles, func(object explain.Object) []string {
			cells := make([]string, len(all))
			if typed, ok := any(object).(*T); ok {
				for i, c := range all {
					cells[i] = c.cell(typed)
				}
			}
			return cells
		}
	}
}

// List is a table of objects of a kind of a cluster.
func List(title string, cluster int, kind, resource string, objects []explain.Object, now time.Time) Table {
	var titles []string
	tell := func(explain.Object) []string { return nil }
	if its, ok := lists[kind]; ok {
		titles, tell = its()
	}
	t := Table{Title: title, Columns: columns(append(append([]string{"Name", "State"}, titles...), "#Age+")...)}
	for _, o := range objects {
		conditions := explain.Conditions(o)
		state, why := overview.StateOf(conditions)
		name := text(strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
		name.Link = &Link{cluster, resource, o.GetNamespace(), o.GetName()}
		cells := []Cell{name, stateCell(state)}
		for _, told := range tell(o) {
			cells = append(cells, text(cmp.Or(told, unknown)))
		}
		row := t.add(append(cells, text(Age(now, o.GetCreationTimestamp().Time)))...)
		row.Why = attention(state, why)
	}
	return t
}

func members(s *v1alpha1.TransferSet, count func(*v1alpha1.TransferSetMembers) int32) string {
	if s.Status.Members == nil {
		return ""
	}
	return fmt.Sprint(count(s.Status.Members))
}

func timestamp(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// attention is why somebody should look at an object.
func attention(state overview.State, why *metav1.Condition) string {
	if why == nil || state != overview.Failed && state != overview.Stalled && state != overview.Waiting {
		return ""
	}
	return text(strings.Trim(why.Reason+": "+why.Message, ": ")).Text
}

func saved(c *v1alpha1.CompressionStatus) string {
	if c == nil || c.UncompressedBytes <= 0 {
		return ""
	}
	return fmt.Sprintf("%d %%", c.SavedPercent)
}

func engine(c *v1alpha1.CompressionStatus) string {
	if c == nil {
		return ""
	}
	return cmp.Or(c.Engine, c.Codec)
}

func cost(c *v1alpha1.CostStatus) string {
	if c == nil || c.Currency == "" {
		return ""
	}
	return overview.CostsOf(c).String()
}

func queued(q *v1alpha1.Queue, tell func(*v1alpha1.QueueStatistics) string) string {
	if q.Status.Statistics == nil {
		return ""
	}
	return tell(q.Status.Statistics)
}

func wired(u *v1alpha1.UsedByStatus) string {
	if u == nil || u.WireBytes <= 0 {
		return ""
	}
	return table.Bytes(u.WireBytes)
}

// totals are those of all currencies, which are never added.
func totals(s *v1alpha1.Statement, tell func(*v1alpha1.StatementTotal) string) string {
	var all []string
	for i := range s.Status.Totals {
		all = append(all, tell(&s.Status.Totals[i]))
	}
	return strings.Join(all, " + ")
}
