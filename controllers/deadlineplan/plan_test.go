// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package deadlineplan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/deadlineplan"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/windows"
)

var spot = map[string]string{"class": "spot"}

// priced is a Tariff with a price of a CPU hour, and rules.
func priced(zone, price string, rules ...v1alpha1.CPUHourRule) v1alpha1.Tariff {
	return v1alpha1.Tariff{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: v1alpha1.TariffSpec{
		Currency: "EUR", TimeZone: zone, CPUHour: v1alpha1.CPUHourPrice{Price: price, Rules: rules},
		NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0.01"},
	}}
}

func follow(t *testing.T, subject v1alpha1.Tariff, node map[string]string) *tariff.Course {
	t.Helper()
	course, err := tariff.Follow(tariff.Query{Tariffs: []v1alpha1.Tariff{subject}, Name: "t", Node: node})
	if err != nil {
		t.Fatal(err)
	}
	return course
}

func terms(t *testing.T, spec *v1alpha1.TransferSpec) deadlineplan.Terms {
	t.Helper()
	made, err := deadlineplan.NewTerms(spec)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func night(price string, node map[string]string) v1alpha1.CPUHourRule {
	return v1alpha1.CPUHourRule{
		Price: price, NodeSelector: node, Windows: []v1alpha1.TariffWindow{{Start: "22:00", End: "06:00"}},
	}
}

func TestChoose(t *testing.T) {
	cheapNight := priced("Europe/Berlin", "1", night("0.25", nil))
	for name, c := range map[string]struct {
		tariff      v1alpha1.Tariff
		windows     []v1alpha1.ScheduleWindow
		now, by     string
		active      time.Duration
		hurried     time.Duration // 0: not measured
		start, end  string        // empty: at once, as nothing is in time
		option      int
		latest      string
		now_, hurry bool
	}{
		"the night is cheaper": {
			tariff: cheapNight, now: "05-04 12:00", by: "05-05 12:00", active: time.Hour,
			start: "05-04 20:00", end: "05-04 21:00",
			latest: "05-05 10:40", now_: true,
		},
		"the night is too late": {
			tariff: cheapNight, now: "05-04 12:00", by: "05-04 21:00", active: time.Hour,
			start: "05-04 19:40", end: "05-04 20:40",
			now_: true,
		},
		"no cheap hour in time": {
			tariff: cheapNight, now: "05-04 12:00", by: "05-04 20:00", active: time.Hour,
			start: "05-04 12:00", end: "05-04 13:00",
			latest: "05-04 18:40", now_: true,
		},
		"the night of 23 hours": {
			tariff: cheapNight, now: "03-28 12:00", by: "03-29 12:00", active: time.Hour,
			start: "03-28 21:00", end: "03-28 22:00",
			latest: "03-29 10:40", now_: true,
		},
		"no time": {tariff: cheapNight, now: "05-04 12:00", by: "05-04 12:59", active: time.Hour},
		"no time to wait": {
			tariff: cheapNight, now: "05-04 12:00", by: "05-04 13:01", active: time.Hour, hurried: time.Minute, option: 0,
			start: "05-04 12:00", end: "05-04 13:00", now_: true, hurry: true,
		},
		"past":   {tariff: cheapNight, now: "05-04 12:00", by: "05-04 11:00", active: time.Hour},
		"absurd": {tariff: cheapNight, now: "05-04 12:00", by: "05-05 11:00", active: math.MaxInt64},
		"only if hurried": {
			tariff: cheapNight, now: "05-04 12:00", by: "05-04 13:55", active: 2 * time.Hour, hurried: time.Hour, option: 1,
			start: "05-04 12:00", end: "05-04 13:00", latest: "05-04 12:35", hurry: true, now_: true,
		},
		"no cheap time: at once": {
			tariff: priced("", "1"), now: "05-04 12:00", by: "05-05 12:00", active: time.Hour, start: "05-04 12:00",
			end: "05-04 13:00", latest: "05-05 10:40", now_: true,
		},
		"free": {
			tariff: priced("", "0"), now: "05-04 12:00", by: "05-05 12:00", active: time.Hour, start: "05-04 12:00",
			end: "05-04 13:00", latest: "05-05 10:40", now_: true,
		},
		"a window": {
			tariff: cheapNight, windows: []v1alpha1.ScheduleWindow{{Start: "18:00", End: "21:30"}}, now: "05-04 12:00",
			by: "05-05 12:00", active: time.Hour, start: "05-04 20:00", end: "05-04 21:00", latest: "05-04 20:15", now_: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.TransferSpec{}
			if c.windows != nil {
				spec.Schedule = &v1alpha1.TransferSchedule{Windows: c.windows}
			}
			course := follow(t, c.tariff, nil)
			q := deadlineplan.Question{
				Terms: terms(t, spec), Now: minute(t, c.now), By: minute(t, c.by), Hurried: -1,
				Options: []deadlineplan.Option{{
					Objective: v1alpha1.ObjectiveCost, Work: deadlineplan.Work{Active: c.active}, CPU: time.Hour, Prices: course,
				}},
			}
			if c.hurried > 0 {
				q.Options = append(q.Options, deadlineplan.Option{
					Objective: v1alpha1.ObjectiveElapsed, Work: deadlineplan.Work{Active: c.hurried}, CPU: 2 * time.Hour,
					Prices: course,
				})
				q.Hurried = 1
			}
			a, ok := deadlineplan.Choose(q)
			if !ok {
				if c.start != "" {
					t.Fatal("nothing is in time")
				}
				return
			}
			latest := ""
			if a.Latest != nil {
				latest = a.Latest.Start.UTC().Format("01-02 15:04")
			}
			start, end := a.Chosen.Start.UTC().Format("01-02 15:04"), a.Chosen.End.UTC().Format("01-02 15:04")
			if start != c.start || end != c.end || a.Chosen.Option != c.option || latest != c.latest ||
				(a.Now != nil) != c.now_ || (a.Hurried != nil) != c.hurry {
				t.Errorf("%+v, latest %s", a, latest)
			}
			if a.Now != nil && a.Now.Cost < a.Chosen.Cost*0.98 && a.Chosen.Option == 0 {
				t.Errorf("it would have cost less at once: %+v", a)
			}
		})
	}
}

// TestOtherNodes: what costs least is chosen among nodes, too.
func TestOtherNodes(t *testing.T) {
	subject := priced("", "1", night("0.25", nil), v1alpha1.CPUHourRule{Price: "0.5", NodeSelector: spot})
	q := deadlineplan.Question{Now: minute(t, "05-04 12:00"), By: minute(t, "05-04 18:00"), Hurried: -1}
	for _, selector := range []map[string]string{nil, spot} {
		q.Options = append(q.Options, deadlineplan.Option{
			Selector: selector, Work: deadlineplan.Work{Active: time.Hour}, CPU: time.Hour, Prices: follow(t, subject, selector),
		})
	}
	a, ok := deadlineplan.Choose(q)
	if !ok || a.Chosen.Option != 1 || !a.Chosen.Start.Equal(q.Now) || a.Chosen.Cost != 0.5 || a.Other == nil ||
		a.Other.Option != 0 || a.Other.Cost != 1 {
		t.Errorf("%+v", a)
	}
	q.By = minute(t, "05-05 18:00")
	if a, ok = deadlineplan.Choose(q); !ok || a.Chosen.Cost != 0.25 || a.Now.Cost != 1 {
		t.Errorf("%+v", a)
	}
}

// TestStartBeforeALimit: a run may start just before the limit of a window begins, and not just before its windows end.
func TestStartBeforeALimit(t *testing.T) {
	limit := resource.MustParse("1Mi")
	spec := &v1alpha1.TransferSpec{Schedule: &v1alpha1.TransferSchedule{Windows: []v1alpha1.ScheduleWindow{
		{Start: "12:00", End: "15:00"}, {Start: "13:00", End: "14:00", BandwidthLimit: &limit},
	}}}
	for now, want := range map[string]string{"05-04 12:59": "05-04 12:59", "05-04 14:59": "05-05 12:00"} {
		q := deadlineplan.Question{
			Terms: terms(t, spec), Now: minute(t, now).Add(30 * time.Second), Hurried: -1,
			Options: []deadlineplan.Option{{
				Work: deadlineplan.Work{Active: 10 * time.Minute}, CPU: time.Minute, Prices: follow(t, priced("", "1"), nil),
			}},
		}
		q.By = q.Now.Add(24 * time.Hour)
		a, ok := deadlineplan.Choose(q)
		if !ok || a.Chosen.Start.Format("01-02 15:04") != want {
			t.Errorf("at %s: it starts at %s, want %s", now, a.Chosen.Start, want)
		}
	}
}

// TestManyBoundaries: prices that change all the time are looked at as far as that goes, within bounds.
func TestManyBoundaries(t *testing.T) {
	var rules []v1alpha1.CPUHourRule
	for i := range 32 {
		r := v1alpha1.CPUHourRule{Price: fmt.Sprintf("1.%02d", i)}
		for j := range 16 {
			at := (i*16 + j) * 2
			r.Windows = append(r.Windows, v1alpha1.TariffWindow{
				Start: fmt.Sprintf("%02d:%02d", at/60, at%60), End: fmt.Sprintf("%02d:%02d", (at+1)/60, (at+1)%60),
			})
		}
		rules = append(rules, r)
	}
	q := deadlineplan.Question{
		Now: minute(t, "05-04 00:00"), By: minute(t, "12-31 00:00"), Hurried: -1,
		Options: []deadlineplan.Option{{
			Work: deadlineplan.Work{Active: time.Minute}, CPU: time.Minute, Prices: follow(t, priced("", "9", rules...), nil),
		}},
	}
	a, ok := deadlineplan.Choose(q)
	if !ok || a.Chosen.Start.After(q.Now.Add(24*time.Hour)) {
		t.Errorf("%+v %v", a, ok)
	}
}

// world is what brute force knows, minute by minute.
type world struct {
	begin  time.Time
	limits []int64 // -1: no window is open
	prices [][]float64
}

// run is when a run ends and what it costs, by the sum of what each minute carries.
func (w *world) run(start int, o deadlineplan.Option, option int, longer float64) (end int, cost float64, ok bool) {
	left := 1.0
	for m := start; m < len(w.limits); m++ {
		if w.limits[m] < 0 {
			continue
		}
		whole := o.Work.Active.Minutes() * longer
		if w.limits[m] > 0 {
			whole = max(whole, longer*float64(o.Work.WireBytes)/float64(w.limits[m])/60)
		}
		part := min(left, 1/whole)
		cost += part * (o.CPU.Hours()*w.prices[option][m] + float64(o.WireBytes)/(1<<30)*0.01)
		if left -= part; left <= 1e-9 {
			return m + 1, cost, true
		}
	}
	return 0, 0, false
}

// TestOracle compares what is chosen with the best of all starts and options, on days of 23, 24 and 25 hours.
func TestOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // The same numbers each time.
	clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60%24, minute%60) }
	const step, zone = 5, "Europe/Berlin"
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 60 {
		begin := minute(t, []string{"03-28 12:00", "10-24 12:00", "05-04 12:00"}[round%3])
		var rules []v1alpha1.CPUHourRule
		for range random.IntN(4) {
			from := random.IntN(24*12) * step
			r := v1alpha1.CPUHourRule{Price: fmt.Sprintf("0.%02d", random.IntN(100)), Windows: []v1alpha1.TariffWindow{
				{Start: clock(from), End: clock(from + step*(1+random.IntN(100)))},
			}}
			if random.IntN(3) == 0 {
				r.NodeSelector = spot
			}
			rules = append(rules, r)
		}
		subject := priced(zone, "0.5", rules...)
		spec := &v1alpha1.TransferSpec{}
		var open []v1alpha1.ScheduleWindow
		if random.IntN(2) == 0 {
			for range 1 + random.IntN(2) {
				from := random.IntN(24*12) * step
				open = append(open, v1alpha1.ScheduleWindow{Start: clock(from), End: clock(from + step*(24+random.IntN(150)))})
			}
			spec.Schedule = &v1alpha1.TransferSchedule{TimeZone: zone, Windows: open}
		}
		length := step * (12 + random.IntN(30*12))
		q := deadlineplan.Question{
			Terms: terms(t, spec), Now: begin, By: begin.Add(time.Duration(length) * time.Minute), Hurried: 2,
		}
		w := world{begin: begin}
		active := 10 + random.IntN(300)
		for i, selector := range []map[string]string{nil, spot, nil} {
			o := deadlineplan.Option{
				Selector: selector, Prices: follow(t, subject, selector), CPU: time.Duration(1+random.IntN(300)) * time.Minute,
				Work: deadlineplan.Work{
					Active: time.Duration(active/(i/2+1)) * time.Minute, WireBytes: int64(random.IntN(1 << 34)),
				},
			}
			o.WireBytes = o.Work.WireBytes
			q.Options = append(q.Options, o)
			var prices []float64
			for m := 0; m < length; m += step {
				resolved, err := tariff.Resolve(tariff.Query{
					Tariffs: []v1alpha1.Tariff{subject}, Name: "t", Node: selector, Time: begin.Add(time.Duration(m) * time.Minute),
				})
				if err != nil {
					t.Fatal(err)
				}
				rates, _ := tariff.Parse(resolved)
				prices = append(prices, slices.Repeat([]float64{rates.CPUHour}, step)...)
			}
			w.prices = append(w.prices, prices)
		}
		for m := range length {
			limit := int64(0)
			if open != nil {
				limit = -1
			}
			for _, o := range open {
				if windows.Includes(o, begin.Add(time.Duration(m)*time.Minute).In(in)) {
					limit = 0
				}
			}
			w.limits = append(w.limits, limit)
		}
		least, found, soonest := math.Inf(1), false, -1
		margin := func(start int) (longer float64, fixed int) {
			if start <= soonest+int(deadlineplan.MarginFixed.Minutes()) {
				return 1, 0
			}
			return 1 + deadlineplan.MarginPart, int(deadlineplan.MarginFixed.Minutes())
		}
		for start := 0; start < length; start += step {
			if w.limits[start] < 0 {
				continue
			}
			if soonest < 0 {
				soonest = start
			}
			longer, fixed := margin(start)
			for i, o := range q.Options {
				if end, _, ok := w.run(start, o, i, longer); !ok || end+fixed > length {
					continue
				}
				_, cost, _ := w.run(start, o, i, 1)
				least, found = min(least, cost), true
			}
		}
		a, ok := deadlineplan.Choose(q)
		if found && !ok {
			t.Fatalf("round %d: nothing is in time of %+v", round, q)
		}
		if !ok {
			continue
		}
		start := int(a.Chosen.Start.Sub(begin) / time.Minute)
		o := q.Options[a.Chosen.Option]
		longer, fixed := margin(start)
		end, _, done := w.run(start, o, a.Chosen.Option, longer)
		if !done || end+fixed > length+2 {
			t.Errorf("round %d: %+v ends too late: %d of %d", round, a.Chosen, end, length)
		}
		_, cost, _ := w.run(start, o, a.Chosen.Option, 1)
		if math.Abs(cost-a.Chosen.Cost) > 0.02*cost+1e-3 {
			t.Errorf("round %d: %+v costs %f", round, a.Chosen, cost)
		}
		if a.Chosen.Cost > 1.02*least+1e-3 {
			t.Errorf("round %d: %+v, and the least is %f", round, a.Chosen, least)
		}
	}
}
