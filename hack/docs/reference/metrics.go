// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/lighterage/lighterage/test/collectors"
)

// metricsIntroduction is what the page begins with.
//
//go:embed metrics.md.tmpl
var metricsIntroduction string

// metricsPage registers all collectors and lists them.
func metricsPage(root string) (string, error) {
	var b strings.Builder
	b.WriteString(metricsIntroduction)
	documented := map[string]bool{}
	sections, err := collectors.All()
	if err != nil {
		return "", err
	}
	for _, section := range sections {
		var rows [][]string
		for _, m := range section.Metrics {
			documented[m.Name] = true
			var labels []string
			for _, label := range m.Labels {
				labels = append(labels, code(label))
			}
			rows = append(rows, []string{code(m.Name), m.Kind, m.Unit, strings.Join(labels, ", "), prose(m.Help)})
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n", section.Title, table([]string{"Metric", "Type", "Unit", "Labels", "Meaning"}, rows))
	}
	return b.String(), everyMetric(root, documented)
}

var metricName = regexp.MustCompile(`"(lighterage_[a-z0-9_]+)"`)

// everyMetric returns an error for a metric of the sources that is not documented.
func everyMetric(root string, documented map[string]bool) error {
	var errs []error
	for _, dir := range []string{"controllers", "agent"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, found := range metricName.FindAllStringSubmatch(string(content), -1) {
				if !documented[found[1]] {
					errs = append(errs, fmt.Errorf("metric %s in %s is in no section; add it to metricsPage", found[1], path))
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("looking for metrics: %w", err)
		}
	}
	return errors.Join(errs...)
}
