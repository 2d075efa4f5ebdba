// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// archived is a file of an archive.
type archived struct {
	name    string
	content []byte
	program bool
}

// archive is a tar archive, compressed by gzip: the same files and time give the same bytes.
func archive(at time.Time, files []archived) ([]byte, error) {
	slices.SortFunc(files, func(a, b archived) int { return cmp.Compare(a.name, b.name) })
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.content)), ModTime: at, Format: tar.FormatUSTAR,
		}
		if f.program {
			header.Mode = 0o755
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	if err := cmp.Or(w.Close(), compressed.Close()); err != nil {
		return nil, fmt.Errorf("closing the archive: %w", err)
	}
	return out.Bytes(), nil
}

// The parts of a manifest of krew that are used.
type (
	krewPlugin struct {
		APIVersion string       `json:"apiVersion"`
		Kind       string       `json:"kind"`
		Metadata   krewMetadata `json:"metadata"`
		Spec       krewSpec     `json:"spec"`
	}
	krewMetadata struct {
		Name string `json:"name"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector `json:"selector"`
		URI      string       `json:"uri"`
		SHA256   string       `json:"sha256"`
		Bin      string       `json:"bin"`
		Files    []krewFile   `json:"files"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	krewFile struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
)

const krewDescription = `Lighterage moves data between Kubernetes clusters, compressed where that is cheapest.
This plugin joins clusters, checks installations, shows progress of runs, explains why data were compressed as they
were, sums up costs, verifies receipts, and puts messages into queues and gets them.
`

// krewManifest has a platform for each archive, whose name and sum sums has.
func krewManifest(r *release, sums map[string]string) ([]byte, error) {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin",
		Metadata: krewMetadata{strings.TrimPrefix(pluginName, "kubectl-")},
		Spec: krewSpec{
			Version: r.version, Homepage: "https://" + modulePath,
			ShortDescription: "Move data between clusters, and see what it cost", Description: krewDescription,
		},
	}
	for _, p := range r.pluginPlatforms {
		name := r.archiveOf(pluginName, p)
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": p.OS, "arch": p.Architecture}},
			URI:      r.downloads + "/" + name, SHA256: sums[name], Bin: pluginName,
			Files: []krewFile{{pluginName, "."}, {"LICENSE", "."}},
		})
	}
	text, err := yaml.Marshal(plugin)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest of krew: %w", err)
	}
	return text, nil
}
