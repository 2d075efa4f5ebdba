// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"slices"
	"strings"
	"testing"
)

const sharesEnabled = "accelerator.shares.enabled=true"

// TestAcceleratorShares: with shares, and in no other case, the node agent is configured to grant them, a Service leads
// to it that stays on the node, agents alone may connect, and the manager tells them.
func TestAcceleratorShares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  []string
		want bool
	}{
		"by default":      {nil, false},
		"enabled":         {[]string{sharesEnabled}, true},
		"no node agent":   {[]string{sharesEnabled, "nodeAgent.enabled=false"}, false},
		"no architecture": {[]string{sharesEnabled, "image.architectures={amd64}"}, false},
		"other figures": {
			[]string{sharesEnabled, "accelerator.shares.unitsPerNode=4", "accelerator.shares.reservedPercent=0"}, true,
		},
		"no figures": { // as with --reuse-values from a release without shares
			[]string{sharesEnabled, "accelerator.shares.unitsPerNode=null", "accelerator.shares.reservedPercent=null"}, true,
		},
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
		agents := find(objects, "DaemonSet", "lighterage-node-agent")
		if agents == nil {
			continue
		}
		ports, _ := at(agents.Object, "spec", "template", "spec", "containers", 0, "ports").([]any)
		if (len(ports) == 2) != c.want {
			t.Errorf("%s: ports %v", name, ports)
		}
		config, _ := at(find(objects, "ConfigMap", "lighterage-node-agent").Object, "data", "config.json").(string)
		figures := `"units": 1, "reservedPercent": 10`
		if name == "other figures" {
			figures = `"units": 4, "reservedPercent": 0`
		}
		if strings.Contains(config, figures) != c.want || !c.want && config != `{"controlAddress": ":9443"}`+"\n" {
			t.Errorf("%s: configuration %s", name, config)
		}
		policy := find(objects, "NetworkPolicy", "lighterage-node-agent")
		rules, _ := at(policy.Object, "spec", "ingress").([]any)
		if (len(rules) == 2) != c.want {
			t.Errorf("%s: rules %v", name, rules)
		}
	}
}

// TestNodeAgentConfig: with shares, what changes the configuration of node agents restarts them, and nothing else about
// it does.
func TestNodeAgentConfig(t *testing.T) {
	t.Parallel()
	sums := map[string]string{}
	for name, set := range map[string][]string{
		"default": nil, "reserved": {"accelerator.shares.reservedPercent=25"}, "units": {"accelerator.shares.unitsPerNode=2"},
		"off": {"accelerator.shares.enabled=false"}, "annotated": {"nodeAgent.podAnnotations.team=bank"},
	} {
		objects, err := template(t, append([]string{registry, sharesEnabled}, set...)...)
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
	if len(seen) != 4 || sums["off"] != "" || sums["annotated"] != sums["default"] {
		t.Errorf("sums %v", sums)
	}
}
