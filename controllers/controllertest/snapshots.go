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

// InstallSnapshots installs the CRDs of VolumeSnapshots, from the Go module that has them. They are not in this
// repository.
func (c *Cluster) InstallSnapshots(ctx context.Context) error {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", snapshotModule)
	var problem bytes.Buffer
	command.Stderr = &problem
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("downloading module %s: %w: %s", snapshotModule, err, problem.String())
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		return fmt.Errorf("reading where module %s is: %w", snapshotModule, err)
	}
	var paths []string
	for _, kind := range []string{"volumesnapshots", "volumesnapshotclasses", "volumesnapshotcontents"} {
		paths = append(paths, filepath.Join(module.Dir, "config", "crd", "snapshot.storage.k8s.io_"+kind+".yaml"))
	}
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{
		Paths: paths, ErrorIfPathMissing: true, MaxTime: patience,
	}); err != nil {
		return fmt.Errorf("installing the CRDs of VolumeSnapshots: %w", err)
	}
	return nil
}
