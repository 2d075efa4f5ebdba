// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs etcd, an API server, and the operator's manager and gateway against it, each as a process
// of its own of which CPU time, memory, metrics and requests can be read.
package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/test/render"
)

// directoryVariable names, inside of the sandbox, the directory with what was built outside.
const directoryVariable = "LIGHTERAGE_SCALE_DIRECTORY"

const (
	chartFile    = "chart.json"
	assetsFile   = "assets"
	managerName  = "manager"
	gatewayName  = "gateway"
	memoryFolder = "/dev/shm"
	// serverAddress is what the API server says that it is at. Loopback it may not say.
	serverAddress = "192.0.2.1"
)

// Inside returns the directory of the sandbox that this process runs in; ok is false outside of one.
func Inside() (directory string, ok bool) {
	directory = os.Getenv(directoryVariable)
	return directory, directory != ""
}

// RunInside builds manager and gateway, renders the chart, and runs this program once more, with the same arguments, in
// namespaces of its own for processes and network: there every address of 127.0.0.0/8 is free, so that agents can have
// addresses of their own, and nothing is left running. It takes root, or user namespaces. It returns the exit code.
func RunInside(ctx context.Context) (code int, err error) {
	parent := memoryFolder // what etcd writes must not wait for a disk that others use
	if _, err := os.Stat(parent); err != nil {
		parent = os.TempDir()
	}
	work, err := os.MkdirTemp(parent, "lighterage-scale-")
	if err != nil {
		return 0, fmt.Errorf("make a directory for the sandbox: %w", err)
	}
	defer os.RemoveAll(work)
	if err := build(ctx, work); err != nil {
		return 0, err
	}
	// A log of what a test looks at has one writer.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]),
		func(arg string) bool { return strings.HasPrefix(arg, "-test.testlogfile=") })
	inside := exec.CommandContext(ctx, "/proc/self/exe", args...)
	inside.Env = append(os.Environ(), directoryVariable+"="+work, "TMPDIR="+work)
	inside.Stdin, inside.Stdout, inside.Stderr = os.Stdin, os.Stdout, os.Stderr
	inside.Cancel = func() error { return inside.Process.Signal(syscall.SIGTERM) }
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	if uid := os.Geteuid(); uid != 0 {
		inside.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		inside.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		inside.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	var failed *exec.ExitError
	if err := inside.Run(); errors.As(err, &failed) {
		return max(failed.ExitCode(), 1), nil
	} else if err != nil {
		return 0, fmt.Errorf("start in namespaces of their own, which needs root or user namespaces: %w", err)
	}
	return 0, nil
}

// build makes all that takes a network, or other programs.
func build(ctx context.Context, work string) error {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		out, err := render.Run("go", "run", "-C", "hack/cluster", ".", "assets") //nolint:contextcheck // it ends by itself
		if err != nil {
			return fmt.Errorf("build etcd and kube-apiserver: %w", err)
		}
		assets = strings.TrimSpace(out)
	}
	compile := exec.CommandContext(ctx, "go", "build", "-o", work, "./controllers/cmd/manager",
		"./controllers/cmd/gateway")
	compile.Dir, compile.Env = render.Root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath")
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("build manager and gateway: %w: %s", err, out)
	}
	//nolint:contextcheck // it ends by itself
	objects, err := render.Chart("image.registry=registry.example", "crds.install=false")
	if err != nil {
		return fmt.Errorf("render the chart: %w", err)
	}
	chart, err := json.Marshal(objects)
	if err != nil {
		return fmt.Errorf("encode the chart's objects: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(work, chartFile), chart, 0o600),
		os.WriteFile(filepath.Join(work, assetsFile), []byte(assets), 0o600),
	)
}

// Enter sets up the namespaces. It is called once, inside.
func Enter() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket to set up loopback: %w", err)
	}
	defer unix.Close(socket)
	up := func(name string, set func(*unix.Ifreq) error) error {
		device, err := unix.NewIfreq(name)
		if err == nil && set != nil {
			err = set(device)
		}
		if err == nil {
			device.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
			err = unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, device)
		}
		if err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
		return nil
	}
	return errors.Join(up("lo", nil), up("lo:1", func(device *unix.Ifreq) error {
		address := netip.MustParseAddr(serverAddress).As4()
		if err := device.SetInet4Addr(address[:]); err != nil {
			return err
		}
		return unix.IoctlIfreq(socket, unix.SIOCSIFADDR, device)
	}))
}
