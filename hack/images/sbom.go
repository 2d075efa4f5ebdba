// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"strings"
)

// The parts of CycloneDX 1.6 that are used. There is no serial number and no time: the same binary has the same
// document.
type (
	bom struct {
		Format     string         `json:"bomFormat"`
		Spec       string         `json:"specVersion"`
		Version    int            `json:"version"`
		Metadata   bomMetadata    `json:"metadata"`
		Components []bomComponent `json:"components"`
	}
	bomMetadata struct {
		Component bomComponent `json:"component"`
	}
	bomComponent struct {
		Type       string        `json:"type"`
		Name       string        `json:"name"`
		Version    string        `json:"version"`
		PURL       string        `json:"purl,omitempty"`
		Properties []bomProperty `json:"properties,omitempty"`
	}
	bomProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// libraryPURLs locate the libraries written in C; their versions follow.
var libraryPURLs = map[string]string{
	"zlib-ng": "pkg:github/zlib-ng/zlib-ng@",
	"isa-l":   "pkg:github/intel/isa-l@v",
	"zstd":    "pkg:github/facebook/zstd@v",
}

// newSBOM lists the modules, the toolchain and the C libraries that bin is made of, from what the Go linker recorded in
// it.
func newSBOM(c component, version string, bin binary) ([]byte, error) {
	info, err := buildinfo.ReadFile(bin.path)
	if err != nil {
		return nil, fmt.Errorf("reading what the linker recorded: %w", err)
	}
	doc := bom{Format: "CycloneDX", Spec: "1.6", Version: 1}
	doc.Metadata.Component = bomComponent{Type: "application", Name: c.title(), Version: version,
		PURL: "pkg:golang/" + modulePath + "@" + version}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-tags":
			doc.Metadata.Component.Properties = append(
				doc.Metadata.Component.Properties, bomProperty{Name: "lighterage:go:" + s.Key, Value: s.Value},
			)
		}
	}
	toolchain := strings.TrimPrefix(info.GoVersion, "go")
	doc.Components = append(
		doc.Components, bomComponent{Type: "library", Name: "std", Version: toolchain, PURL: "pkg:golang/std@" + toolchain},
	)
	for _, m := range info.Deps {
		m = cmp.Or(m.Replace, m)
		doc.Components = append(
			doc.Components,
			bomComponent{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version},
		)
	}
	for _, library := range bin.libraries {
		name, version, _ := strings.Cut(library, "@")
		purl, ok := libraryPURLs[name]
		if !ok {
			return nil, fmt.Errorf(
				"the library %s is linked in and nobody wrote down where it comes from; add it to libraryPURLs", library,
			)
		}
		// After a plus stands the commit, when the source is not exactly the release.
		release, _, _ := strings.Cut(version, "+")
		doc.Components = append(
			doc.Components, bomComponent{Type: "library", Name: name, Version: version, PURL: purl + release},
		)
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the document: %w", err)
	}
	return out, nil
}
