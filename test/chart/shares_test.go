// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"slices"
	"strings"
	"testing"
)

// TestAcceleratorShares: with shares, and in no other case, the node agent is configured to grant them, a Service leads
// to it that stays on the node, agents alone may connect, and the manager tells them.
func TestAcceleratorShares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  []string
		want bool
	}{
		"by default":       {nil, true},
		"switched off":     {[]string{"accelerator.shares.enabled=false"}, false},
		"no node agent":    {[]string{"nodeAgent.enabled=false"}, false},
		"no architecture":  {[]string{"image.architectures={amd64}"}, false},
		"of other figures": {[]string{"accelerator.shares.unitsPerNode=4", "accelerator.shares.reservedPercent=25"}, true},
	} {
		objects, err := template(t, append([]string{registry}, c.set...)...)
		if err != nil {
			t.Fatal(err)
		}
		service := find(objects, "Service", "lighterage-node-agent")
		if (service != nil) != c.want {
			t.Errorf("%s: Service %v", name, service)
		}
		if service != nil && at(service.Object, "spec", "internalTrafficPolicy") != "Local" {
			t.Errorf("%s: the Service leads to other nodes", name)
		}
		args, _ := at(find(objects, "Deployment", "lighterage-manager").Object, "spec", "template", "spec", "containers", 0,
			"args").([]any)
		if slices.Contains(args, any("--accelerator-shares")) != c.want {
			t.Errorf("%s: arguments %v", name, args)
		}
		if find(objects, "DaemonSet", "lighterage-node-agent") == nil {
			continue
		}
		config, _ := at(find(objects, "ConfigMap", "lighterage-node-agent").Object, "data", "config.json").(string)
		figures := `"units": 1, "reservedPercent": 10`
		if strings.HasPrefix(name, "of other") {
			figures = `"units": 4, "reservedPercent": 25`
		}
		if strings.Contains(config, figures) != c.want {
			t.Errorf("%s: configuration %s", name, config)
		}
		policy := find(objects, "NetworkPolicy", "lighterage-node-agent")
		rules, _ := at(policy.Object, "spec", "ingress").([]any)
		if (len(rules) == 2) != c.want {
			t.Errorf("%s: rules %v", name, rules)
		}
	}
}

// TestNodeAgentConfig: what changes the configuration of node agents restarts them, and nothing else about it does.
func TestNodeAgentConfig(t *testing.T) {
	t.Parallel()
	sums := map[string]string{}
	for name, set := range map[string][]string{
		"default": nil, "reserved": {"accelerator.shares.reservedPercent=25"}, "units": {"accelerator.shares.unitsPerNode=2"},
		"off": {"accelerator.shares.enabled=false"}, "annotated": {"nodeAgent.podAnnotations.team=bank"},
	} {
		objects, err := template(t, append([]string{registry}, set...)...)
		if err != nil {
			t.Fatal(err)
		}
		annotations, _ := at(find(objects, "DaemonSet", "lighterage-node-agent").Object, "spec", "template", "metadata",
			"annotations").(map[string]any)
		sums[name], _ = annotations["lighterage.dev/config"].(string)
		if name == "annotated" && annotations["team"] != "bank" {
			t.Errorf("annotations %v", annotations)
		}
	}
	seen := map[string]bool{}
	for name, sum := range sums {
		if name != "annotated" {
			seen[sum] = true
		}
	}
	if len(seen) != 4 || seen[""] || sums["annotated"] != sums["default"] {
		t.Errorf("sums %v", sums)
	}
}
