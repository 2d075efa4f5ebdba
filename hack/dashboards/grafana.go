// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/test/collectors"
)

// dashboard is one as it is written here.
type dashboard struct {
	// name of the file, and of the dashboard's URL.
	name, title, description string
	rows                     []row
}

// row of panels. The first of a dashboard has its alerts and health and has no title.
type row struct {
	title  string
	panels []panel
}

// Types of panels, as Grafana names them.
const (
	stat       = "stat"
	timeseries = "timeseries"
	table      = "table"
)

// Units, as Grafana names them.
const (
	short        = "short"
	bytesUnit    = "bytes"
	bytesPerSec  = "binBps"
	perSecond    = "ops"
	secondsUnit  = "s"
	fraction     = "percentunit"
	cores        = "none"
	currencyUnit = "none"
)

// panel shows queries, which name no cluster and no namespace: render adds what the variables choose.
type panel struct {
	title, description, kind, unit string
	// width of 24.
	width   int
	queries []query
	// bad, if it is not 0, is the value from which on a stat is red. With low it is red below.
	bad float64
	low bool
	// stacked areas.
	stacked bool
	// signed values may be below 0.
	signed bool
}

// query with the legend of its series.
type query struct{ expr, legend string }

func one(expr, legend string) []query { return []query{{expr, legend}} }

// object is one of JSON.
type object = map[string]any

// labelled are metrics of others, with whether they have the label namespace for objects of users.
var labelled = map[string]bool{
	"ALERTS": true, "up": false, "process_cpu_seconds_total": false, "process_resident_memory_bytes": false,
	"controller_runtime_reconcile_errors_total": false, "workqueue_depth": false,
	"leader_election_master_status": false, "controller_runtime_reconcile_time_seconds_bucket": false,
	"lighterage:cpu_seconds:rate5m": true, "lighterage:wire_bytes:rate5m": true,
	"lighterage:saved_bytes:rate5m": true, "lighterage:cost:per_second": true, "lighterage:avoided_cost:per_second": true,
}

// grafana renders.
type grafana struct {
	// namespaced are all metrics, with whether they have the label namespace.
	namespaced map[string]bool
	selector   *regexp.Regexp
}

func newGrafana() (*grafana, error) {
	sections, err := collectors.All()
	if err != nil {
		return nil, fmt.Errorf("list the metrics: %w", err)
	}
	g := &grafana{namespaced: map[string]bool{}}
	for name, has := range labelled {
		g.namespaced[name] = has
	}
	for _, section := range sections {
		for _, m := range section.Metrics {
			g.namespaced[m.Name] = slices.Contains(m.Labels, "namespace")
		}
	}
	var names []string
	for name := range g.namespaced {
		names = append(names, regexp.QuoteMeta(name))
	}
	// The longest first, since some begin with others.
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	g.selector = regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b(\{[^}]*\})?`)
	return g, nil
}

// chosen adds to the selectors of a query what the variables choose.
func (g *grafana) chosen(expr string) string {
	return g.selector.ReplaceAllStringFunc(expr, func(selector string) string {
		name, matchers, _ := strings.Cut(strings.TrimSuffix(selector, "}"), "{")
		all := []string{`cluster=~"$cluster"`}
		if g.namespaced[name] {
			all = append(all, `namespace=~"$namespace"`)
		}
		if matchers != "" {
			all = append(all, matchers)
		}
		return name + "{" + strings.Join(all, ",") + "}"
	})
}

var source = object{"type": "prometheus", "uid": "${datasource}"}

func (g *grafana) render(d dashboard) object {
	var panels []object
	y := 0
	for _, r := range d.rows {
		if r.title != "" {
			panels = append(panels, object{
				"id": len(panels) + 1, "type": "row", "title": r.title, "collapsed": false, "panels": []object{},
				"gridPos": object{"h": 1, "w": 24, "x": 0, "y": y},
			})
			y++
		}
		x, height := 0, 0
		for _, p := range r.panels {
			if x+p.width > 24 {
				x, y, height = 0, y+height, 0
			}
			rendered := g.panel(p)
			rendered["id"] = len(panels) + 1
			rendered["gridPos"] = object{"h": p.height(), "w": p.width, "x": x, "y": y}
			panels = append(panels, rendered)
			x, height = x+p.width, max(height, p.height())
		}
		y += height
	}
	var links []object
	for _, other := range []dashboard{fleet, transfers, queues, endpoints, nodes, cost} {
		if other.name != d.name {
			links = append(links, object{
				"type": "link", "title": strings.TrimPrefix(other.title, "Lighterage / "), "url": "/d/lighterage-" + other.name,
				"keepTime": true, "includeVars": true, "targetBlank": false,
			})
		}
	}
	return object{
		"uid": "lighterage-" + d.name, "title": d.title, "description": d.description, "tags": []string{"lighterage"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time": object{"from": "now-6h", "to": "now"}, "links": links, "annotations": object{"list": []object{}},
		"templating": object{"list": variables(panels)}, "panels": panels,
	}
}

func (p panel) height() int {
	if p.kind == stat {
		return 4
	}
	return 8
}

func (g *grafana) panel(p panel) object {
	var targets []object
	for i, q := range p.queries {
		target := object{
			"refId": string(rune('A' + i)), "datasource": source, "editorMode": "code", "expr": g.chosen(q.expr),
			"legendFormat": q.legend, "range": p.kind == timeseries, "instant": p.kind != timeseries,
		}
		if p.kind == table {
			target["format"] = "table"
		}
		targets = append(targets, target)
	}
	steps := []object{{"color": "green", "value": nil}}
	switch {
	case p.bad != 0 && p.low:
		steps = []object{{"color": "red", "value": nil}, {"color": "green", "value": p.bad}}
	case p.bad != 0:
		steps = append(steps, object{"color": "red", "value": p.bad})
	}
	defaults := object{"unit": p.unit, "thresholds": object{"mode": "absolute", "steps": steps}}
	out := object{
		"type": p.kind, "title": p.title, "description": p.description, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}},
	}
	switch p.kind {
	case stat:
		defaults["color"] = object{"mode": "thresholds"}
		out["options"] = object{
			"colorMode": "value", "graphMode": "none", "textMode": "auto",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	case timeseries:
		if !p.signed {
			defaults["min"] = 0
		}
		custom := object{"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
		if p.stacked {
			custom["stacking"], custom["fillOpacity"] = object{"mode": "normal", "group": "A"}, 40
		}
		defaults["custom"] = custom
		out["options"] = object{
			"legend":  object{"displayMode": "table", "placement": "bottom", "calcs": []string{"mean", "max"}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	case table:
		out["transformations"] = []object{
			{"id": "organize", "options": object{"excludeByName": object{"Time": true, "__name__": true}}},
		}
	}
	return out
}

// variables are those that the panels use.
func variables(panels []object) []object {
	text := fmt.Sprint(panels)
	all := []object{{
		"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0,
		"includeAll": false, "multi": false,
	}}
	choice := func(name, label, query string) object {
		return object{
			"name": name, "label": label, "type": "query", "datasource": source, "hide": 0, "refresh": 2, "sort": 1,
			"query": object{"query": query, "refId": "values"}, "definition": query, "includeAll": true, "multi": true,
			// Where Prometheus adds no label cluster, all is what has none.
			"allValue": ".*", "current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
		}
	}
	all = append(all, choice("cluster", "Cluster", "label_values(lighterage_build_info, cluster)"))
	if strings.Contains(text, "$namespace") {
		all = append(all, choice(
			"namespace", "Namespace", `label_values(lighterage_objects{cluster=~"$cluster",namespace!=""}, namespace)`,
		))
	}
	return all
}
