// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "math"

// Spent is what some data took: bytes of plain data and bytes after compression, and the CPU seconds of compressing and
// of inflating them.
type Spent struct{ Plain, Wire, CPU, Inflate float64 }

func (s *Spent) add(o Spent) {
	s.Plain += o.Plain
	s.Wire += o.Wire
	s.CPU += o.CPU
	s.Inflate += o.Inflate
}

func (s *Spent) scale(by float64) {
	s.Plain *= by
	s.Wire *= by
	s.CPU *= by
	s.Inflate *= by
}

func (s *Spent) minus(o Spent) Spent {
	return Spent{s.Plain - o.Plain, s.Wire - o.Wire, s.CPU - o.CPU, s.Inflate - o.Inflate}
}

const (
	// Units are in so many groups, by turns: how far the regret without each group in turn is spread says how uncertain it
	// is (the jackknife), also where the objective is not linear in what units took.
	regretGroups = 16
	// studentT is the quantile of Student's t for a 95 % interval with one degree of freedom less than there are groups.
	studentT = 2.131
	// regretLeast units have to be measured before anything is said.
	regretLeast = 3 * regretGroups
	// Units before the last of them or so are forgotten.
	regretMemory = 1024
)

// Regret adds up what sampled units took as it was chosen for each, and what each of several alternatives would have
// taken for all of them. It depends on nothing but the calls made to it. It is not safe for concurrent use.
type Regret struct {
	groups [regretGroups]regretGroup
	next   int
	units  int64
	open   []float64 // bytes of units that each alternative was open to, older ones counting less
}

type regretGroup struct {
	chosen       Spent
	alternatives []Spent
}

// NewRegret returns one of a number of alternatives that has seen nothing.
func NewRegret(alternatives int) *Regret {
	r := &Regret{open: make([]float64, alternatives)}
	for i := range r.groups {
		r.groups[i].alternatives = make([]Spent, alternatives)
	}
	return r
}

// Observe takes in a unit: what it took as it was chosen, and by each of the alternatives, of which there are as many as
// NewRegret was told. One that is zero is not open to the unit, for which what was chosen counts then.
func (r *Regret) Observe(chosen Spent, alternatives []Spent) {
	const keep = 1 - 1.0/regretMemory
	for i := range r.groups {
		g := &r.groups[i]
		g.chosen.scale(keep)
		for j := range g.alternatives {
			g.alternatives[j].scale(keep)
		}
	}
	g := &r.groups[r.next]
	g.chosen.add(chosen)
	for j := range g.alternatives {
		r.open[j] = keep*r.open[j] + alternatives[j].Plain
		if alternatives[j] == (Spent{}) {
			g.alternatives[j].add(chosen)
		} else {
			g.alternatives[j].add(alternatives[j])
		}
	}
	r.next = (r.next + 1) % regretGroups
	r.units++
}

// Lost is what was lost by choices.
type Lost struct {
	// Share is by how much more of what the objective asks for the choices took than the best alternative for all units
	// would have, as a share of that. It is below 0 where choosing unit by unit was better than every one alternative.
	Share float64
	// Margin is half the width of the 95 % interval of Share.
	Margin float64
	// Best is the number of the best alternative.
	Best int
	// Units were measured.
	Units int64
}

// Lost compares by what the objective makes of what data took: less is better, and what is not positive is not known.
// ok is false until enough is known.
func (r *Regret) Lost(value func(Spent) float64) (lost Lost, ok bool) {
	if r.units < regretLeast {
		return Lost{}, false
	}
	var chosen Spent
	alternatives := make([]Spent, len(r.groups[0].alternatives))
	for i := range r.groups {
		chosen.add(r.groups[i].chosen)
		for j := range alternatives {
			alternatives[j].add(r.groups[i].alternatives[j])
		}
	}
	best, least := -1, math.Inf(1)
	for j := range alternatives {
		if v := value(alternatives[j]); positive(v) && r.open[j] > 0 && (v < least || v == least && r.open[j] > r.open[best]) {
			best, least = j, v
		}
	}
	if best < 0 {
		return Lost{}, false
	}
	share := func(chosen, best Spent) float64 { return value(chosen)/value(best) - 1 }
	lost = Lost{Share: share(chosen, alternatives[best]), Best: best, Units: r.units}
	var without [regretGroups]float64
	mean := 0.0
	for i := range r.groups {
		g := &r.groups[i]
		without[i] = share(chosen.minus(g.chosen), alternatives[best].minus(g.alternatives[best]))
		mean += without[i] / regretGroups
	}
	sum := 0.0
	for _, s := range without {
		sum += (s - mean) * (s - mean)
	}
	lost.Margin = studentT * math.Sqrt(sum*(regretGroups-1)/regretGroups)
	if math.IsNaN(lost.Share+lost.Margin) || math.IsInf(lost.Share+lost.Margin, 0) {
		return Lost{}, false
	}
	return lost, true
}

// Value is what the objective makes of what data took, by what is known of cores, network and peer now.
func (c *Controller) Value(s Spent) float64 {
	if !positive(s.Plain) {
		return 0
	}
	return c.model.value(c.model.takes(s.Wire/s.Plain, s.CPU/s.Plain, s.Inflate/s.Plain))
}

// Objective is what is minimised.
func (c *Controller) Objective() Objective { return c.model.objective }

// InflateSeconds is the CPU seconds of inflating a byte of plain data, or what is usual.
func (w Way) InflateSeconds() float64 { return 1 / w.known().InflateRate }

// Value is what the objective makes of what bodies or messages took that travel after they were compressed; 0 where it
// is not known yet how long a byte is on its way. It takes compressing for as long as its CPU time.
func (s Serving) Value(spent Spent, c Carrier) float64 {
	if !positive(spent.Plain) || s.Effective() == Elapsed && !c.known() {
		return 0
	}
	cpu := spent.CPU / spent.Plain
	return s.value(spent.Wire/spent.Plain, cpu, cpu, spent.Inflate/spent.Plain, c, false)
}
