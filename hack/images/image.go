// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"fmt"
	"maps"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the numeric user and group that the images run as.
const user = 65532

const passwd = "nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"

// platformImage is the image of one platform with its bill of materials.
type platformImage struct {
	platform v1.Platform
	image    v1.Image
	sbom     []byte
}

// newImage puts bin as /NAME into an image of its own. Times are fixed, so that the same binary gives the same digest.
func newImage(c component, version string, platform v1.Platform, bin binary) (v1.Image, error) {
	layer, err := newLayer(c.name, bin.path)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Author: "lighterage", CreatedBy: "COPY " + c.name + " /" + c.name},
	})
	if err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture, cfg.Variant = platform.OS, platform.Architecture, platform.Variant
	cfg.Config.User = fmt.Sprintf("%d:%d", user, user)
	cfg.Config.Entrypoint = []string{"/" + c.name}
	cfg.Config.WorkingDir = "/"
	cfg.Config.Labels = annotations(c, version)
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return mutate.Annotations(img, annotations(c, version)).(v1.Image), nil
}

// newLayer is the one layer of an image: the binary and what names its user.
func newLayer(name, path string) (v1.Layer, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the binary: %w", err)
	}
	// The archive lies beside the binary: a release has more of them than should be in memory.
	file, err := os.Create(path + ".tar")
	if err != nil {
		return nil, fmt.Errorf("creating the archive: %w", err)
	}
	defer file.Close()
	w := tar.NewWriter(file)
	entries := []struct {
		header  tar.Header
		content []byte
	}{
		{tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte(passwd)},
		{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, content},
	}
	for _, e := range entries {
		e.header.Size = int64(len(e.content))
		e.header.ModTime = time.Unix(0, 0)
		e.header.Format = tar.FormatPAX
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, fmt.Errorf("writing %s: %w", e.header.Name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("writing %s: %w", e.header.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("closing the archive: %w", err)
	}
	return tarball.LayerFromFile(file.Name(), tarball.WithMediaType(types.OCILayer))
}

// annotations are the OCI annotations of an image and its index, and the image's labels.
func annotations(c component, version string) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       c.title(),
		"org.opencontainers.image.description": c.description,
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://" + modulePath,
	}
	maps.Copy(all, c.annotations)
	return all
}

// newIndex lists the images of every platform.
func newIndex(c component, version string, images []platformImage) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range images {
		index = mutate.AppendManifests(
			index, mutate.IndexAddendum{Add: p.image, Descriptor: v1.Descriptor{Platform: &p.platform}},
		)
	}
	return mutate.Annotations(index, annotations(c, version)).(v1.ImageIndex)
}
