// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/hack/cluster/internal/cgroup"
	"github.com/lighterage/lighterage/hack/cluster/internal/emulation"
	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
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
	if err := unmountBelow(layout.StateDir); err != nil {
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

// unmountBelow detaches every mount at or below dir, the innermost first, and
// makes sure that none is left: what is removed next must not reach beyond dir.
func unmountBelow(dir string) error {
	for range 3 {
		mounts, err := mountsBelow(dir)
		if err != nil {
			return err
		}
		if len(mounts) == 0 {
			return nil
		}
		slices.Reverse(mounts)
		for _, m := range mounts {
			if err := unix.Unmount(m, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) &&
				!errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("unmounting %s: %w", m, err)
			}
		}
	}
	left, err := mountsBelow(dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still mounted below %s: %s", dir, strings.Join(left, ", "))
	}
	return err
}

func mountsBelow(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	defer f.Close()
	return parseMounts(bufio.NewScanner(f), dir), nil
}

// parseMounts lists the mount points at or below dir in the order of a mountinfo
// file, in which an outer mount comes before those inside it.
func parseMounts(lines *bufio.Scanner, dir string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var mounts []string
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescape.Replace(fields[4]); point == dir || strings.HasPrefix(point, dir+"/") {
			mounts = append(mounts, point)
		}
	}
	return mounts
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
