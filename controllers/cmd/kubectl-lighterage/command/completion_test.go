// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestComplete completes what was typed, the last word of each line, against a cluster.
func TestComplete(t *testing.T) {
	cluster := startCluster(t, startService(t))
	const namespaces = "/apis/lighterage.dev/v1alpha1/namespaces/"
	cluster.listed = map[string][]string{
		namespaces + "bank/queues": {"orders", "payments"}, namespaces + "bank/transfers": {"ledger", "archive"},
		namespaces + "bank/compressiontrials": {"files"}, namespaces + "shop/queues": {"carts"},
		"/apis/lighterage.dev/v1alpha1/peers": {"west"}, "/api/v1/namespaces": {"bank", "shop"},
	}
	for line, want := range map[string][]string{
		"":                            {"explain", "trial", "cost", "queue", "receipt", "completion", "help", "connect", "link", "disconnect", "check", "verify", "gather", "prove", "status", "watch", "tree", "run", "suspend", "pause", "resume", "logs", "console"},
		"queue ":                      {"get", "put", "stat"},
		"explain peer/":               {"peer/west"},
		"explain peers ":              {"west"},
		"explain secret/":             nil,
		"logs trial/":                 {"trial/files"},
		"watch trial/files transfer/": {"transfer/ledger", "transfer/archive"},
		"run trial/":                  {"trial/files"},
		"suspend ":                    {"transfer/ledger", "transfer/archive"},
		"explain transfers/l":         {"transfers/ledger", "transfers/archive"}, // the shell leaves the first
		"explain queue/":              {"queue/orders", "queue/payments"},
		"explain transfer ":           {"ledger", "archive"},
		"explain transfer/a ":         nil,
		"explain a -o ":               {"text", "json", "yaml"},
		"trial report ":               {"files"},
		"trial report trial/":         {"trial/files"},
		"trial report -o ":            {"html", "svg", "text"},
		"queue get ":                  {"orders", "payments"},
		"queue get orders ":           nil,
		"queue put -n shop ":          {"carts"},
		"queue stat queue/":           {"queue/orders", "queue/payments"},
		"queue get a --output ":       {"raw", "json"},
		"queue stat -n ":              {"bank", "shop"},
		"cost transfer/l":             {"transfer/ledger", "transfer/archive"},
		"cost queue ":                 {"orders", "payments"},
		"cost -o ":                    {"csv", "json", "table"},
		"cost --by ":                  {"day", "direction", "engine", "kind", "namespace", "nodeclass", "peer"},
		"--context ":                  {"east"},
		"queue get --key-":            nil,
		"completion ":                 {"bash", "zsh", "fish", "powershell"},
	} {
		arguments := append([]string{
			cobra.ShellCompRequestCmd, "--kubeconfig", cluster.kubeconfig,
		}, strings.Split(line, " ")...)
		out, _, err := try(t, "", arguments...)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		var got []string
		for answer := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(answer), "\t")
			got = append(got, word)
		}
		// At the end is the directive: no names of files.
		if n := len(got); n == 0 || got[n-1] != ":4" {
			t.Errorf("%q: %q", line, got)
			continue
		}
		got = got[:len(got)-1]
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
			t.Errorf("%q: %s", line, diff)
		}
	}
	// The kind first, with no blank after it.
	for command, kinds := range map[string]kinds{"explain": allKinds, "logs": logged, "run": runnable, "cost": charged} {
		out, _, err := try(t, "", cobra.ShellCompRequestCmd, "--kubeconfig", cluster.kubeconfig, command, "")
		for _, k := range kinds {
			if err != nil || !strings.Contains(out, k.words[1]+"/\n") || !strings.HasSuffix(out, ":6\n") {
				t.Errorf("%s: %v: %s is not in %q", command, err, k.words[1], out)
			}
		}
	}
	cluster.forbidden = []string{"/queues"}
	if out, _, _ := try(
		t, "", cobra.ShellCompRequestCmd, "--kubeconfig", cluster.kubeconfig, "queue", "get", "",
	); out != ":1\n" {
		t.Errorf("without rights: %q", out)
	}
	if out, _, _ := try(t, "", cobra.ShellCompRequestCmd, "queue", "put", "a", "-f", ""); !strings.HasSuffix(out, ":0\n") {
		t.Errorf("names of files: %q", out)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, _, err := try(t, "", "completion", shell); err != nil || !strings.Contains(out, cobra.ShellCompRequestCmd) ||
			!strings.Contains(out, "kubectl-lighterage") {
			t.Errorf("%s: %v: %d bytes", shell, err, len(out))
		}
	}
}
