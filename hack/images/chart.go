// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"sigs.k8s.io/yaml"
)

const (
	chartDir        = "charts/lighterage"
	chartRepository = "lighterage/charts/lighterage"
	crdDir          = "config/crd/bases"
)

// chart is what Helm gets.
type chart struct {
	archive []byte
	image   v1.Image
}

// newChart packs the chart with version, registry and digests in it. digests are those of the images' indexes.
func newChart(r *release, digests map[string]v1.Hash, fingerprint string) (chart, error) {
	metadata, err := chartMetadata(r, digests, fingerprint)
	if err != nil {
		return chart{}, err
	}
	var files []archived
	dir := filepath.Join(r.root, chartDir)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch name {
		case "Chart.yaml":
			content, err = yaml.Marshal(metadata)
		case "values.yaml":
			content, err = chartValues(string(content), r, digests)
		case "README.md":
			// The archive has no other pages of the tree.
			link := "](https://" + modulePath + "/blob/" + r.version + "/"
			content = []byte(strings.ReplaceAll(string(content), "](../../", link))
		}
		files = append(files, archived{name: "lighterage/" + filepath.ToSlash(name), content: content})
		return err
	})
	if err != nil {
		return chart{}, fmt.Errorf("reading the chart: %w", err)
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return chart{}, fmt.Errorf("reading the licence: %w", err)
	}
	files = append(files, archived{name: "lighterage/LICENSE", content: license})
	packed, err := archive(r.epoch, files)
	if err != nil {
		return chart{}, fmt.Errorf("packing the chart: %w", err)
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return chart{}, fmt.Errorf("encoding the chart's metadata: %w", err)
	}
	img, err := newArtifact(config, helmConfig, static.NewLayer(packed, helmChart), map[string]string{
		"org.opencontainers.image.title":       "lighterage",
		"org.opencontainers.image.description": fmt.Sprint(metadata["description"]),
		"org.opencontainers.image.version":     r.number(),
		"org.opencontainers.image.source":      "https://" + modulePath,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.created(),
	})
	if err != nil {
		return chart{}, fmt.Errorf("making the chart's artifact: %w", err)
	}
	return chart{packed, img}, nil
}

// chartMetadata is Chart.yaml with the version and what Artifact Hub shows.
func chartMetadata(r *release, digests map[string]v1.Hash, fingerprint string) (map[string]any, error) {
	text, err := os.ReadFile(filepath.Join(r.root, chartDir, "Chart.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	var metadata map[string]any
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return nil, fmt.Errorf("parsing Chart.yaml: %w", err)
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reading %s/Chart.yaml: it has no annotations", chartDir)
	}
	metadata["version"], metadata["appVersion"] = r.number(), r.version

	type hubImage struct {
		Name      string   `json:"name"`
		Image     string   `json:"image"`
		Platforms []string `json:"platforms"`
	}
	var images []hubImage
	for _, c := range r.components {
		name := "lighterage/" + c.name
		if r.registry != "" {
			name = r.registry + "/" + name
		}
		images = append(images, hubImage{c.name, name + "@" + digests[c.name].String(), platformNames(r.platforms)})
	}
	_, crds, err := readCRDs(r.root)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		"images": images, "crds": crds, "changes": r.changes,
		"signKey": map[string]string{"fingerprint": fingerprint, "url": r.downloads + "/" + publicKeyFile},
	} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encoding the annotation %s: %w", name, err)
		}
		annotations["artifacthub.io/"+name] = string(text)
	}
	if strings.Contains(r.version, "-") {
		annotations["artifacthub.io/prerelease"] = "true"
	}
	if slices.ContainsFunc(r.changes, func(c change) bool { return c.Kind == "security" }) {
		annotations["artifacthub.io/containsSecurityUpdates"] = "true"
	}
	return metadata, nil
}

// chartValues puts registry, digests and architectures into values.yaml, whose comments stay.
func chartValues(text string, r *release, digests map[string]v1.Hash) ([]byte, error) {
	var architectures []string
	for _, p := range r.platforms {
		architectures = append(architectures, p.Architecture)
	}
	replacements := [][2]string{
		{"  architectures: [amd64, arm64, s390x]\n", "  architectures: [" + strings.Join(architectures, ", ") + "]\n"},
	}
	if r.registry != "" {
		replacements = append(replacements, [2]string{"  registry: \"\"\n", "  registry: " + r.registry + "\n"})
	}
	for _, c := range r.components {
		line := "    " + c.name + ": "
		replacements = append(replacements, [2]string{line + "\"\"\n", line + digests[c.name].String() + "\n"})
	}
	for _, p := range replacements {
		if n := strings.Count(text, p[0]); n != 1 {
			return nil, fmt.Errorf("values.yaml has the line %q %d times, not once", strings.TrimSpace(p[0]), n)
		}
		text = strings.Replace(text, p[0], p[1], 1)
	}
	return []byte(text), nil
}

// hubCRD describes a kind to Artifact Hub.
type hubCRD struct {
	Kind        string `json:"kind"`
	Version     string `json:"version"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
}

// readCRDs returns all definitions as one document, and what they define.
func readCRDs(root string) ([]byte, []hubCRD, error) {
	names, err := filepath.Glob(filepath.Join(root, crdDir, "*.yaml"))
	if err != nil || len(names) == 0 {
		return nil, nil, fmt.Errorf("finding the definitions in %s: there are none; run make generate", crdDir)
	}
	var all []byte
	var crds []hubCRD
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, fmt.Errorf("reading a definition: %w", err)
		}
		var crd struct {
			Metadata struct{ Name string }
			Spec     struct {
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct {
						OpenAPIV3Schema struct{ Description string } `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, nil, fmt.Errorf("parsing %s: %w", filepath.Base(name), err)
		}
		for _, v := range crd.Spec.Versions {
			description := strings.Join(strings.Fields(v.Schema.OpenAPIV3Schema.Description), " ")
			sentence, _, _ := strings.Cut(description, ". ")
			crds = append(crds, hubCRD{
				Kind: crd.Spec.Names.Kind, Version: v.Name, Name: crd.Metadata.Name, DisplayName: crd.Spec.Names.Kind,
				Description: cmp.Or(strings.TrimSuffix(sentence, "."), crd.Spec.Names.Kind),
			})
		}
		if !strings.HasPrefix(string(text), "---\n") {
			all = append(all, "---\n"...)
		}
		all = append(all, text...)
	}
	return all, crds, nil
}

// change is one line of the changelog, as Artifact Hub takes it.
type change struct {
	Kind        string `json:"kind"`
	Description string `json:"description"`
}

// readChanges returns the changelog's section of a version. A pre-release that has none takes what is not released yet.
func readChanges(root, number string) ([]change, error) {
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, fmt.Errorf("reading the changelog: %w", err)
	}
	changes := parseChanges(string(text), number)
	if len(changes) == 0 && strings.Contains(number, "-") {
		changes = parseChanges(string(text), "Unreleased")
	}
	if len(changes) == 0 {
		return nil, fmt.Errorf(
			"CHANGELOG.md has no section [%s] with entries: rename [Unreleased] to [%s] - YYYY-MM-DD and commit", number, number,
		)
	}
	return changes, nil
}

func parseChanges(text, section string) []change {
	var changes []change
	kind, inside, open := "", false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "## "):
			inside = strings.HasPrefix(line, "## ["+section+"]")
		case !inside:
		case strings.HasPrefix(line, "### "):
			kind, open = strings.ToLower(strings.TrimPrefix(line, "### ")), false
		case strings.HasPrefix(line, "- ") && kind != "":
			changes, open = append(changes, change{kind, strings.TrimPrefix(line, "- ")}), true
		case strings.HasPrefix(line, "  ") && open:
			changes[len(changes)-1].Description += " " + strings.TrimSpace(line)
		default:
			open = false
		}
	}
	return changes
}
