// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lighterage/lighterage/hack/cluster/internal/cgroup"
	"github.com/lighterage/lighterage/hack/cluster/internal/emulation"
	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
	"github.com/lighterage/lighterage/hack/cluster/internal/loop"
	"github.com/lighterage/lighterage/hack/cluster/internal/mounts"
	"github.com/lighterage/lighterage/hack/cluster/internal/network"
	"github.com/lighterage/lighterage/hack/cluster/internal/unit"
)

// killTimeout is how long killed processes may take to be gone: on a disk that is busy, as long as what they last asked
// of it.
const killTimeout = 2 * time.Minute

func (w *workspace) down() error {
	lock, err := w.builder.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	env, err := os.ReadFile(filepath.Join(w.cluster, "env"))
	if err == nil && (environment{mode: "existing"}).is(string(env)) {
		fmt.Fprintln(os.Stderr, "Leaving the two existing clusters as they are, removing .cluster")
		return os.RemoveAll(w.cluster)
	}
	_, err = os.Stat(layout.StateDir)
	existed := err == nil
	if os.Geteuid() != 0 {
		if existed {
			return errors.New("removing local clusters needs root: run this with sudo")
		}
		return os.RemoveAll(w.cluster)
	}
	begin := time.Now()
	// Even without StateDir: a removal that was broken off may have left the rest.
	if err := removeAll(); err != nil {
		return err
	}
	if err := os.RemoveAll(w.cluster); err != nil {
		return fmt.Errorf("removing .cluster: %w", err)
	}
	if !existed {
		fmt.Fprintln(os.Stderr, "There are no local clusters")
		return nil
	}
	fmt.Fprintf(
		os.Stderr, "Clusters are gone (%.0f s). Built programs stay in %s\n", time.Since(begin).Seconds(), w.builder.Cache,
	)
	return nil
}

// removeAll removes every trace of the clusters from the machine, whatever state
// they are in. It may be repeated.
func removeAll() error {
	tree, err := cgroup.Detect()
	if err != nil {
		return err
	}
	// Who is in the cgroup is ours. Pid files add what was started but has not got
	// there; they are checked against the process's start time.
	if err := tree.Kill(layout.CgroupRoot, killTimeout); err != nil {
		return err
	}
	if err := (unit.Set{Pids: layout.PidsDir()}).KillAll(); err != nil {
		return err
	}
	// Before mounts, by whose paths loop devices are known. One that is still mounted goes with its last mount.
	if err := loop.DetachBelow(layout.StateDir); err != nil {
		return err
	}
	if err := mounts.DetachBelow(layout.StateDir); err != nil {
		return err
	}
	if err := emulation.Remove(emulationMark()); err != nil {
		return err
	}
	if err := network.Remove(); err != nil {
		return err
	}
	if err := tree.Remove(layout.CgroupRoot, killTimeout); err != nil {
		return err
	}
	if err := removeTraces(); err != nil {
		return err
	}
	if s := loadState(); s != nil {
		if err := s.restore(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(layout.StateDir); err != nil {
		return fmt.Errorf("removing %s: %w", layout.StateDir, err)
	}
	return nil
}

// removeTraces removes files in folders that are shared with other software.
func removeTraces() error {
	var errs []error
	// The kubelets' links to pod logs; the folder is not configurable.
	links, err := filepath.Glob("/var/log/containers/*.log")
	errs = append(errs, err)
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, layout.StateDir+"/") {
			errs = append(errs, os.Remove(l))
		}
	}
	// What libcni remembers of pods; its networks are named after our namespaces.
	results, err := filepath.Glob("/var/lib/cni/results/" + layout.Prefix + "*")
	errs = append(errs, err)
	for _, r := range results {
		errs = append(errs, os.Remove(r))
	}
	return errors.Join(errs...)
}
