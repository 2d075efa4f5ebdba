// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// conditionsIntroduction is what the page begins with.
//
//go:embed conditions.md.tmpl
var conditionsIntroduction string

// conditionsPage lists the constants of the API that are condition types and reasons.
func conditionsPage(kinds []*apiextensionsv1.CustomResourceDefinition, a *api) (string, error) {
	var b strings.Builder
	b.WriteString(conditionsIntroduction)
	found := 0
	for _, block := range a.blocks {
		heading, _, _ := strings.Cut(block.doc, ".")
		first := "Reason"
		switch {
		case strings.HasPrefix(block.values[0].name, "Condition"):
			first = "Condition"
		case !slices.ContainsFunc(block.values, isReason):
			continue
		}
		if heading == "" {
			return "", fmt.Errorf("the constants in %s beginning with %s have no comment; say what they are",
				block.file, block.values[0].name)
		}
		found++
		// The first sentence is the heading.
		fmt.Fprintf(&b, "## %s\n\n", strings.Join(strings.Fields(heading), " "))
		if rest := strings.TrimSpace(strings.TrimPrefix(block.doc, heading+".")); rest != "" {
			fmt.Fprintf(&b, "%s\n\n", prose(rest))
		}
		var rows [][]string
		for _, v := range block.values {
			if v.doc == "" {
				return "", fmt.Errorf("the constant %s in %s has no comment; say what it means", v.name, block.file)
			}
			of, err := linksTo(v, kinds)
			if err != nil {
				return "", err
			}
			rows = append(rows, []string{code(v.value), of, prose(v.doc)})
		}
		if rows[0][1] == "" {
			b.WriteString(table([]string{first, "Meaning"}, withoutColumn(rows, 1)) + "\n")
			continue
		}
		b.WriteString(table([]string{first, "Kinds", "Meaning"}, rows) + "\n")
	}
	if found < 5 {
		return "", errors.New("found too few blocks of reasons: the names of the constants have changed")
	}
	return b.String(), nil
}

// isReason tells by the name of a constant.
func isReason(v value) bool {
	return strings.Contains(v.name, "Reason") || strings.HasPrefix(v.name, "Compression")
}

// linksTo are links to the kinds that a comment names.
func linksTo(v value, kinds []*apiextensionsv1.CustomResourceDefinition) (string, error) {
	var links []string
	for _, name := range v.kinds {
		if name == "all kinds" {
			links = append(links, name)
			continue
		}
		isNamed := func(k *apiextensionsv1.CustomResourceDefinition) bool { return k.Spec.Names.Kind == name }
		if !slices.ContainsFunc(kinds, isNamed) {
			return "", fmt.Errorf("the comment of %s names %q, which is no kind", v.name, name)
		}
		links = append(links, fmt.Sprintf("[%s](%s)", name, pageName(name)))
	}
	return strings.Join(links, ", "), nil
}

func withoutColumn(rows [][]string, column int) [][]string {
	for i := range rows {
		rows[i] = slices.Delete(rows[i], column, column+1)
	}
	return rows
}

// indexPage links to all pages, and lists annotations, labels and the like.
func indexPage(kinds []*apiextensionsv1.CustomResourceDefinition, a *api) (string, error) {
	var b strings.Builder
	b.WriteString("# Reference\n\nEvery page here is generated from the code.\n\n## Kinds\n\n")
	var rows [][]string
	for _, kind := range kinds {
		name := kind.Spec.Names.Kind
		rows = append(rows, []string{
			fmt.Sprintf("[%s](%s)", name, pageName(name)), string(kind.Spec.Scope),
			firstSentence(prose(kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Description)),
		})
	}
	b.WriteString(table([]string{"Kind", "Scope", "Purpose"}, rows))
	b.WriteString("\n## Further pages\n\n" + table([]string{"Page", "Content"}, [][]string{
		{"[Status of compression](" + sharedPageName + ")", "fields of status that several kinds have"},
		{"[Conditions](conditions.md)", "condition types, and the reasons of conditions, of compression and of placement"},
		{"[Metrics](metrics.md)", "metrics of the manager and the gateway"},
		{"[Limits](limits.md)", "limits, intervals and time-outs"},
		{"[Command lines](cli.md)", "`kubectl lighterage`, `lighterage-cargo`, manager, gateway and agent"},
	}))
	for _, block := range a.blocks {
		if block.file != "metadata.go" {
			continue
		}
		rows = nil
		for _, v := range block.values {
			if v.doc == "" {
				return "", fmt.Errorf("the constant %s in %s has no comment; say what it means", v.name, block.file)
			}
			rows = append(rows, []string{code(v.value), metadataKind(v.name), prose(v.doc)})
		}
		b.WriteString("\n## Annotations, labels and finalizers\n\n" + table([]string{"Name", "Is", "Meaning"}, rows))
		return b.String(), nil
	}
	return "", errors.New("metadata.go of the API has no constants any more")
}

// metadataKind is what the name of a constant of metadata.go ends in.
func metadataKind(name string) string {
	for _, suffix := range []string{"Annotation", "Label", "Resource", "Finalizer"} {
		if strings.HasSuffix(name, suffix) {
			return strings.ToLower(suffix)
		}
	}
	return ""
}
