// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/scale/bed"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
)

// logs of manager and gateway are for who wants to know why.
const logs = "dist/bench"

// result of one size.
type result struct {
	world    fleet.World
	versions string
	// first is the first pass, until everything that is to run does, and steady what follows.
	first, steady bed.Span
	// resident is the most memory that the manager had in the steady state.
	resident int64
	// oldest is how old the progress of a running Transfer or Delivery was at most.
	oldest time.Duration
	// quiet is a time without a manager.
	quiet bed.Span
	// restart until the manager has observed everything; observed is how long that took, 0 if it did not.
	restart  bed.Span
	observed time.Duration
	// silent: a fifth of the agents says nothing.
	silent bed.Span
	// arrivals are so many runs of other clusters that are opened at the gateway.
	arrivals bed.Span
	arrived  int
	// ended is until each Transfer that is to run has run and ended.
	ended bed.Span
	// bandwidths is how often agents were told another limit.
	bandwidths int64
	// have says which of the spans were measured: all before it were as well.
	have stage
	// templates is how many Deployments and StatefulSets were changed after they had been made.
	templates int64
	problems  []string
}

// stage is how far a measurement has come.
type stage int

const (
	_ stage = iota
	haveFirst
	haveSteady
	haveRestart
	haveSilent
	haveArrivals
	haveEnded
)

// part of a measurement.
type part struct {
	stage stage
	run   func(*measuring, context.Context) error
}

var (
	// usual are the parts for every number of Transfers.
	usual = []part{
		{haveFirst, (*measuring).firstPass}, {haveSteady, (*measuring).steady}, {haveRestart, (*measuring).restart},
		{haveSilent, (*measuring).silent}, {haveArrivals, (*measuring).arrivals},
	}
	// plain and limited are those for two worlds that are compared.
	plain   = append(slices.Clone(usual), part{haveEnded, (*measuring).end})
	limited = []part{
		{haveFirst, (*measuring).firstPass}, {haveSteady, (*measuring).steady}, {haveEnded, (*measuring).end},
	}
)

// measuring is what takes part in measuring one size.
type measuring struct {
	*bed.Bed
	extent extent
	result result
}

func measure(
	ctx context.Context, e extent, world fleet.World, directory string, parts []part,
) (r result, err error) {
	m := &measuring{extent: e, result: result{world: world}}
	m.say("starting a control plane and populating it")
	if m.Bed, err = bed.Start(ctx, world, directory, logs); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if m.result.versions, err = m.Cluster.Versions(ctx); err != nil {
		return r, err
	}
	for _, part := range parts {
		err := part.run(m, ctx)
		if errors.Is(err, bed.ErrEnded) && ctx.Err() == nil {
			// What follows cannot be measured; that is a result.
			m.problem("%v", m.Manager.Failure())
			break
		}
		if err != nil {
			return m.result, err
		}
		m.result.have = part.stage
	}
	m.result.templates, m.result.bandwidths = m.Fleet.Templates.Load(), m.Fleet.Bandwidths.Load()
	if err := m.Fleet.Err(); err != nil {
		m.problem("the fleet gave up: %v", err)
	}
	return m.result, nil
}

// name of a world.
func name(w fleet.World) string {
	if w.Limited {
		return harness.Grouped(w.Transfers) + " Transfers with limits"
	}
	return harness.Grouped(w.Transfers) + " Transfers"
}

// say tells how far it has come.
func (m *measuring) say(format string, args ...any) {
	harness.Log("%s: %s", name(m.result.world), fmt.Sprintf(format, args...))
}

// problem is one that the report tells of.
func (m *measuring) problem(format string, args ...any) {
	m.result.problems = append(m.result.problems, fmt.Sprintf(format, args...))
}

// toldEvery is how often it is said what is waited for.
const toldEvery = 15 * time.Second

// firstPass starts a manager in a cluster in which nothing was looked at yet.
func (m *measuring) firstPass(ctx context.Context) (err error) {
	r := &m.result
	if r.first.From, err = m.Point(ctx); err != nil {
		return err
	}
	m.say("first pass")
	if err := m.StartManager(); err != nil {
		return err
	}
	missing, told := "", time.Now()
	took, err := m.Until(ctx, m.extent.patience, func() (bool, error) {
		missing, err = m.Missing(ctx)
		if time.Since(told) > toldEvery {
			told = time.Now()
			m.say("first pass: %s", missing)
		}
		return missing == "", err
	})
	if errors.Is(err, bed.ErrEnded) {
		// What it asked for says something.
		r.first.To, _ = m.Point(ctx)
	}
	if err != nil {
		return err
	}
	if took == 0 {
		m.problem("the first pass had not ended after %s: %s", m.extent.patience, missing)
	}
	r.first.To, err = m.Point(ctx)
	return err
}

// steady looks on.
func (m *measuring) steady(ctx context.Context) (err error) {
	r := &m.result
	m.say("steady state for %s", m.extent.steady)
	m.Cluster.Ledger.ForgetGaps()
	if r.steady.From, err = m.Point(ctx); err != nil {
		return err
	}
	profiled := make(chan error, 1)
	if m.extent.profile == "" {
		profiled <- nil
	} else {
		go func() { profiled <- controlplane.Profile(ctx, m.extent.profile, m.extent.steady*9/10) }()
	}
	for deadline := time.Now().Add(m.extent.steady); time.Now().Before(deadline); {
		if err := m.Wait(ctx, min(time.Second, time.Until(deadline))); err != nil {
			return err
		}
		usage, err := m.Manager.Usage()
		if err != nil {
			return err
		}
		r.resident = max(r.resident, usage.Resident)
	}
	if r.steady.To, err = m.Point(ctx); err != nil {
		return err
	}
	for _, progress := range r.steady.To.Record.Runs {
		r.oldest = max(r.oldest, progress.Longest, r.steady.To.At.Sub(progress.Last))
	}
	return <-profiled
}

// restart looks at the cluster without a manager, and then at how another one finds its way.
func (m *measuring) restart(ctx context.Context) (err error) {
	r := &m.result
	m.say("restart")
	if err := m.StopManager(); err != nil {
		return err
	}
	if r.quiet.From, err = m.Point(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(m.extent.quiet):
	}
	if r.quiet.To, err = m.Point(ctx); err != nil {
		return err
	}
	r.restart.From = r.quiet.To
	if err := m.StartManager(); err != nil {
		return err
	}
	if r.observed, err = m.Until(ctx, m.extent.restart,
		func() (bool, error) { return m.Observed(ctx), nil }); err != nil {
		return err
	}
	if r.observed == 0 {
		m.problem("after a restart the manager had not observed everything within %s", m.extent.restart)
	}
	if r.restart.To, err = m.Point(ctx); err != nil {
		return err
	}
	for object, n := range r.restart.To.Record.Written {
		if more := n - r.restart.From.Record.Written[object]; more > 0 {
			m.problem(
				"after a restart the manager wrote %s %s/%s %d times", object.Resource, object.Namespace, object.Name, more,
			)
		}
	}
	return nil
}

// silent has a fifth of the agents say nothing.
func (m *measuring) silent(ctx context.Context) (err error) {
	r := &m.result
	m.say("a fifth of the agents is silent for %s", m.extent.silent)
	m.Fleet.Silence(true)
	defer m.Fleet.Silence(false)
	if r.silent.From, err = m.Point(ctx); err != nil {
		return err
	}
	if err := m.Wait(ctx, m.extent.silent); err != nil {
		return err
	}
	r.silent.To, err = m.Point(ctx)
	return err
}

// arrivals has runs of other clusters opened.
func (m *measuring) arrivals(ctx context.Context) (err error) {
	r := &m.result
	r.arrived = m.extent.arrivals
	m.say("%d runs of other clusters arrive", r.arrived)
	if r.arrivals.From, err = m.Point(ctx); err != nil {
		return err
	}
	if err := m.Fleet.Open(ctx, controlplane.GatewayAddress, r.arrived, m.extent.patience); err != nil {
		if ctx.Err() != nil {
			return err
		}
		m.problem("runs of other clusters: %v", err)
	}
	r.arrivals.To, err = m.Point(ctx)
	return err
}

// end has each run end as soon as its agent was asked, until all have.
func (m *measuring) end(ctx context.Context) (err error) {
	r, all := &m.result, m.result.world.RunningTransfers()
	m.say("runs end")
	if r.ended.From, err = m.Point(ctx); err != nil {
		return err
	}
	ended, told := 0, time.Now()
	took, err := m.Until(ctx, m.extent.patience, func() (bool, error) {
		if err := m.Fleet.EndSending(ctx); err != nil {
			return false, err
		}
		ended, err = m.Ended(ctx)
		if time.Since(told) > toldEvery {
			told = time.Now()
			m.say("%d of %d runs have ended", ended, all)
		}
		return ended >= all, err
	})
	if err != nil {
		return err
	}
	if took == 0 {
		m.problem("after %s, %d of %d runs had ended", m.extent.patience, ended, all)
	}
	r.ended.To, err = m.Point(ctx)
	return err
}
