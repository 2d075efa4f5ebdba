// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// measuredCell returns one in which none takes 2 s, zstd 1 s, and 5 % more or less the second time, and Auto with each
// objective a little more.
func measuredCell(link speed, k kind, cores int, over, noise float64) cell {
	run := func(f float64) []outcome {
		return []outcome{
			{elapsed: f, cpu: f, bytes: f * 1e8, choice: "zstd Fast"},
			{elapsed: f, cpu: f, bytes: f * 1e8, choice: "zstd Fast"},
			{elapsed: f, cpu: f, bytes: f * 1e8},
		}
	}
	c := cell{
		part: transfers, link: link, kind: k, cores: cores, size: 100 << 20, objectives: objectives,
		auto: map[policy.Objective]*contender{},
	}
	c.fixed = []*contender{
		{name: "none", settings: policy.Settings{Mode: policy.Never}, runs: run(2)}, {name: "zstd Fast", runs: run(1)},
	}
	c.twice, c.again = c.fixed[1], &contender{name: "zstd Fast again", runs: run(1 + noise)[1:]}
	for _, o := range objectives {
		c.auto[o] = &contender{name: "Auto", runs: run(1 + over)}
	}
	return c
}

// made returns the rows of a cell that is not noise.
func made(link speed, k kind, cores int, over float64) []row {
	c := measuredCell(link, k, cores, over, 0.01)
	return c.rows(time.Unix(1e9, 0))
}

// served returns rows of messages or bodies.
func servedRows(p part, unit int, over float64) []row {
	c := measuredCell(0, kinds[1], 2, over, 0)
	c.part, c.unit, c.objectives = p, unit, fullGrid[1].objectives
	return c.rows(time.Unix(1e9, 0))
}

func TestRegret(t *testing.T) {
	for _, row := range made(0, kinds[0], 1, 0.05) {
		if r := 100 * row.regret(); r < 4.9 || r > 5.1 {
			t.Errorf("%s: %.2f %%", row.Objective, r)
		}
		row.Size = 1e12 // beside which all of them are as good as nothing
		if r := row.regret(); row.Objective == policy.Bytes && r != 0 {
			t.Errorf("of next to nothing: %v", r)
		}
	}
}

// TestMerge: a part that is measured again takes the place of what it was, and what stands in the file stays as it is.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	before := merge(
		nil, slices.Concat(made(0, kinds[4], 2, 0.3), made(10, kinds[0], 1, 0.01), made(10, kinds[1], 1, 0.02)),
	)
	run := &harness.Run{Name: benchmark, Out: dir}
	if _, err := publish(t.Context(), run, before, false); err != nil {
		t.Fatal(err)
	}
	after, err := publish(t.Context(), run, made(10, kinds[0], 1, 0.5), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) || after[0].Data != "records" || 100*after[0].regret() < 49 ||
		after[len(objectives)].regret() > 0.03 || after[len(after)-1].Network != 0 {
		t.Errorf("got %+v", after)
	}
	kept, err := readRows(dir)
	if err != nil || !reflect.DeepEqual(kept, after) {
		t.Errorf("kept %+v: %v", kept, err)
	}
	if _, err := os.Stat(dir + "/policy.md"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a report of a part: %v", err)
	}
	var whole []row
	for _, s := range fullGrid {
		for _, link := range s.links {
			for _, cores := range s.cores {
				for _, unit := range s.units {
					for _, k := range s.kinds {
						if measured(link, cores) {
							c := measuredCell(link, k, cores, 0.01, 0)
							c.part, c.unit, c.objectives = s.part, unit, s.objectives
							whole = append(whole, c.rows(time.Unix(1e9, 0))...)
						}
					}
				}
			}
		}
	}
	if _, err := publish(t.Context(), run, whole, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/policy.md"); err != nil {
		t.Errorf("no report of all parts: %v", err)
	}
}

func TestTargets(t *testing.T) {
	clear, noisy := measuredCell(0, kinds[2], 2, 5, 0.03), measuredCell(0, kinds[2], 2, 5, 0.03)
	for _, one := range noisy.auto {
		one.runs[0] = outcome{elapsed: 0.5, cpu: 0.5, bytes: 0.5e8}
	}
	met := targets(slices.Concat(
		made(10, kinds[0], 1, 0.01), made(0, kinds[4], 1, 1.08), made(0, kinds[1], 2, 0.015), noisy.rows(time.Now()),
		servedRows(messages, 3000, 0.005),
	))
	var said []string
	for _, target := range met {
		said = append(said, target.Line())
	}
	want := "target policy-transfers-regret-median-percent 1.50 <=1.00 miss|" +
		"target policy-transfers-regret-worst-percent 108.00 <=10.00 miss|" +
		"target policy-transfers-unlimited-over-none-percent 4.00 <=3.00 miss|" +
		"target policy-messages-regret-median-percent 0.50 <=1.00 ok|" +
		"target policy-messages-regret-worst-percent 0.50 <=10.00 ok|" +
		"target policy-messages-unlimited-over-none-percent -49.75 <=3.00 ok"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("got %s", got)
	}
	if !strings.Contains(met[0].Note, "4 of 16") || !strings.Contains(met[3].Note, "0 of 2") {
		t.Errorf("notes %q and %q", met[0].Note, met[3].Note)
	}
	if targets(nil) != nil {
		t.Error("targets of nothing")
	}
	// Where all is noise nothing is met.
	for _, target := range targets(noisy.rows(time.Now())) {
		if target.OK() {
			t.Errorf("%s", target.Line())
		}
	}
	// Noise does not hide what is above the bound in its whole interval.
	met = targets(slices.Concat(made(0, kinds[1], 2, 0), clear.rows(time.Now())))
	if met[0].Measured.Value > 0.01 || met[1].Measured.Value < 499 || met[2].Measured.Value < 199 {
		t.Errorf("a median of %v, at worst %v, over none %v", met[0].Measured, met[1].Measured, met[2].Measured)
	}
}

// TestTargetsOverNone: each objective is compared with none by its own figure, on the unlimited network alone.
func TestTargetsOverNone(t *testing.T) {
	const over = 3 // percent; none takes 2 of everything
	for name, c := range map[string]struct {
		link speed
		auto map[policy.Objective]outcome
		want float64 // percent
		at   policy.Objective
	}{
		"time": {
			0, map[policy.Objective]outcome{policy.Elapsed: {elapsed: 2.2, cpu: 1, bytes: 1e8}}, 10, policy.Elapsed,
		},
		"CPU":         {0, map[policy.Objective]outcome{policy.CPU: {elapsed: 1, cpu: 2.4, bytes: 1e8}}, 20, policy.CPU},
		"not for CPU": {0, map[policy.Objective]outcome{policy.CPU: {elapsed: 9, cpu: 1, bytes: 9e8}}, -49.5, ""},
		"cost": {
			0, map[policy.Objective]outcome{policy.Cost: {elapsed: 1, cpu: 2.1, bytes: 2.1e8}}, 5, policy.Cost,
		},
		"bytes": {
			0, map[policy.Objective]outcome{policy.Bytes: {elapsed: 1, cpu: 1, bytes: 2.5e8}}, 25, policy.Bytes,
		},
		"a slow network": {100, map[policy.Objective]outcome{policy.CPU: {elapsed: 1, cpu: 9, bytes: 1e8}}, math.NaN(), ""},
	} {
		cell := measuredCell(c.link, kinds[1], 2, 0.01, 0)
		for objective, run := range c.auto {
			cell.auto[objective].runs = []outcome{run, run, run}
		}
		got := targets(cell.rows(time.Unix(1e9, 0)))[2]
		if math.Abs(got.Measured.Value-c.want) > 0.01 || math.IsNaN(got.Measured.Value) != math.IsNaN(c.want) ||
			got.OK() != (c.want <= over) || !strings.HasSuffix(got.Note, string(c.at)) {
			t.Errorf("%s: %s, at %q", name, got.Line(), got.Note)
		}
	}
}

// TestMap: it is XML, with a box for each cell and objective. HEATMAP=FILE writes it, to be looked at.
func TestMap(t *testing.T) {
	var rows []row
	for i, link := range fullGrid[0].links {
		for _, cores := range fullGrid[0].cores {
			for j, k := range kinds {
				c := measuredCell(link, k, cores, float64(i*j)*0.008, 0.004*float64(i+j))
				rows = append(rows, c.rows(time.Now())...)
			}
		}
	}
	rows = append(rows, servedRows(messages, 3000, 0.03)...)
	rows = append(rows, servedRows(bodies, 240000, 0.2)...)
	svg := heatMap(rows)
	if path := os.Getenv("HEATMAP"); path != "" {
		if err := os.WriteFile(path, []byte(svg), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	boxes := 0
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rect" {
			boxes++
		}
	}
	if want := 1 + 5 + len(rows); boxes != want {
		t.Errorf("%d boxes, want %d", boxes, want)
	}
}

// TestSimulation: with the published figures the accelerator is chosen where bytes cost money, and nothing where only
// CPU time counts.
func TestSimulation(t *testing.T) {
	table := simulate()
	for _, want := range []string{
		"| 10 Gbit/s | Cost | ", "| 100 Gbit/s | CPU | none, ", "| 10 Gbit/s | Elapsed | accelerator, ",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	t.Log("\n" + table)
}

// TestNoise: what a choice may differ from itself by, after the rounds in which both ran.
func TestNoise(t *testing.T) {
	if median, most := noise(made(0, kinds[0], 1, 0)); median < 0.99 || median > 1.01 || most < median {
		t.Errorf("%.1f %% and %.1f %%", median, most)
	}
	if median, most := noise(nil); median != 0 || most != 0 {
		t.Errorf("of nothing %.1f %% and %.1f %%", median, most)
	}
	quietly, loudly := measuredCell(0, kinds[0], 1, 0, 0.01), measuredCell(0, kinds[0], 1, 0, -0.03)
	if !quietly.isQuiet() || loudly.isQuiet() {
		t.Errorf("noise %v and %v", quietly.noise(policy.Elapsed), loudly.noise(policy.Elapsed))
	}
	quietly.again.runs = quietly.again.runs[:1]
	if quietly.isQuiet() {
		t.Error("one round is quiet")
	}
}

// TestTake: rounds go on until a choice beside itself is quiet, or there were enough. What is far from the best takes
// part in the first ones, and the best stands there twice.
func TestTake(t *testing.T) {
	for name, test := range map[string]struct {
		noise  float64
		rounds int
		quiet  bool
	}{
		"quiet": {0.0001, leastRounds, true}, "loud": {0.3, 20, false}, "middling": {0.02, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := fullGrid[1]
			c := s.cell(100, kinds[1], 2, 3000)
			random := rand.New(rand.NewPCG(1, 2))
			err := c.take(t.Context(), limits{rounds: 20, patience: time.Hour}, func(one *contender) (outcome, error) {
				took := map[string]float64{"none": 5, "deflate Fast": 2}[one.name]
				took = max(took, 1) * (1 + test.noise*random.NormFloat64())
				return outcome{elapsed: took, cpu: took, bytes: 1e9 * took}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.twice.name != "zstd Fast" || len(c.twice.runs) != len(c.again.runs)+1 {
				t.Errorf("%s stands there twice, %d and %d times", c.twice.name, len(c.twice.runs), len(c.again.runs))
			}
			n := len(c.twice.runs)
			if test.rounds > 0 && n != test.rounds || test.rounds == 0 && (n <= leastRounds || n == 20) {
				t.Errorf("%d rounds", n)
			}
			if c.isQuiet() != test.quiet || test.noise < 0.1 && len(c.fixed[0].runs) != everybody {
				t.Errorf("quiet %v, none ran %d times", c.isQuiet(), len(c.fixed[0].runs))
			}
		})
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	c := fullGrid[2].cell(0, kinds[1], 2, 12000)
	if err := c.take(stopped, quickLimits, func(*contender) (outcome, error) { return outcome{}, nil }); err == nil {
		t.Error("it goes on when it was told to end")
	}
}

// TestSizes: a run has whole messages or bodies, enough of them, and takes about as long as it should.
func TestSizes(t *testing.T) {
	for _, s := range slices.Concat(fullGrid, quickGrid) {
		for _, link := range s.links {
			for _, unit := range s.units {
				for _, k := range s.kinds {
					c := s.cell(link, k, 2, unit)
					if unit > 0 && (c.size%int64(unit) != 0 || c.size/int64(unit) < leastUnits) || c.size > 800<<20 {
						t.Errorf("%s of %d over %s: %d bytes", k.shown, unit, link, c.size)
					}
					if none := c.fixed[0].settings.Mode == policy.Never; unit > 0 && !none {
						t.Errorf("%s of %d over %s lacks none", k.shown, unit, link)
					}
				}
			}
		}
	}
}

func TestOnly(t *testing.T) {
	for what, want := range map[string]int{
		"": fullGrid.rows(), "messages": 24, "bodies": 24, "messages/100": 8, "bodies/0/XML": 4, "10": 28,
	} {
		g, err := fullGrid.only(what)
		if err != nil || g.rows() != want {
			t.Errorf("%q: %d rows, want %d: %v", what, g.rows(), want, err)
		}
	}
	for _, what := range []string{"queues", "10/messages", "17"} {
		if g, err := fullGrid.only(what); err == nil {
			t.Errorf("%q: %d rows", what, g.rows())
		}
	}
	if n := fullGrid.rows(); n != 28*7+48 {
		t.Errorf("%d rows in all, and some were left out for good", n)
	}
}

// TestSettings: agents that serve do what a contender is named for.
func TestSettings(t *testing.T) {
	names := map[string]bool{}
	for _, one := range fullGrid[1].everyone() {
		if names[one.agent()] {
			t.Errorf("%s has the agents of another", one.name)
		}
		names[one.agent()] = true
		read, err := compression.Read(setting(one.settings, one.codecs()...))
		if err != nil {
			t.Fatal(err)
		}
		want := one.settings
		if read.Policy.Mode != want.Mode || read.Policy.Level != want.Level || !slices.Equal(read.Codecs, one.codecs()) {
			t.Errorf("%s: %+v", one.name, read)
		}
		if want.Mode == policy.Auto && (read.Policy.Objective != want.Objective || read.Policy.Prices != want.Prices) {
			t.Errorf("%s: %+v", one.name, read.Policy)
		}
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	run := &harness.Run{Name: benchmark, Quick: true, Out: dir}
	rows := slices.Concat(made(10, kinds[0], 1, 0.01), made(0, kinds[4], 2, 0.3))
	if err := run.Publish(t.Context(), report(rows, weekResult{Runs: 1, Planned: 1, Optimum: 1})); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(dir + "/policy.md")
	if err != nil || strings.Contains(string(text), "%!") ||
		!strings.Contains(
			string(text), "| random | 100 | Elapsed | 1.300 s | zstd Fast | zstd Fast | 1.000 s | 2.000 s | 30.0 | 1.0 |",
		) {
		t.Errorf("%v:\n%s", err, text)
	}
}
