// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/hack/cluster/internal/addons"
	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
	"github.com/lighterage/lighterage/hack/cluster/internal/unit"
)

// status prints one table of the clusters and one of the processes.
func (w *workspace) status(ctx context.Context) error {
	env, err := os.ReadFile(filepath.Join(w.cluster, "env"))
	if err != nil {
		if _, err := os.Stat(layout.StateDir); err == nil {
			fmt.Println("The clusters are not up as a whole; processes:")
			return printProcesses()
		}
		fmt.Println("The clusters are down: `make clusters` brings them up")
		return nil
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "CLUSTER\tAPI\tVERSION\tNODES\tKUBECONFIG")
	for _, name := range []string{"east", "west"} {
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, describe(ctx, w.kubeconfig(name)), rel(w.root, w.kubeconfig(name)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if (environment{mode: "existing"}).is(string(env)) {
		return nil
	}
	fmt.Println()
	return printProcesses()
}

// describe asks a cluster for the three middle columns of its line.
func describe(ctx context.Context, kubeconfig string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := clientOf(kubeconfig)
	if err != nil {
		return "no kubeconfig\t-\t-"
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "does not answer\t-\t-"
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return "does not answer\t-\t-"
	}
	ready := 0
	for _, n := range nodes.Items {
		if addons.NodeReady(n) {
			ready++
		}
	}
	return fmt.Sprintf("answers\t%s\t%d/%d ready", version.GitVersion, ready, len(nodes.Items))
}

func printProcesses() error {
	set := unit.Set{Pids: layout.PidsDir(), Logs: layout.LogsDir()}
	files, err := filepath.Glob(filepath.Join(set.Pids, "*.pid"))
	if err != nil {
		return err
	}
	sort.Strings(files)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "PROCESS\tSTATE\tPID\tMEMORY\tLOG")
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".pid")
		state, pid, memory := "ended", "-", "-"
		if r, err := unit.ReadRecord(f); err == nil && r.Alive() {
			state, pid, memory = "runs", fmt.Sprint(r.PID), residentMemory(r.PID)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", name, state, pid, memory, set.LogFile(name))
	}
	return t.Flush()
}

// residentMemory is the memory a process holds, for people.
func residentMemory(pid int) string {
	var size, resident int
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return "-"
	}
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return "-"
	}
	return fmt.Sprintf("%d MiB", resident*os.Getpagesize()>>20)
}
