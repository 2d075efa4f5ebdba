// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package command

import (
	"encoding/json"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/overview"
)

// watchCluster runs the commands that show what a cluster does, and those that change a Transfer, by who may do what
// their help names, and by who may not.
func watchCluster(t *testing.T, cluster *controllertest.Cluster, nothing string) {
	kubeconfig := user(t, cluster, "watcher")
	group := []string{v1alpha1.GroupVersion.Group}
	cluster.Allow(
		t, "watcher",
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"transfers"}, Verbs: []string{"patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
	)
	run := func(kubeconfig string, line string) (string, error) {
		out, _, err := try(t, "", append(strings.Fields(line), "-n", namespace, "--kubeconfig", kubeconfig)...)
		return out, err
	}
	for line, says := range map[string]string{
		"status --all":                 "Transfer bank/new waiting: no controller has looked at it yet",
		"watch --once --all":           "transfer  bank/ledger  Complete",
		"watch transfer/ledger":        "transfer  bank/ledger  Complete",
		"watch --once -o json":         `"name":"starting"`,
		"tree transfer/ledger":         "|- Jobs cannot be read: ",
		"explain queue/orders":         "Queue bank/orders: ",
		"explain nodeprofile worker-1": "NodeProfile worker-1: ",
		"tree transfer ledger -o json": `"kind": "Delivery"`,
		"suspend transfer/new":         "Transfer bank/new: suspended",
		"pause transfer/new":           "Transfer bank/new: paused",
		"resume transfer/new":          "Transfer bank/new: resumed",
	} {
		if out, err := run(kubeconfig, line); err != nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if out, err := run(kubeconfig, "run transfer/ledger"); err != nil || !strings.Contains(out, "bank/ledger: run ") {
		t.Errorf("%v: %s", err, out)
	}
	ledger := &v1alpha1.Transfer{}
	key := client.ObjectKey{Namespace: namespace, Name: "ledger"}
	if err := cluster.Client.Get(t.Context(), key, ledger); err != nil || ledger.Annotations[v1alpha1.RunAnnotation] == "" {
		t.Errorf("%v: %v", err, ledger.Annotations)
	}
	// It is to run again, so it has not ended.
	if r := overview.OfTransfer(ledger); r.Ended() {
		t.Errorf("%+v", r)
	}
	for line, says := range map[string]string{
		"watch":                 "is forbidden",
		"watch transfer/ledger": "get on transfers of lighterage.dev",
		"tree transfer/ledger":  "get on transfers of lighterage.dev",
		"logs transfer/ledger":  "get on transfers of lighterage.dev",
		"explain queue/orders":  "get on queues of lighterage.dev",
		"explain peer west":     "a ClusterRole with the verb get on peers",
		"run transfer/ledger":   "get on transfers of lighterage.dev",
	} {
		if out, err := run(nothing, line); err == nil || out != "" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q, %v", line, out, err)
		}
	}
	if _, err := run(kubeconfig, "logs transfer/ledger"); err == nil || !strings.Contains(err.Error(), "has no pods") {
		t.Errorf("got %v", err)
	}
	reader := user(t, cluster, "reader", "transfers")
	if _, err := run(reader, "suspend transfer/ledger"); err == nil ||
		!strings.Contains(err.Error(), "patch on transfers of lighterage.dev") {
		t.Errorf("got %v", err)
	}
	out, err := run(nothing, "status -o json")
	var status overview.Status
	if err != nil || json.Unmarshal([]byte(out), &status) != nil || len(status.Kinds) != len(knownKinds()) {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, kind := range status.Kinds {
		if kind.Note == "" {
			t.Errorf("kind %s: %+v", kind.Kind, kind)
		}
	}
}
