// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Tool is a file of the distribution that the clusters use.
type Tool struct {
	// File is looked up in PATH, or is an absolute path.
	File string
	// Package is the Debian package that has it.
	Package string
}

// NodeTools are what a node needs.
func NodeTools() []Tool {
	return []Tool{
		{"etcd", "etcd-server"},
		{"runc", "runc"},
		{CNIDir + "/ptp", "containernetworking-plugins"},
		{CNIDir + "/host-local", "containernetworking-plugins"},
		{"iptables", "iptables"},
		{"conntrack", "conntrack"},
		{"socat", "socat"},
		{"ebtables", "ebtables"},
		{"ip", "iproute2"},
		{"nsenter", "util-linux"},
		{"mount", "mount"},
		{"sysctl", "procps"},
		{Busybox, "busybox-static"},
	}
}

// SnapshotTools are what volumes that can be snapshotted need.
func SnapshotTools() []Tool {
	return []Tool{
		{"mkfs.btrfs", "btrfs-progs"},
		{"mkfs.ext4", "e2fsprogs"},
		{"resize2fs", "e2fsprogs"},
		// With which kubelets hold block devices.
		{"losetup", "mount"},
	}
}

// EnvtestTools are what tests with a bare API server need.
func EnvtestTools() []Tool { return []Tool{{"etcd", "etcd-server"}} }

const (
	// CNIDir is where Debian keeps the network plugins.
	CNIDir = "/usr/lib/cni"
	// Busybox is Debian's busybox; the package busybox-static makes it static.
	Busybox = "/bin/busybox"
	// policyFile, when it exists, decides whether packages may start services.
	policyFile = "/usr/sbin/policy-rc.d"
)

// systemPath is PATH with the folders of administration, which a user's may lack.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Path is the PATH that units run with: dirs and then the system's.
func Path(dirs ...string) string {
	return strings.Join(append(slices.Clone(dirs), systemPath), ":")
}

// Find returns the absolute path of a program of the distribution.
func Find(name string) (string, error) {
	if filepath.IsAbs(name) {
		_, err := os.Stat(name)
		return name, err
	}
	for _, dir := range filepath.SplitList(systemPath) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

// missing lists the packages to install for the tools.
func missing(tools []Tool, find func(string) (string, error)) []string {
	var packages []string
	for _, t := range tools {
		if _, err := find(t.File); err != nil && !slices.Contains(packages, t.Package) {
			packages = append(packages, t.Package)
		}
	}
	return packages
}

// EnsureTools installs the packages of missing tools when it may, and otherwise
// says with which command to install them.
func (b Builder) EnsureTools(ctx context.Context, tools []Tool) error {
	packages := missing(tools, Find)
	if len(packages) == 0 {
		return nil
	}
	install := "apt-get install --yes --no-install-recommends " + strings.Join(packages, " ")
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf(
			"this machine lacks programs that Debian has in the packages %s: install them (there is no apt-get here to do it)",
			strings.Join(packages, ", "),
		)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("programs are missing: run `sudo %s`, and stop the etcd service that etcd-server starts", install)
	}
	fmt.Fprintf(b.Out, "Installing Debian packages: %s\n", strings.Join(packages, " "))
	return withoutServices(func() error {
		if out, err := aptGet(ctx, apt, "update", "--quiet"); err != nil {
			return fmt.Errorf("apt-get update: %w\n%s", err, out)
		}
		// One that was killed may have left packages half configured; what cannot be fixed the installation tells of.
		_ = exec.CommandContext(ctx, "dpkg", "--configure", "-a").Run()
		args := append([]string{"install", "--yes", "--quiet", "--no-install-recommends"}, packages...)
		if out, err := aptGet(ctx, apt, args...); err != nil {
			return fmt.Errorf("%s: %w\n%s", install, err, out)
		}
		if slices.Contains(packages, "etcd-server") {
			// Not at the next boot either. Without systemd there is nothing to disable.
			_ = exec.CommandContext(ctx, "systemctl", "disable", "--now", "etcd.service").Run()
		}
		if left := missing(tools, Find); len(left) > 0 {
			return fmt.Errorf("apt-get installed %s but programs are still missing", strings.Join(left, " "))
		}
		return nil
	})
}

func aptGet(ctx context.Context, apt string, args ...string) ([]byte, error) {
	// Another apt-get may be at work.
	cmd := exec.CommandContext(ctx, apt, append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return cmd.CombinedOutput()
}

// withoutServices runs f while no package may start a service: etcd-server would
// start an etcd that nobody wants.
func withoutServices(f func() error) error {
	_, err := os.Lstat(policyFile)
	if err == nil {
		return f()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(policyFile, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
		return fmt.Errorf("keeping packages from starting services: %w", err)
	}
	err = f()
	return errors.Join(err, os.Remove(policyFile))
}
