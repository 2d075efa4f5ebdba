// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Nodes of the local clusters, by hack/cluster/internal/layout: the namespace of each is ltg-NAME, and so is the host's
// end of its link.
var addresses = map[string]string{"east-1": "10.213.0.11", "east-2": "10.213.0.12", "west-1": "10.213.0.21"}

// hostAddress is where the nodes reach this machine.
const hostAddress = "10.213.0.1"

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil { //nolint:gosec // the test's own arguments
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

const westLink = "ltg-west-1"

// slowLink bounds what comes from east's nodes to west's, in KiB/s, until the test ends. Everything else stays as fast
// as it is.
func slowLink(t *testing.T, rate int) {
	t.Helper()
	_ = exec.Command("tc", "qdisc", "del", "dev", westLink, "root").Run()
	command(t, "tc", "qdisc", "add", "dev", westLink, "root", "handle", "1:", "htb", "default", "2")
	t.Cleanup(func() { _ = exec.Command("tc", "qdisc", "del", "dev", westLink, "root").Run() })
	command(
		t, "tc", "class", "add", "dev", westLink, "parent", "1:", "classid", "1:2", "htb", "rate", "10gbit", "quantum",
		"200000",
	)
	command(
		t, "tc", "class", "add", "dev", westLink, "parent", "1:", "classid", "1:1", "htb", "rate", kibit(rate), "quantum",
		"60000", "burst", "256kb",
	)
	for _, node := range []string{"east-1", "east-2"} {
		command(
			t, "tc", "filter", "add", "dev", westLink, "parent", "1:", "protocol", "ip", "u32", "match", "ip", "src",
			addresses[node]+"/32", "flowid", "1:1",
		)
	}
}

func kibit(rate int) string { return strconv.Itoa(rate*8) + "kibit" }

// partition cuts the clusters off from each other, in both directions, until heal is called or the test ends.
func partition(t *testing.T) (heal func()) {
	t.Helper()
	var rules [][]string
	for _, pair := range [][2]string{
		{"west-1", "east-1"},
		{"west-1", "east-2"},
		{"east-1", "west-1"},
		{"east-2", "west-1"},
	} {
		rules = append(
			rules,
			[]string{
				"--net=/run/netns/ltg-" + pair[0], "iptables", "-w", "-t", "raw", "", "PREROUTING", "-s", addresses[pair[1]], "-j",
				"DROP",
			},
		)
	}
	return drop(t, rules)
}

// drop adds rules of iptables, whose command is empty, each in the network namespace that nsenter is told, and returns
// what removes them.
func drop(t *testing.T, rules [][]string) (heal func()) {
	t.Helper()
	with := func(rule []string, action string) []string {
		args := append([]string(nil), rule...)
		for i := range args {
			if args[i] == "" {
				args[i] = action
			}
		}
		return args
	}
	healed := false
	heal = func() {
		if healed {
			return
		}
		healed = true
		for _, rule := range rules {
			_ = exec.Command("nsenter", with(rule, "-D")...).Run() //nolint:gosec // the test's own arguments
		}
	}
	t.Cleanup(heal)
	for _, rule := range rules {
		command(t, "nsenter", with(rule, "-I")...)
	}
	return heal
}
