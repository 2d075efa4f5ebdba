// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// made returns the rows of a cell in which none takes 2 s, zstd 1 s and Auto with each objective a little more.
func made(link speed, k kind, cores int, over float64) []row {
	run := func(f float64) []outcome {
		return []outcome{
			{elapsed: f, cpu: f, bytes: f * 1e8, choice: "zstd Fast"},
			{elapsed: f, cpu: f, bytes: f * 1e8},
			{elapsed: f, cpu: f, bytes: f * 1e8},
		}
	}
	c := cell{link: link, kind: k, cores: cores, size: 100 << 20, auto: map[policy.Objective]*contender{}}
	c.again = &contender{name: "none again", settings: policy.Settings{Mode: policy.Never}, runs: run(2.1)}
	c.fixed = []*contender{
		{name: "none", settings: policy.Settings{Mode: policy.Never}, runs: run(2)},
		{name: "zstd Fast", runs: run(1)},
	}
	for _, o := range objectives {
		c.auto[o] = &contender{name: "Auto", runs: run(1 + over)}
	}
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
	for _, link := range fullGrid.links {
		for _, cores := range fullGrid.cores {
			for _, k := range kinds {
				if measured(link, cores) {
					whole = append(whole, made(link, k, cores, 0.01)...)
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
	met := targets(slices.Concat(made(10, kinds[0], 1, 0.01), made(0, kinds[4], 1, 1.08), made(0, kinds[1], 2, 0.015)))
	var said []string
	for _, target := range met {
		said = append(said, target.Line())
	}
	want := "target policy-regret-median-percent 1.50 <=2.00 ok|target policy-regret-worst-percent 108.00 <=10.00 " +
		"miss|target policy-incompressible-over-none-percent 4.00 <=3.00 miss"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("got %s", got)
	}
	if targets(nil) != nil {
		t.Error("targets of nothing")
	}
}

// TestMap: it is XML, with a box for each cell and objective. HEATMAP=FILE writes it, to be looked at.
func TestMap(t *testing.T) {
	var rows []row
	for i, link := range fullGrid.links {
		for _, cores := range fullGrid.cores {
			for j, k := range kinds {
				rows = append(rows, made(link, k, cores, float64(i*j)*0.008)...)
			}
		}
	}
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
	if want := 1 + 4 + len(rows); boxes != want {
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

// TestNoise: what one choice differs from itself by is told.
func TestNoise(t *testing.T) {
	if median, most := noise(made(0, kinds[0], 1, 0)); median < 4.9 || median > 5.1 || most < median {
		t.Errorf("%.1f %% and %.1f %%", median, most)
	}
	if median, most := noise(nil); median != 0 || most != 0 {
		t.Errorf("of nothing %.1f %% and %.1f %%", median, most)
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
			string(text), "| random | 100 | Elapsed | 1.300 s | zstd Fast | zstd Fast | 1.000 s | 2.000 s | 30.0 |",
		) {
		t.Errorf("%v:\n%s", err, text)
	}
}
