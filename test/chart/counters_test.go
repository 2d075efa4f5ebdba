// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"reflect"
	"strings"
	"testing"
)

// TestAcceleratorCounters: the node agent is root and has CAP_PERFMON when that was asked for, and in no other case,
// and never another capability.
func TestAcceleratorCounters(t *testing.T) {
	t.Parallel()
	for enabled, want := range map[string]map[string]any{
		"false": {
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}},
		},
		"true": {
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsUser": int64(0), "runAsNonRoot": false,
			"capabilities": map[string]any{"drop": []any{"ALL"}, "add": []any{"PERFMON"}},
		},
	} {
		objects, err := template(t, registry, "nodeAgent.acceleratorCounters="+enabled)
		if err != nil {
			t.Fatal(err)
		}
		agent := find(objects, "DaemonSet", "lighterage-node-agent")
		if got := at(agent.Object, "spec", "template", "spec", "containers", 0, "securityContext"); !reflect.DeepEqual(got,
			any(want)) {
			t.Errorf("acceleratorCounters=%s: %v, want %v", enabled, got, want)
		}
		config, _ := at(find(objects, "ConfigMap", "lighterage-node-agent").Object, "data", "config.json").(string)
		if asked := strings.Contains(config, `"acceleratorCounters": true`); asked != (enabled == "true") {
			t.Errorf("acceleratorCounters=%s: the agent is configured by %s", enabled, config)
		}
	}
}
