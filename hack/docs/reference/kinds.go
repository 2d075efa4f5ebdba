// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// readKinds reads the CRDs of a directory, sorted by kind.
func readKinds(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there are no CRDs in %s; run make generate-api: %w", dir, err)
	}
	var kinds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a CRD: %w", err)
		}
		kind := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, kind); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(kind.Spec.Versions) != 1 {
			return nil, fmt.Errorf("%s has %d versions; this program renders one", file, len(kind.Spec.Versions))
		}
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return strings.Compare(a.Spec.Names.Kind, b.Spec.Names.Kind)
	})
	return kinds, nil
}

// kindPage is the page of one kind.
func kindPage(root string, kind *apiextensionsv1.CustomResourceDefinition, r renderer) (string, error) {
	names, version := kind.Spec.Names, kind.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", names.Kind, strings.ReplaceAll(prose(schema.Description), "\n", "\n\n"))
	scope := "namespaced"
	if kind.Spec.Scope == apiextensionsv1.ClusterScoped {
		scope = "cluster-scoped"
	}
	fmt.Fprintf(&b, "API version `%s/%s`, %s", kind.Spec.Group, version.Name, scope)
	if len(names.ShortNames) > 0 {
		fmt.Fprintf(&b, ", short name `%s`", strings.Join(names.ShortNames, "`, `"))
	}
	b.WriteString(".\n\n")
	if err := example(&b, root, names.Kind); err != nil {
		return "", err
	}
	columns(&b, names.Plural, version.AdditionalPrinterColumns)

	fields, err := r.api.fields(names.Kind)
	if err != nil {
		return "", err
	}
	for _, f := range fields {
		property, ok := schema.Properties[f.name]
		if !ok {
			return "", fmt.Errorf("the CRD has no %s; run make generate-api", f.name)
		}
		if err := r.top(&b, f, property); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// example puts the sample of the kind there, and names further ones.
func example(b *strings.Builder, root, kind string) error {
	const samples = "config/samples"
	files, err := filepath.Glob(filepath.Join(root, samples, strings.ToLower(kind)+"*.yaml"))
	if err != nil {
		return fmt.Errorf("looking for samples: %w", err)
	}
	var others []string
	for _, file := range files {
		base := filepath.Base(file)
		if base != strings.ToLower(kind)+".yaml" {
			if strings.HasPrefix(base, strings.ToLower(kind)+"-") {
				others = append(others, fmt.Sprintf("[%s](../../%s/%s)", base, samples, base))
			}
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a sample: %w", err)
		}
		fmt.Fprintf(b, "## Example\n\n```yaml\n%s\n```\n\n", strings.TrimSpace(string(content)))
	}
	if len(others) > 0 {
		fmt.Fprintf(b, "Further samples: %s.\n\n", strings.Join(others, ", "))
	}
	return nil
}

// columns are those of kubectl get.
func columns(b *strings.Builder, plural string, all []apiextensionsv1.CustomResourceColumnDefinition) {
	if len(all) == 0 {
		return
	}
	var rows [][]string
	for _, column := range all {
		shown := "always"
		if column.Priority > 0 {
			shown = "with `-o wide`"
		}
		rows = append(rows, []string{strings.ToUpper(column.Name), code(strings.TrimPrefix(column.JSONPath, ".")), shown})
	}
	printed := table([]string{"Column", "Field", "Printed"}, rows)
	fmt.Fprintf(b, "## Columns\n\n`kubectl get %s` prints:\n\n%s\n", plural, printed)
}
