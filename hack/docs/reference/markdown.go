// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// table renders rows below a header. Cells are Markdown and may contain line feeds, which become line breaks.
func table(header []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), "\n", "<br>")
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	line(header)
	b.WriteString("|" + strings.Repeat("---|", len(header)) + "\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// code renders text as code within a table.
func code(text string) string {
	text = strings.ReplaceAll(text, "|", `\|`)
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// link is a link that has code as its text.
func link(text, target string) string { return "[" + code(text) + "](" + target + ")" }

var proseEscapes = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "`", "\\`",
)

// prose renders a comment within a table: paragraphs become lines, and nothing in it is taken for Markdown.
func prose(text string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if words := strings.Join(strings.Fields(paragraph), " "); words != "" {
			paragraphs = append(paragraphs, proseEscapes.Replace(words))
		}
	}
	return strings.Join(paragraphs, "\n")
}

// sentence begins text with a capital letter, unless it begins with a name in camel case.
func sentence(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if text == "" || strings.ToLower(first) != first || strings.ContainsAny(first, "./-") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
