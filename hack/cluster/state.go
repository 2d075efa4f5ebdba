// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
)

// kubeletSysctls are settings of the whole machine that every kubelet changes.
var kubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// sharedDirs are folders outside StateDir that kubelets and containerd make: their
// paths are not configurable.
var sharedDirs = []string{
	"/var/lib/kubelet/device-plugins", "/var/lib/kubelet",
	"/var/log/containers", "/var/lib/cni/results", "/var/lib/cni",
}

// state is what `down` must know of the time before `up`.
type state struct {
	// Boot tells one run of the machine from another.
	Boot string `json:"boot"`
	// Sysctls are the former values of kubeletSysctls.
	Sysctls map[string]string `json:"sysctls"`
	// Made are those of sharedDirs that did not exist.
	Made []string `json:"made"`
}

func stateFile() string { return filepath.Join(layout.StateDir, "state.json") }

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the machine's boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// loadState returns nil when there is no state, or none that can be read.
func loadState() *state {
	data, err := os.ReadFile(stateFile())
	if err != nil {
		return nil
	}
	var s state
	if json.Unmarshal(data, &s) != nil {
		return nil
	}
	return &s
}

// staleState is whether StateDir holds clusters that cannot be running.
func staleState() (bool, error) {
	if _, err := os.Stat(layout.StateDir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	id, err := bootID()
	if err != nil {
		return false, err
	}
	s := loadState()
	return s == nil || s.Boot != id, nil
}

// saveState notes what the machine looks like, unless a former `up` did.
func saveState() error {
	if loadState() != nil {
		return nil
	}
	id, err := bootID()
	if err != nil {
		return err
	}
	s := state{Boot: id, Sysctls: map[string]string{}}
	for _, name := range kubeletSysctls {
		if value, err := os.ReadFile("/proc/sys/" + name); err == nil {
			s.Sysctls[name] = strings.TrimSpace(string(value))
		}
	}
	for _, dir := range sharedDirs {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			s.Made = append(s.Made, dir)
		}
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(layout.StateDir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", layout.StateDir, err)
	}
	if err := os.WriteFile(stateFile()+".new", data, 0o644); err != nil {
		return fmt.Errorf("saving state: %w", err)
	}
	return os.Rename(stateFile()+".new", stateFile())
}

// restore puts back what saveState noted.
func (s *state) restore() error {
	var errs []error
	for name, value := range s.Sysctls {
		path := "/proc/sys/" + name
		if now, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(now)) != value {
			errs = append(errs, os.WriteFile(path, []byte(value), 0o644))
		}
	}
	for _, dir := range s.Made {
		// Only if it is ours by all signs: it was not there, and holds nothing of others.
		if dir == "/var/lib/kubelet/device-plugins" {
			errs = append(errs, os.RemoveAll(dir))
			continue
		}
		if left, err := os.ReadDir(dir); err == nil && len(left) == 0 {
			errs = append(errs, os.Remove(dir))
		}
	}
	return errors.Join(errs...)
}
