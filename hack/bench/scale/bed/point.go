// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"os"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
)

// Point is what was counted until a moment.
type Point struct {
	At time.Time
	// Usage of the processes; zero for one that does not run. Own is this one's.
	Manager, Gateway, API, Etcd, Own harness.Usage
	// Busy and Idle are all processors' together.
	Busy, Idle time.Duration
	Record     controlplane.Record
	// Metrics of the manager; none while it does not serve them.
	Metrics controlplane.Metrics
	// Put is how many bytes of keys and values etcd was given, Database the size of its file.
	Put, Database float64
	Asked         fleet.Asked
}

// Span is what happened between two moments, through which one manager ran.
type Span struct {
	From, To Point
}

// Length of it.
func (s Span) Length() time.Duration { return s.To.At.Sub(s.From.At) }

// PerSecond is how many of n there were in a second.
func (s Span) PerSecond(n float64) float64 { return n / s.Length().Seconds() }

// Requests counts those that satisfy a condition.
func (s Span) Requests(of func(controlplane.Kind) bool) int64 {
	var n int64
	for kind, count := range s.To.Record.Requests {
		if of(kind) {
			n += count - s.From.Record.Requests[kind]
		}
	}
	return n
}

// Writes of the manager that are neither progress nor statistics of what runs, nor bookings.
func (s Span) Writes() int64 {
	all := s.Requests(func(k controlplane.Kind) bool { return k.Program == controlplane.Manager && k.Writes() })
	return all - s.ProgressWrites() - s.StatisticsWrites() - s.Bookings()
}

// Bookings are writes of Statements, with their creation.
func (s Span) Bookings() (n int64) {
	for namespace, count := range s.To.Record.Bookings {
		n += count - s.From.Record.Bookings[namespace]
	}
	return n
}

// ProgressWrites are those that are about the progress of Transfers and Deliveries alone.
func (s Span) ProgressWrites() int64 { return s.To.Record.Progress - s.From.Record.Progress }

// StatisticsWrites are those that are about the statistics of Queues and HTTPEndpoints alone.
func (s Span) StatisticsWrites() int64 { return s.To.Record.Statistics - s.From.Record.Statistics }

// ProgressBytes is the mean of a write of progress.
func (s Span) ProgressBytes() float64 {
	return float64(s.To.Record.ProgressBytes-s.From.Record.ProgressBytes) / float64(s.ProgressWrites())
}

const (
	reconciles    = "controller_runtime_reconcile_total"
	reconcileTime = "controller_runtime_reconcile_time_seconds_bucket"
	depth         = "workqueue_depth"
	controller    = "controller"

	reconcileSum   = "controller_runtime_reconcile_time_seconds_sum"
	reconcileCount = "controller_runtime_reconcile_time_seconds_count"
)

// Reconciles of all controllers.
func (s Span) Reconciles() float64 {
	return s.To.Metrics.Of(reconciles, "").Sum() - s.From.Metrics.Of(reconciles, "").Sum()
}

// P99 of reconciles of these controllers, in milliseconds.
func (s Span) P99(of ...string) float64 {
	const milliseconds = 1e3
	return milliseconds * s.To.Metrics.Of(reconcileTime, controller,
		of...).Since(s.From.Metrics.Of(reconcileTime, controller, of...)).Quantile(0.99)
}

// MeanTime of reconciles of a controller since the manager was started, in milliseconds.
func (p Point) MeanTime(of string) float64 {
	const milliseconds = 1e3
	sum, count := p.Metrics.Of(reconcileSum, controller, of), p.Metrics.Of(reconcileCount, controller, of)
	return milliseconds * sum.Sum() / count.Sum()
}

// Idle is which part of all processors did nothing.
func (s Span) Idle() float64 {
	idle, busy := s.To.Idle-s.From.Idle, s.To.Busy-s.From.Busy
	return float64(idle) / float64(max(1, idle+busy))
}

// Cores that a process kept busy.
func (s Span) Cores(of func(Point) harness.Usage) float64 {
	return s.PerSecond(s.CPU(of))
}

// CPU in seconds.
func (s Span) CPU(of func(Point) harness.Usage) float64 {
	return (of(s.To).CPU - of(s.From).CPU).Seconds()
}

// Manager is the manager's usage.
func Manager(p Point) harness.Usage { return p.Manager }

// Gateway is the gateway's.
func Gateway(p Point) harness.Usage { return p.Gateway }

// APIServer is the API server's.
func APIServer(p Point) harness.Usage { return p.API }

// Etcd is etcd's.
func Etcd(p Point) harness.Usage { return p.Etcd }

// Own is this process's.
func Own(p Point) harness.Usage { return p.Own }

// Point looks at everything now.
func (b *Bed) Point(ctx context.Context) (p Point, err error) {
	p.At, p.Asked = time.Now(), b.Fleet.Asked()
	for _, one := range []struct {
		into *harness.Usage
		of   *controlplane.Program
		pid  harness.PID
	}{{&p.Manager, b.Manager, 0}, {&p.Gateway, b.Gateway, 0}, {&p.API, nil, b.Cluster.APIServer},
		{&p.Etcd, nil, b.Cluster.Etcd}, {&p.Own, nil, harness.PID(os.Getpid())}} {
		if one.of != nil {
			one.pid = one.of.PID
		}
		if one.pid == 0 {
			continue
		}
		if *one.into, err = one.pid.Usage(); err != nil {
			return p, err
		}
	}
	if p.Busy, p.Idle, err = harness.SystemCPU(); err != nil {
		return p, err
	}
	if p.Record, err = b.Cluster.Ledger.Read(); err != nil {
		return p, err
	}
	stored, err := b.Cluster.EtcdMetrics(ctx)
	if err != nil {
		return p, err
	}
	p.Put = stored.Of("etcd_debugging_mvcc_total_put_size_in_bytes", "").Sum()
	p.Database = stored.Of("etcd_mvcc_db_total_size_in_bytes", "").Sum()
	if b.Manager != nil {
		// One that has just been started does not serve yet.
		if metrics, err := b.Cluster.ManagerMetrics(ctx); err == nil {
			p.Metrics = metrics
		}
	}
	return p, nil
}
