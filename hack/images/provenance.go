// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"strings"
)

// Types of the statement, and the page that says what the fields of this build type mean.
const (
	statementType   = "https://in-toto.io/Statement/v1"
	predicateType   = "https://slsa.dev/provenance/v1"
	provenanceType  = "https://" + modulePath + "/blob/main/docs/development/release.md#provenance"
	provenanceMaker = "https://" + modulePath + "/blob/main/docs/development/release.md#builder"
)

// The parts of in-toto Statement v1 and SLSA Provenance v1 that are used. There are no times but that of the commit:
// who builds the same commit again gets the same statement.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []resource `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     provenance `json:"predicate"`
	}
	provenance struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		InternalParameters   map[string]any `json:"internalParameters"`
		ResolvedDependencies []resource     `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder builder `json:"builder"`
	}
	builder struct {
		ID string `json:"id"`
	}
	resource struct {
		Name        string            `json:"name,omitempty"`
		URI         string            `json:"uri,omitempty"`
		Digest      map[string]string `json:"digest,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
)

// newProvenance says what r was made of and how; subjects are what it made.
func newProvenance(r *release, subjects []resource) statement {
	dependencies := []resource{
		{
			URI:         "git+https://" + modulePath + "@" + r.version,
			Digest:      map[string]string{"gitCommit": r.commit},
			Annotations: r.dirty(),
		},
		{Name: "go", URI: "pkg:generic/go@" + strings.TrimPrefix(r.toolchain, "go")},
	}
	for _, library := range r.libraries {
		name, version, _ := strings.Cut(library, "@")
		number, _, _ := strings.Cut(version, "+")
		dependencies = append(dependencies, resource{
			Name: name, URI: libraryPURLs[name] + number, Annotations: map[string]string{"version": version},
		})
	}
	for _, compiler := range r.compilers {
		dependencies = append(dependencies, resource{Name: "c compiler", Annotations: map[string]string{"version": compiler}})
	}
	slices.SortFunc(subjects, func(a, b resource) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Digest["sha256"], b.Digest["sha256"]))
	})
	return statement{
		Type: statementType, Subject: subjects, PredicateType: predicateType,
		Predicate: provenance{
			BuildDefinition: buildDefinition{
				BuildType: provenanceType,
				ExternalParameters: map[string]any{
					"version": r.version, "registry": r.registry, "downloads": r.downloads,
					"platforms": platformNames(r.platforms), "pluginPlatforms": platformNames(r.pluginPlatforms),
				},
				InternalParameters:   map[string]any{"SOURCE_DATE_EPOCH": r.epoch.Unix()},
				ResolvedDependencies: dependencies,
			},
			RunDetails: runDetails{Builder: builder{ID: provenanceMaker}},
		},
	}
}

// dirty annotates a tree that differs from its commit.
func (r *release) dirty() map[string]string {
	if r.clean {
		return nil
	}
	return map[string]string{"dirty": "true"}
}
