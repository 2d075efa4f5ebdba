// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// snapshotModule has the CRDs of VolumeSnapshots.
const snapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v8@v8.7.0"

// InstallSnapshots installs the CRDs of VolumeSnapshots and of groups of them, from the Go module that has them. They
// are not in this repository. Tests that run beside each other may all ask for them.
func (c *Cluster) InstallSnapshots(ctx context.Context) error {
	paths, err := ModuleFiles(
		ctx, snapshotModule, "config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml",
		"config/crd/snapshot.storage.k8s.io_volumesnapshotclasses.yaml",
		"config/crd/snapshot.storage.k8s.io_volumesnapshotcontents.yaml",
		"config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshots.yaml",
		"config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotclasses.yaml",
	)
	if err != nil {
		return err
	}
	// It looks for a CRD, and then creates it: two at once end with AlreadyExists.
	c.installing.Lock()
	defer c.installing.Unlock()
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{
		Paths: paths, ErrorIfPathMissing: true, MaxTime: patience,
	}); err != nil {
		return fmt.Errorf("installing the CRDs of VolumeSnapshots: %w", err)
	}
	return nil
}

// ModuleFiles downloads a Go module, PATH@VERSION, into the module cache, and returns where the files of it are. They
// may be absent.
func ModuleFiles(ctx context.Context, module string, files ...string) ([]string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	var problem bytes.Buffer
	command.Stderr = &problem
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading module %s: %w: %s", module, err, problem.String())
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		return nil, fmt.Errorf("reading where module %s is: %w", module, err)
	}
	paths := make([]string, len(files))
	for i, file := range files {
		paths[i] = filepath.Join(downloaded.Dir, filepath.FromSlash(file))
	}
	return paths, nil
}
