// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network makes and removes the bridge, the network namespaces of the
// nodes, and the routes between them.
package network

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
)

// forwardRule lets nodes talk to each other on hosts that pass bridged packets
// through their own firewall (net.bridge.bridge-nf-call-iptables).
var forwardRule = []string{"FORWARD", "-i", layout.Bridge, "-o", layout.Bridge,
	"-m", "comment", "--comment", "lighterage clusters", "-j", "ACCEPT"}

func run(name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// inNS runs a program in a network namespace.
func inNS(ns, name string, args ...string) error {
	return run("nsenter", append([]string{"--net=/run/netns/" + ns, "--", name}, args...)...)
}

// CheckFree fails when another network of this host overlaps ours.
func CheckFree() error {
	ifaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing network devices: %w", err)
	}
	for _, i := range ifaces {
		if i.Name == layout.Bridge {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Overlaps(layout.Network) {
				return fmt.Errorf(
					"device %s has the address %s, which overlaps %s that the local clusters use: take the device down, or change "+
						"hack/cluster/internal/layout",
					i.Name, p, layout.Network,
				)
			}
		}
	}
	return nil
}

func deviceExists(name string) bool {
	_, err := os.Stat("/sys/class/net/" + name)
	return err == nil
}

// NodeExists is whether the node's namespace and its device are there.
func NodeExists(n layout.Node) bool {
	_, err := os.Stat("/run/netns/" + n.NetNS())
	return err == nil && deviceExists(n.NetNS())
}

// EnsureBridge makes the bridge and gives the host its address on it.
func EnsureBridge() error {
	if !deviceExists(layout.Bridge) {
		if err := run("ip", "link", "add", layout.Bridge, "type", "bridge"); err != nil {
			return err
		}
	}
	prefix := netip.PrefixFrom(layout.Host, layout.NodeNetwork.Bits()).String()
	if err := run("ip", "addr", "replace", prefix, "dev", layout.Bridge); err != nil {
		return err
	}
	if err := run("ip", "link", "set", layout.Bridge, "up"); err != nil {
		return err
	}
	const flagFile = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	flag, err := os.ReadFile(flagFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", flagFile, err)
	}
	if strings.TrimSpace(string(flag)) != "1" {
		return nil
	}
	if run("iptables", append([]string{"-w", "-C"}, forwardRule...)...) == nil {
		return nil
	}
	return run("iptables", append([]string{"-w", "-I"}, forwardRule...)...)
}

// EnsureNode makes the node's namespace, joins it to the bridge, and lays its
// routes. Pods reach other nodes of their own cluster by route; whatever leaves the
// cluster carries the address of the node, as it does between real clusters.
func EnsureNode(c layout.Cluster, n layout.Node) error {
	if NodeExists(n) {
		return nil
	}
	if err := RemoveNode(n); err != nil {
		return err
	}
	ns := n.NetNS()
	if err := run("ip", "netns", "add", ns); err != nil {
		return err
	}
	host := [][]string{
		{"ip", "link", "add", ns, "type", "veth", "peer", "name", "eth0", "netns", ns},
		{"ip", "link", "set", ns, "master", layout.Bridge, "up"},
		{"ip", "route", "replace", n.Pods.String(), "via", n.Address.String(), "dev", layout.Bridge},
	}
	inside := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "addr", "add", netip.PrefixFrom(n.Address, layout.NodeNetwork.Bits()).String(), "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"sysctl", "-q", "-w", "net.ipv4.ip_forward=1"},
		// A process of the node that dials a Service needs a route before
		// kube-proxy's rules change the address.
		{"ip", "route", "replace", c.Services.String(), "via", layout.Host.String()},
		// Nothing outside is reachable, and says so at once.
		{"ip", "route", "replace", "unreachable", "default"},
		{
			"iptables", "-w", "-t", "nat", "-A", "POSTROUTING", "-s", c.Pods.String(), "!", "-d", c.Pods.String(), "-j",
			"MASQUERADE",
		},
	}
	for _, other := range c.Nodes {
		if other.Name != n.Name {
			inside = append(inside, []string{"ip", "route", "replace", other.Pods.String(), "via", other.Address.String()})
		}
	}
	for _, cmd := range host {
		if err := run(cmd[0], cmd[1:]...); err != nil {
			return err
		}
	}
	for _, cmd := range inside {
		if err := inNS(ns, cmd[0], cmd[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// RemoveNode removes the node's namespace and devices, if they are there.
func RemoveNode(n layout.Node) error {
	if deviceExists(n.NetNS()) {
		if err := run("ip", "link", "del", n.NetNS()); err != nil {
			return err
		}
	}
	if _, err := os.Stat("/run/netns/" + n.NetNS()); err == nil {
		return run("ip", "netns", "del", n.NetNS())
	}
	return nil
}

// Remove removes everything the package made.
func Remove() error {
	var errs []error
	for _, c := range layout.Clusters() {
		for _, n := range c.Nodes {
			errs = append(errs, RemoveNode(n))
		}
	}
	if deviceExists(layout.Bridge) {
		errs = append(errs, run("ip", "link", "del", layout.Bridge))
	}
	if _, err := exec.LookPath("iptables"); err == nil {
		for run("iptables", append([]string{"-w", "-C"}, forwardRule...)...) == nil {
			if err := run("iptables", append([]string{"-w", "-D"}, forwardRule...)...); err != nil {
				errs = append(errs, err)
				break
			}
		}
	}
	errs = append(errs, removeEmptyNetNSDir())
	return errors.Join(errs...)
}

// removeEmptyNetNSDir undoes what the first `ip netns add` does to the machine:
// it mounts /run/netns onto itself. Later namespaces would do it again.
func removeEmptyNetNSDir() error {
	const dir = "/run/netns"
	left, err := filepath.Glob(dir + "/*")
	if err != nil || len(left) > 0 {
		return err
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing empty %s: %w", dir, err)
	}
	return nil
}
