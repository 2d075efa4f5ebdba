// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/deadlineplan"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/windows"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// weekJobs run once a day each.
	weekJobs = 60
	// weekZone has its clock set within the week, so that a day has 23 hours.
	weekZone = "Europe/Berlin"
	// weekNoise is the standard deviation of what a run takes beside what the one before it took, as a part of it.
	weekNoise = 0.08
	// weekStep is how fine the search for the optimum is.
	weekStep = 5 * time.Minute
	// weekLook is how often a manager plans again while a run waits.
	weekLook = 5 * time.Minute
)

// job is a Transfer that runs once a day.
type job struct {
	at     time.Duration // since midnight UTC
	within time.Duration
	night  bool // it has windows from 20:00 to 08:00
	// usual and hurried are what a run takes, and its CPU time.
	usual, usualCPU, hurried, hurriedCPU time.Duration
}

// weekResult is the sum of a simulated week.
type weekResult struct {
	Runs int
	// Planned, Optimum and Soonest are what all runs cost as planned, at best, and with strategy Soonest.
	Planned, Optimum, Soonest float64
	// Missed are runs that ended after their deadline, MissedByWaiting those of them that could have started sooner, and
	// MissedSoonest as many with strategy Soonest. Runs that no start would have had in time are not counted.
	Missed, MissedByWaiting, MissedSoonest int
}

// over is by how many percent the week cost more than the optimum.
func (w weekResult) over() float64 { return 100 * (w.Planned/w.Optimum - 1) }

func (w weekResult) targets() []harness.Target {
	return []harness.Target{
		{Name: "policy-week-over-optimum-percent", What: "how much more a simulated week with strategy Cheapest costs than the " +
			"optimum found by search", Measured: harness.Exactly(w.over()), Bound: 5, Digits: 2,
			Note: fmt.Sprintf("%d runs", w.Runs)},
		{Name: "policy-week-deadlines-missed", What: "deadlines of that week that were missed and could have been kept; " +
			"the bound is what strategy Soonest misses", Measured: harness.Exactly(float64(w.Missed)),
			Bound: float64(w.MissedSoonest)},
		{Name: "policy-week-deadlines-missed-by-waiting", What: "those of them where the run waited",
			Measured: harness.Exactly(float64(w.MissedByWaiting))},
	}
}

func (w weekResult) table() string {
	cost := func(f float64) string { return fmt.Sprintf("%.2f", f) }
	return harness.Table([]string{"runs", "", "cost, EUR", "deadlines missed", "of runs that waited"}, [][]string{
		{fmt.Sprint(w.Runs), "strategy Cheapest", cost(w.Planned), fmt.Sprint(w.Missed), fmt.Sprint(w.MissedByWaiting)},
		{fmt.Sprint(w.Runs), "strategy Soonest", cost(w.Soonest), fmt.Sprint(w.MissedSoonest), "0"},
		{fmt.Sprint(w.Runs), "optimum", cost(w.Optimum), "0", "0"},
	})
}

// weekTariff has an expensive evening, cheap nights, and cheaper nights of a weekend.
func weekTariff() v1alpha1.Tariff {
	rule := func(price, start, end string, days ...v1alpha1.Weekday) v1alpha1.CPUHourRule {
		return v1alpha1.CPUHourRule{
			Price: price, Windows: []v1alpha1.TariffWindow{{Start: start, End: end, Days: days}},
		}
	}
	return v1alpha1.Tariff{ObjectMeta: metav1.ObjectMeta{Name: "week"}, Spec: v1alpha1.TariffSpec{
		Currency: "EUR", TimeZone: weekZone,
		CPUHour: v1alpha1.CPUHourPrice{Price: "0.05", Rules: []v1alpha1.CPUHourRule{
			rule("0.01", "01:00", "05:00", v1alpha1.Saturday, v1alpha1.Sunday), rule("0.02", "22:00", "06:00"),
			rule("0.09", "17:00", "20:30"), rule("0.03", "12:00", "14:00"),
		}},
		NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
	}}
}

// week simulates seven days of runs. What a run takes is known to no plan: it is planned by what the one before it took.
func week(jobs int, seed uint64) (weekResult, error) {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // The same numbers each time.
	prices, err := tariff.Follow(tariff.Query{Tariffs: []v1alpha1.Tariff{weekTariff()}, Name: "week"})
	if err != nil {
		return weekResult{}, fmt.Errorf("prices of the week: %w", err)
	}
	begin := time.Date(2026, 3, 24, 0, 0, 0, 0, time.UTC)
	var sum weekResult
	for range jobs {
		j := job{
			at: time.Duration(random.IntN(24*60)) * time.Minute, within: time.Duration(2+random.IntN(22)) * time.Hour,
			night: random.IntN(4) == 0, usual: time.Duration(10+random.IntN(170)) * time.Minute,
		}
		j.usualCPU = time.Duration((0.5 + 3*random.Float64()) * float64(j.usual))
		j.hurried = time.Duration((0.4 + 0.5*random.Float64()) * float64(j.usual))
		j.hurriedCPU = time.Duration((1.1 + random.Float64()) * float64(j.usualCPU))
		before := j.options(prices, random)
		for day := range 7 {
			truth := j.options(prices, random)
			if err := sum.run(j, begin.Add(time.Duration(day)*24*time.Hour+j.at), before, truth); err != nil {
				return weekResult{}, err
			}
			before = truth
		}
	}
	return sum, nil
}

// options are what a run of the job takes, with noise.
func (j job) options(prices *tariff.Course, random *rand.Rand) []deadlineplan.Option {
	noise := math.Exp(weekNoise / math.Sqrt2 * random.NormFloat64()) // two of them differ by weekNoise
	noisy := func(d time.Duration) time.Duration { return time.Duration(noise * float64(d)).Truncate(time.Second) }
	return []deadlineplan.Option{
		{Objective: v1alpha1.ObjectiveCost, Work: deadlineplan.Work{Active: noisy(j.usual)}, CPU: noisy(j.usualCPU),
			Prices: prices},
		{Objective: v1alpha1.ObjectiveElapsed, Work: deadlineplan.Work{Active: noisy(j.hurried)}, CPU: noisy(j.hurriedCPU),
			Prices: prices},
	}
}

// run plans a run until it starts, and compares what it cost with the optimum.
func (w *weekResult) run(j job, wanted time.Time, expected, truth []deadlineplan.Option) error {
	spec := &v1alpha1.TransferSpec{}
	if j.night {
		spec.Schedule = &v1alpha1.TransferSchedule{
			TimeZone: weekZone, Windows: []v1alpha1.ScheduleWindow{{Start: "20:00", End: "08:00"}},
		}
	}
	terms, err := deadlineplan.NewTerms(spec)
	if err != nil {
		return fmt.Errorf("windows of the week: %w", err)
	}
	by := wanted.Add(j.within)
	minutes := newMinutes(spec.Schedule, truth, wanted, by)
	if minutes.optimum == nil {
		return nil // no start would be in time, so that there is nothing to choose
	}
	soonest := 0 // with strategy Soonest, and without a plan: hurried only if it would be late otherwise
	if end, ok := deadlineplan.Forecast(spec, expected[0].Work, wanted); !ok || end.After(by) {
		soonest = 1
	}
	var start time.Time
	var option int
	for now := wanted; ; now = now.Add(weekLook) {
		answer, ok := deadlineplan.Choose(deadlineplan.Question{
			Terms: terms, Now: now, Since: wanted, By: by, Options: expected, Hurried: 1,
		})
		start = now
		if !ok { // it is expected to be late
			option = 1
			break
		}
		option = answer.Chosen.Option
		if wait := answer.Chosen.Start.Sub(now); wait <= weekLook {
			start = answer.Chosen.Start
			break
		}
	}
	w.Runs++
	end, cost := minutes.run(start, option)
	w.Planned, w.Optimum = w.Planned+cost, w.Optimum+*minutes.optimum
	if end.After(by) {
		w.Missed++
		if start.After(minutes.opens().Add(deadlineplan.MarginFixed)) {
			w.MissedByWaiting++
		}
	}
	end, cost = minutes.run(wanted, soonest)
	if w.Soonest += cost; end.After(by) {
		w.MissedSoonest++
	}
	return nil
}

// minutes is what the search for the optimum knows: for each minute whether a run may be under way, and the price.
type minutes struct {
	begin   time.Time
	open    []bool
	price   []float64
	options []deadlineplan.Option
	// optimum is the least cost of all starts and options that are in time; nil: there is none.
	optimum *float64
}

func newMinutes(s *v1alpha1.TransferSchedule, options []deadlineplan.Option, begin, by time.Time) *minutes {
	m := &minutes{begin: begin, options: options}
	zone, _ := windows.Zone(weekZone) // prices have it already
	for at := begin; at.Before(by.Add(48 * time.Hour)); at = at.Add(time.Minute) {
		rates, _ := options[0].Prices.At(at)
		m.open = append(m.open, s == nil || windows.Includes(s.Windows[0], at.In(zone)))
		m.price = append(m.price, rates.CPUHour)
	}
	for start := begin; start.Before(by); start = start.Add(weekStep) {
		for i := range options {
			end, cost := m.run(start, i)
			if !end.After(by) && (m.optimum == nil || cost < *m.optimum) {
				m.optimum = &cost
			}
		}
	}
	return m
}

// opens is when a run can begin at the earliest.
func (m *minutes) opens() time.Time {
	return m.begin.Add(time.Duration(slices.Index(m.open, true)) * time.Minute)
}

// run is when a run ends and what it costs, minute by minute.
func (m *minutes) run(start time.Time, option int) (end time.Time, cost float64) {
	o := &m.options[option]
	left, perMinute := o.Work.Active.Minutes(), o.CPU.Hours()/o.Work.Active.Minutes()
	for i := int(start.Sub(m.begin) / time.Minute); i < len(m.open); i++ {
		if !m.open[i] {
			continue
		}
		part := min(left, 1)
		cost += part * perMinute * m.price[i]
		if left -= part; left <= 0 {
			at := m.begin.Add(time.Duration(i) * time.Minute)
			if at.Before(start) {
				at = start
			}
			return at.Add(time.Duration(part * float64(time.Minute))), cost
		}
	}
	return m.begin.Add(time.Duration(len(m.open)) * time.Minute), cost
}
