// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboards reads the Grafana dashboards and the rules for Prometheus as they are shipped. Its tests hold them
// to each other, to the metrics, and to rules of style.
package dashboards

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lighterage/lighterage/test/render"
)

// Dashboard is what the tests look at of one.
type Dashboard struct {
	UID, Title, Description string
	Panels                  []Panel
	Templating              struct{ List []Variable }
}

// Variable of a dashboard.
type Variable struct {
	Name, Type, AllValue, Definition string
	IncludeAll                       bool
	Datasource                       Source
}

// Source is a data source.
type Source struct{ Type, UID string }

// Panel of a dashboard.
type Panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               Source
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []Target
	FieldConfig              struct{ Defaults struct{ Unit string } }
}

// Target is a query.
type Target struct {
	Expr, LegendFormat string
	Datasource         Source
	Range, Instant     bool
}

// Read returns the dashboards by the names of their files.
func Read() (map[string]Dashboard, error) {
	paths, err := filepath.Glob(filepath.Join(render.Root, "config/prometheus/dashboards/*.json"))
	if err != nil || len(paths) == 0 {
		return nil, errors.Join(errors.New("there are no dashboards; run make generate-dashboards"), err)
	}
	all := map[string]Dashboard{}
	for _, path := range paths {
		content, err := os.ReadFile(path) //nolint:gosec // a file of the tree
		if err != nil {
			return nil, fmt.Errorf("read a dashboard: %w", err)
		}
		var d Dashboard
		if err := json.Unmarshal(content, &d); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = d
	}
	return all, nil
}

// Rules are the groups of the PrometheusRule.
type Rules struct {
	Groups []struct {
		Name  string
		Rules []Rule
	}
}

// Rule records a series or alerts.
type Rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

// ReadRules returns the rules, and the same as Prometheus reads them from a file.
func ReadRules() (rules Rules, file []byte, err error) {
	content, err := os.ReadFile(filepath.Join(render.Root, "config/prometheus/rules.yaml"))
	if err != nil {
		return rules, nil, fmt.Errorf("read the rules: %w", err)
	}
	var object struct{ Spec json.RawMessage }
	if err = yaml.Unmarshal(content, &object); err == nil {
		err = json.Unmarshal(object.Spec, &rules)
	}
	if err == nil {
		file, err = yaml.JSONToYAML(object.Spec)
	}
	if err != nil {
		return rules, nil, fmt.Errorf("read the rules: %w", err)
	}
	return rules, file, nil
}
