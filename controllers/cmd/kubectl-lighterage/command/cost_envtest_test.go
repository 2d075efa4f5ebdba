// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// showCosts asks for the costs of namespaces and of the cluster, by who may list Statements and by who may not.
func showCosts(t *testing.T, cluster *controllertest.Cluster, nothing string) {
	cluster.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	makeStatement(t, cluster, "bank", "2026-10", "0.5")
	makeStatement(t, cluster, "bank", "2026-11", "0.031")
	makeStatement(t, cluster, "shop", "2026-11", "0.031")
	cluster.Allow(t, "accountant", rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"statements"}, Verbs: []string{"list"},
	})
	accountant := user(t, cluster, "accountant")

	t.Run("of the cluster", func(t *testing.T) {
		var got struct {
			Entries, Totals []struct{ Namespace, Month, Currency, Cost string }
		}
		out, said, err := try(t, "", "cost", "-A", "--month", "2026-11", "-ojson", "--kubeconfig", accountant)
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		if err != nil || len(got.Entries) != 2 || got.Entries[1].Namespace != "shop" || got.Entries[0].Cost != "0.0315" ||
			len(got.Totals) != 1 || got.Totals[0].Cost != "0.063" {
			t.Errorf("%v: %s", err, out)
		}
		if !strings.Contains(said, "bank/2026-11") || !strings.Contains(said, "Edited") || strings.Contains(said, "shop") {
			t.Errorf("it said %q of gaps", said)
		}
	})
	t.Run("of a namespace over two months", func(t *testing.T) {
		out, _, err := try(
			t, "", "cost", "-n", "bank", "--from", "2026-10-01", "--to", "2026-11-30", "--by", "day", "-ocsv", "--kubeconfig",
			accountant,
		)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[1], "2026-10-23,EUR,0.5005,") ||
			!strings.HasPrefix(lines[2], "2026-11-23,EUR,0.0315,") {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("as a table", func(t *testing.T) {
		out, _, err := try(t, "", "cost", "--month", "2026-10", "--kubeconfig", accountant)
		if err != nil || !strings.HasPrefix(out, "KIND ") || strings.Count(out, "0.5005") != 2 {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("as FOCUS", func(t *testing.T) { writeFOCUS(t, accountant) })
	t.Run("of an object", func(t *testing.T) { showObject(t, cluster, nothing) })
	for name, test := range map[string]struct {
		kubeconfig, month string
		namespace, says   string
	}{
		"another month":      {accountant, "2026-12", "-nbank", "2026-10, 2026-11"},
		"an empty namespace": {accountant, "2026-11", "-nnone", `"none"`},
		"no rights":          {nothing, "2026-11", "-nbank", "list on statements of lighterage.dev"},
		"no rights at all":   {nothing, "2026-11", "-A", "ClusterRole"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := try(t, "", "cost", test.namespace, "--month", test.month, "--kubeconfig", test.kubeconfig)
			if err == nil || out != "" || !strings.Contains(err.Error(), test.says) || ExitCode(err) != 1 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// showObject asks for the cost of a Transfer, and of one that has none.
func showObject(t *testing.T, cluster *controllertest.Cluster, nothing string) {
	for _, name := range []string{"priced", "free"} {
		transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		transfer.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "a", Path: "/"}
		transfer.Spec.Destination.PersistentVolumeClaim.PersistentVolumeClaimPath = v1alpha1.PersistentVolumeClaimPath{ClaimName: "b", Path: "/"}
		cluster.Create(t, transfer)
		if name == "free" {
			continue
		}
		transfer.Status.Cost = &v1alpha1.CostStatus{
			Currency: "EUR", CPU: "0.0310", Network: "0.1000", Saved: "-0.1000",
			Periods: []v1alpha1.CostPeriod{{
				Prices: v1alpha1.PricesStatus{
					Currency: "EUR", CPUHour: "0.031", NetworkGiB: "0.1", Source: v1alpha1.PricesOfTariff, Name: "datacentre",
					Generation: 2,
				},
				CPUSeconds: "3600", WireBytes: gib, CPU: "0.031", Network: "0.1", Saved: "-0.1",
			}},
		}
		update(t, cluster, transfer)
	}
	kubeconfig := user(t, cluster, "mover", "transfers")
	for _, form := range []string{"table", "csv", "json"} {
		out, _, err := try(t, "", "cost", "transfer/priced", "-o", form, "--kubeconfig", kubeconfig)
		if err != nil || !strings.Contains(out, "datacentre") || !strings.Contains(out, "0.031") ||
			!strings.Contains(out, "-0.1") {
			t.Errorf("%s: %v: %s", form, err, out)
		}
	}
	for _, test := range [][3]string{
		{"free", kubeconfig, "has no cost"}, {"prised", kubeconfig, `"prised"`},
		{"priced", nothing, "get on transfers of lighterage.dev"},
	} {
		out, _, err := try(t, "", "cost", "transfer/"+test[0], "--kubeconfig", test[1])
		if err == nil || out != "" || !strings.Contains(err.Error(), test[2]) {
			t.Errorf("%s: %v: %s", test[0], err, out)
		}
	}
}

// writeFOCUS writes files twice: they are replaced, and those of a namespace are beside those of the cluster.
func writeFOCUS(t *testing.T, kubeconfig string) {
	directory := filepath.Join(t.TempDir(), "bills")
	for range 2 {
		for _, arguments := range [][]string{{"-A"}, {"-nshop"}, {"-A", "--focus-format", "parquet"}} {
			arguments = append(
				[]string{
					"cost", "--from", "2026-10-01", "--to", "2026-11-30", "--focus", directory, "--cluster-name", "east",
					"--kubeconfig", kubeconfig,
				}, arguments...,
			)
			if out, _, err := try(t, "", arguments...); err != nil || out != "" {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "lighterage_east_2026-10-23.csv lighterage_east_2026-10-23.parquet "+
		"lighterage_east_2026-11-23.csv lighterage_east_2026-11-23.parquet lighterage_east_shop_2026-11-23.csv" {
		t.Errorf("files %s", got)
	}
	content, err := os.ReadFile(filepath.Join(directory, "lighterage_east_2026-11-23.csv"))
	if err != nil {
		t.Fatal(err)
	}
	// The header, and for either namespace CPU time, that of the network stack, and bytes.
	if lines := strings.Split(strings.TrimSpace(string(content)), "\n"); len(lines) != 7 ||
		!strings.Contains(lines[1], "east/bank") || !strings.Contains(lines[6], "east/shop") {
		t.Errorf("%s", content)
	}
	one := filepath.Join(directory, "all.csv")
	if _, _, err := try(
		t, "", "cost", "-A", "--month", "2026-11", "--focus", one, "--cluster-name", "east", "--kubeconfig", kubeconfig,
	); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(one); err != nil || string(again) != string(content) {
		t.Errorf("%v: %s", err, again)
	}
}

// makeStatement makes one with a row of the 23rd. That of bank and November is incomplete.
func makeStatement(t *testing.T, cluster *controllertest.Cluster, namespace, month, cpuHour string) {
	t.Helper()
	s := &v1alpha1.Statement{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: month}, Spec: v1alpha1.StatementSpec{Month: month},
	}
	cluster.Create(t, s)
	s.Status = v1alpha1.StatementStatus{
		State: v1alpha1.StatementOpen,
		Prices: []v1alpha1.StatementPrices{{
			Name: "p1", Currency: "EUR", CPUHour: cpuHour, NetworkGiB: "0.0005", Source: v1alpha1.PricesOfTariff,
			SourceName: "datacentre", SourceGeneration: 1,
		}},
		Rows: []v1alpha1.StatementRow{{
			Day: month + "-23", Kind: "Transfer", Peer: "west", Direction: v1alpha1.DirectionSend,
			EngineClass: v1alpha1.EngineClassSoftware, NodeClass: "amd64", Prices: "p1", Currency: "EUR",
			PlainBytes: 3 * gib, WireBytes: gib,
			CPU:     v1alpha1.StatementCPU{SendSeconds: "3600", NetworkSeconds: "0.000000001"},
			Cost:    v1alpha1.StatementCost{CPU: cpuHour, Network: "0.0005"},
			Avoided: v1alpha1.StatementAvoided{Bytes: 2 * gib, Network: "0.001"},
		}},
	}
	if namespace == "bank" && month == "2026-11" {
		s.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: "Edited", Message: "edited by hand",
			LastTransitionTime: metav1.Now(),
		}}
	}
	update(t, cluster, s)
}
