// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboards_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/test/collectors"
	"github.com/lighterage/lighterage/test/dashboards"
	"github.com/lighterage/lighterage/test/render"
)

// foreign are metrics of libraries and of Prometheus that queries may name.
var foreign = []string{
	"up", "ALERTS", "process_cpu_seconds_total", "process_resident_memory_bytes", "leader_election_master_status",
	"controller_runtime_reconcile_errors_total",
}

// known are the labels of each metric that a query may name; of foreign ones and of recorded series none are listed.
func known(t *testing.T) map[string][]string {
	t.Helper()
	sections, err := collectors.All()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, name := range foreign {
		all[name] = nil
	}
	for _, section := range sections {
		for _, m := range section.Metrics {
			all[m.Name] = m.Labels
		}
	}
	rules, _, err := dashboards.ReadRules()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				all[rule.Record] = nil
			}
		}
	}
	return all
}

var (
	// selector is a metric in a query, with its matchers. Functions and keywords are not followed by a brace, a bracket or
	// the end of an expression alone, so names are told by their prefix.
	selector = regexp.MustCompile(
		`\b((?:lighterage|process_|leader_election_|controller_runtime_|workqueue_|go_)[a-z0-9_:]*|up|ALERTS)\b` +
			`(?:\{([^}]*)\})?`,
	)
	window = regexp.MustCompile(`\[([^\]]*)\]`)
)

// quoted are strings, in which names of metrics are values.
var quoted = regexp.MustCompile(`"[^"]*"`)

func TestDashboards(t *testing.T) {
	all, err := dashboards.Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 6 {
		t.Errorf("there are %d dashboards, want 6", len(all))
	}
	metrics := known(t)
	uids := map[string]string{}
	for name, d := range all {
		if other := uids[d.UID]; d.UID == "" || other != "" {
			t.Errorf("%s has the uid %q, which %q has", name, d.UID, other)
		}
		uids[d.UID] = name
		for _, problem := range lint(d, metrics) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

func lint(d dashboards.Dashboard, metrics map[string][]string) []string {
	var all []string
	if d.Title == "" || d.Description == "" {
		all = append(all, "it has no title or no description")
	}
	queries := ""
	for _, panel := range d.Panels {
		for _, problem := range lintPanel(panel, metrics) {
			all = append(all, "panel "+panel.Title+": "+problem)
		}
		for _, target := range panel.Targets {
			queries += target.Expr
		}
	}
	if len(d.Panels) == 0 || d.Panels[0].Type == "row" || !strings.Contains(d.Panels[0].Targets[0].Expr, "ALERTS") {
		all = append(all, "alerts are not on top")
	}
	if !slices.ContainsFunc(d.Panels, func(p dashboards.Panel) bool { return p.Type == "row" }) {
		all = append(all, "it has no rows")
	}
	return append(all, lintLayout(d)...)
}

func lintLayout(d dashboards.Dashboard) []string {
	var all, names []string
	taken := map[[2]int]string{}
	for _, panel := range d.Panels {
		at := panel.GridPos
		if at.X+at.W > 24 || at.W == 0 || at.H == 0 {
			all = append(all, "panel "+panel.Title+" is not within 24 columns")
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					return append(all, "panels "+other+" and "+panel.Title+" overlap")
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
	for _, variable := range d.Templating.List {
		names = append(names, variable.Name)
		if variable.Type == "query" && (!variable.IncludeAll || variable.AllValue != ".*" ||
			variable.Datasource.UID != "${datasource}") {
			all = append(all, "variable "+variable.Name+" does not choose all of the chosen data source by default")
		}
	}
	if !slices.Equal(names, []string{"datasource", "cluster", "namespace"}) {
		all = append(all, "the variables are not datasource, cluster and namespace: "+strings.Join(names, ", "))
	}
	return all
}

func lintPanel(p dashboards.Panel, metrics map[string][]string) []string {
	if p.Type == "row" {
		if p.Title == "" {
			return []string{"a row has no title"}
		}
		return nil
	}
	var all []string
	if p.Title == "" || p.Description == "" || !strings.HasSuffix(p.Description, ".") {
		all = append(all, "it has no title, or a description that is no sentence")
	}
	if p.FieldConfig.Defaults.Unit == "" {
		all = append(all, "it has no unit")
	}
	if p.Datasource.UID != "${datasource}" {
		all = append(all, "its data source is not the chosen one")
	}
	if len(p.Targets) == 0 {
		all = append(all, "it shows nothing")
	}
	for _, target := range p.Targets {
		if p.Type != "table" && target.LegendFormat == "" {
			all = append(all, "a series has no legend")
		}
		if target.Datasource.UID != "${datasource}" || target.Range == target.Instant {
			all = append(all, "a query is of another data source, or not of a range or an instant")
		}
		all = append(all, lintQuery(target.Expr, metrics)...)
	}
	return all
}

func lintQuery(expr string, metrics map[string][]string) []string {
	var all []string
	for _, found := range window.FindAllStringSubmatch(expr, -1) {
		if found[1] != "$__rate_interval" && found[1] != "$__range" {
			all = append(all, "the window "+found[1]+" is not $__rate_interval or $__range")
		}
	}
	selectors := selector.FindAllStringSubmatchIndex(expr, -1)
	if len(selectors) == 0 {
		all = append(all, "no metric in "+expr)
	}
	inside := quoted.FindAllStringIndex(expr, -1)
	for _, at := range selectors {
		if slices.ContainsFunc(inside, func(q []int) bool { return q[0] < at[0] && at[0] < q[1] }) {
			continue
		}
		name, matchers := expr[at[2]:at[3]], ""
		if at[4] >= 0 {
			matchers = expr[at[4]:at[5]]
		}
		labels, ok := metrics[name]
		if !ok {
			all = append(all, "there is no metric "+name)
		}
		if !strings.Contains(matchers, `cluster=~"$cluster"`) {
			all = append(all, name+" is not of the chosen cluster")
		}
		if slices.Contains(labels, "namespace") && !strings.Contains(matchers, `namespace=~"$namespace"`) {
			all = append(all, name+" is not of the chosen namespace")
		}
	}
	return all
}

// TestLint: each of these breaks a rule.
func TestLint(t *testing.T) {
	metrics := map[string][]string{"lighterage_a_total": {"namespace"}, "up": nil}
	const right = `sum(rate(lighterage_a_total{cluster=~"$cluster",namespace=~"$namespace"}[$__rate_interval]))`
	if problems := lintQuery(right, metrics); len(problems) > 0 {
		t.Errorf("%s: %v", right, problems)
	}
	for _, wrong := range []string{
		strings.ReplaceAll(right, "$__rate_interval", "5m"), strings.ReplaceAll(right, `namespace=~"$namespace"`, ""),
		strings.ReplaceAll(right, `cluster=~"$cluster",`, ""), strings.ReplaceAll(right, "_a_", "_b_"), "vector(1)",
		right + " + up",
	} {
		if len(lintQuery(wrong, metrics)) == 0 {
			t.Errorf("nothing is wrong with %s", wrong)
		}
	}
}

func TestRules(t *testing.T) {
	rules, _, err := dashboards.ReadRules()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := os.ReadFile(filepath.Join(render.Root, "docs/operations/runbooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics := known(t)
	const page = "https://github.com/lighterage/lighterage/blob/main/docs/operations/runbooks.md#"
	alerts, sections := 0, strings.Count(string(pages), "\n## Lighterage")
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			for _, found := range selector.FindAllStringSubmatch(quoted.ReplaceAllString(rule.Expr, ""), -1) {
				if _, ok := metrics[found[1]]; !ok {
					t.Errorf("%s%s: there is no metric %s", rule.Alert, rule.Record, found[1])
				}
			}
			if rule.Alert == "" {
				continue
			}
			alerts++
			if !strings.HasPrefix(rule.Alert, "Lighterage") || rule.Annotations["summary"] == "" ||
				!strings.HasSuffix(rule.Annotations["description"], ".") {
				t.Errorf("%s has another name, no summary or no description: %v", rule.Alert, rule.Annotations)
			}
			if !slices.Contains([]string{"info", "warning", "critical"}, rule.Labels["severity"]) {
				t.Errorf("%s has the severity %q", rule.Alert, rule.Labels["severity"])
			}
			if rule.Annotations["runbook_url"] != page+strings.ToLower(rule.Alert) ||
				!strings.Contains(string(pages), "\n## "+rule.Alert+"\n") {
				t.Errorf("%s has no section of the runbooks: %s", rule.Alert, rule.Annotations["runbook_url"])
			}
			if !strings.Contains(rule.Expr, "cluster") {
				t.Errorf("%s does not tell clusters apart", rule.Alert)
			}
		}
	}
	if alerts < 25 || alerts != sections {
		t.Errorf("there are %d alerts and %d sections of the runbooks", alerts, sections)
	}
}
