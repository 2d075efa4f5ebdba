// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build prometheus

package dashboards_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/test/dashboards"
)

// promtool runs the tests of the alerts on rules.
func promtool(t *testing.T, rules, tests []byte) (string, error) {
	t.Helper()
	directory := t.TempDir()
	for name, content := range map[string][]byte{"rules.yaml": rules, "alerts.yaml": tests} {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules",
		filepath.Join(directory, "alerts.yaml")).CombinedOutput()
	return string(out), err
}

// TestAlerts: each alert fires when it should, and not before or on something else.
func TestAlerts(t *testing.T) {
	rules, file, err := dashboards.ReadRules()
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, file, tests); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// The tests of an alert that never fires must not hold.
	never := []byte(strings.ReplaceAll(string(file), "alert: Lighterage", "alert: Other"))
	out, err := promtool(t, never, tests)
	if err == nil {
		t.Fatal("the tests hold without any alert")
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" && !strings.Contains(out, `"`+rule.Alert+`\"`) {
				t.Errorf("no test fails without %s", rule.Alert)
			}
		}
	}
}
