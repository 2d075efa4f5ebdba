// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lighterage/lighterage/hack/cluster/internal/build"
	"github.com/lighterage/lighterage/hack/cluster/internal/emulation"
	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
)

// emulationMark is where the emulation notes what it changed on the machine.
func emulationMark() string { return filepath.Join(layout.StateDir, "emulation") }

// s390x has the last node of cluster east run an image that was built for s390x, where its pods ask for another: the
// image's platform would be that of the kubelet. A kubelet of s390x does not run by emulation, so the node stays amd64
// to Kubernetes. `down` undoes it.
func (w *workspace) s390x(ctx context.Context, image, as string) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root, as the clusters do: run it with sudo")
	}
	if _, err := os.Stat(stateFile()); err != nil {
		return errors.New("there are no local clusters: run make clusters first")
	}
	qemu, err := build.Find(emulation.QEMU)
	if err != nil {
		return fmt.Errorf("finding QEMU: %w; Debian has it in the package qemu-user-static", err)
	}
	modules := build.Modules()
	bin := ""
	for _, module := range modules {
		if module.Name != "containerd" {
			continue
		}
		if bin, err = w.builder.Ensure(ctx, module); err != nil {
			return err
		}
	}
	if err := emulation.Register(qemu, emulationMark()); err != nil {
		return err
	}
	east := layout.Clusters()[0]
	node := east.Nodes[len(east.Nodes)-1]
	for _, args := range [][]string{
		{"images", "pull", "--plain-http", "--platform", "linux/s390x", image},
		{"images", "tag", "--force", image, as},
	} {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "ctr"), append([]string{
			"--address", node.ContainerdSocket(), "--namespace", "k8s.io",
		}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("giving %s the image %s: %w\n%s", node.Name, image, err, out)
		}
	}
	fmt.Fprintf(os.Stderr, "Pods on %s that run %s get %s, for s390x\n", node.Name, as, image)
	fmt.Println(node.Name)
	return nil
}
