// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package build makes the programs of the clusters from pinned modules, once, and
// finds or installs the distribution's programs they need.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Program is one program built from a module.
type Program struct {
	Name string
	// Package is in a module that the folder pins, or "." for the folder itself, which then has the version of Module.Path.
	Package string
	// Duration is about how long the first build takes on two cores, after those
	// listed before it.
	Duration string
}

// Module is a folder of hack/cluster that pins one project's version.
type Module struct {
	// Name is the folder.
	Name string
	// Path is the pinned module.
	Path string
	// VersionVars are the variables that carry the version into the programs.
	VersionVars []string
	Programs    []Program
}

// Modules returns what the clusters are built from.
func Modules() []Module {
	return []Module{
		{
			Name:        "kubernetes",
			Path:        "k8s.io/kubernetes",
			VersionVars: []string{"k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"},
			Programs: []Program{
				{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "4 minutes"},
				{"kubectl", "k8s.io/kubernetes/cmd/kubectl", "half a minute"},
				{"kubelet", "k8s.io/kubernetes/cmd/kubelet", "a minute"},
				{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "half a minute"},
				{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", "10 seconds"},
				{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", "10 seconds"},
			},
		},
		{
			Name:        "containerd",
			Path:        "github.com/containerd/containerd/v2",
			VersionVars: []string{"github.com/containerd/containerd/v2/version.Version"},
			Programs: []Program{
				{"containerd", "github.com/containerd/containerd/v2/cmd/containerd", "a minute"},
				{"containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", "half a minute"},
				{"ctr", "github.com/containerd/containerd/v2/cmd/ctr", "half a minute"},
			},
		},
		{
			Name:     "coredns",
			Path:     "github.com/coredns/coredns",
			Programs: []Program{{"coredns", ".", "10 seconds"}},
		},
	}
}

// SnapshotModule returns what volumes that can be snapshotted are served with.
func SnapshotModule() Module {
	return Module{
		Name:        "sidecars",
		Path:        "github.com/kubernetes-csi/external-snapshotter/v8",
		VersionVars: []string{"main.version"},
		Programs: []Program{
			{"snapshot-controller", "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller", "a minute"},
			{"csi-snapshotter", "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter", "20 seconds"},
			{"csi-provisioner", "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner", "20 seconds"},
			{"csi-attacher", "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher", "20 seconds"},
			{"csi-resizer", "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer", "20 seconds"},
		},
	}
}

// snapshotClient is the module that has the CRDs of snapshots.
const snapshotClient = "github.com/kubernetes-csi/external-snapshotter/client/v8"

// SnapshotCRDs are the CRDs of snapshots and of groups of them, of the version that the snapshot controller has, which
// waits half a minute for those that are missing.
func (b Builder) SnapshotCRDs(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", snapshotClient)
	cmd.Dir = filepath.Join(b.Source, "sidecars")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading the CRDs of snapshots: %w\n%s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("downloading the CRDs of snapshots: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "config", "crd", "*snapshot.storage.k8s.io_*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no CRDs of snapshots", module.Dir)
	}
	var crds bytes.Buffer
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("reading the CRDs of snapshots: %w", err)
		}
		crds.WriteString("---\n")
		crds.Write(data)
		crds.WriteString("\n")
	}
	return crds.Bytes(), nil
}

// Builder builds programs into a cache.
type Builder struct {
	// Source is the folder hack/cluster.
	Source string
	// Cache is the folder that holds NAME-VERSION-HASH/bin.
	Cache string
	// Out is where builds are announced.
	Out io.Writer
}

// DefaultCache is the cache folder of this user.
func DefaultCache() (string, error) {
	if dir := os.Getenv("LIGHTERAGE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w: set LIGHTERAGE_CACHE", err)
	}
	return filepath.Join(dir, "lighterage"), nil
}

// Lock keeps a second command of the clusters out until the file is closed. It
// waits for one that runs already, and says so.
func (b Builder) Lock() (io.Closer, error) {
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return nil, fmt.Errorf("making cache folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(b.Cache, "cluster.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		fmt.Fprintln(b.Out, "Waiting for another command that works on the clusters")
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// Version reads the pinned version of a module from the content of a go.mod file.
func Version(goMod []byte, module string) (string, error) {
	m := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(module) + `\s+(v\S+)`).FindSubmatch(goMod)
	if m == nil {
		return "", fmt.Errorf("go.mod does not require %s", module)
	}
	return string(m[1]), nil
}

// packageVersion reads the pinned version of the module that has a package.
func packageVersion(goMod []byte, pkg string) (string, error) {
	for module := pkg; module != "."; module = path.Dir(module) {
		if version, err := Version(goMod, module); err == nil {
			return version, nil
		}
	}
	return "", fmt.Errorf("go.mod requires no module with %s", pkg)
}

// Dir is the module's folder in the cache, and its version. The name changes with
// everything that the result depends on.
func (b Builder) Dir(m Module) (dir, version string, err error) {
	source := filepath.Join(b.Source, m.Name)
	goMod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return "", "", fmt.Errorf("reading the pinned version of %s: %w", m.Name, err)
	}
	goSum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return "", "", fmt.Errorf("reading the pinned version of %s: %w", m.Name, err)
	}
	version, err = Version(goMod, m.Path)
	if err != nil {
		return "", "", err
	}
	h := sha256.New()
	fmt.Fprintf(
		h, "%x %x %s %s %v", sha256.Sum256(goMod), sha256.Sum256(goSum), runtime.Version(), runtime.GOARCH, m.VersionVars,
	)
	// A program may be of the folder itself.
	sources, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", "", fmt.Errorf("finding the source of %s: %w", m.Name, err)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", "", fmt.Errorf("reading the source of %s: %w", m.Name, err)
		}
		fmt.Fprintf(h, " %x", sha256.Sum256(text))
	}
	return filepath.Join(
		b.Cache, fmt.Sprintf("%s-%s-%s", m.Name, version, hex.EncodeToString(h.Sum(nil)[:6])),
	), version, nil
}

// Built reports whether all programs of a module are in the cache.
func (b Builder) Built(m Module) (bool, error) {
	dir, _, err := b.Dir(m)
	if err != nil {
		return false, err
	}
	for _, p := range m.Programs {
		if _, err := os.Stat(filepath.Join(dir, "bin", p.Name)); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Ensure builds what is missing of the module's programs (all, or those named)
// and returns the folder that holds them.
func (b Builder) Ensure(ctx context.Context, m Module, names ...string) (string, error) {
	dir, pinned, err := b.Dir(m)
	if err != nil {
		return "", err
	}
	goMod, err := os.ReadFile(filepath.Join(b.Source, m.Name, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading the pinned versions of %s: %w", m.Name, err)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("making cache folder: %w", err)
	}
	for _, p := range m.Programs {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		if _, err := os.Stat(filepath.Join(bin, p.Name)); !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				return "", err
			}
			continue
		}
		version := pinned
		if p.Package != "." {
			if version, err = packageVersion(goMod, p.Package); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(b.Out, "Building %s %s (about %s, once)\n", p.Name, version, p.Duration)
		if err := b.build(ctx, m, p, version, bin); err != nil {
			return "", err
		}
	}
	return bin, nil
}

// build makes one program beside its place and renames it when it is whole.
func (b Builder) build(ctx context.Context, m Module, p Program, version, bin string) error {
	ldflags := "-s -w"
	for _, v := range m.VersionVars {
		ldflags += " -X " + v + "=" + version
	}
	tmp := filepath.Join(bin, "."+p.Name+".new")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags, "-o", tmp, p.Package)
	cmd.Dir = filepath.Join(b.Source, m.Name)
	// Static, so that CoreDNS runs in an empty image; GOFLAGS and GOWORK of the
	// caller could redirect the build to other versions.
	cmd.Env = append(
		os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off", "GOOS=linux",
		"GOARCH="+runtime.GOARCH,
	)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.Name, err, out.String())
	}
	if err := os.Rename(tmp, filepath.Join(bin, p.Name)); err != nil {
		return fmt.Errorf("building %s: %w", p.Name, err)
	}
	return nil
}

// ObjectStoreServer builds versitygw unless it is in the cache, and returns the program. hack/objectstores.sh, which
// has it for tests as well, pins its version.
func (b Builder) ObjectStoreServer(ctx context.Context) (string, error) {
	script := filepath.Join(filepath.Dir(b.Source), "objectstores.sh")
	cmd := exec.CommandContext(ctx, "bash", "-c", `env=$("$0" versitygw); eval "$env"; printf %s "$LIGHTERAGE_VERSITYGW"`, script)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(b.Out, &problems)
	if err := cmd.Run(); err != nil || out.Len() == 0 {
		return "", fmt.Errorf("building versitygw: %w\n%s", err, problems.String())
	}
	return out.String(), nil
}

// Pause builds the program that holds the pods' namespaces, static, as file.
func (b Builder) Pause(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "./pause")
	cmd.Dir = b.Source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the pause program: %w\n%s", err, out)
	}
	return nil
}
