// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestLinks holds every relative link of every document against the tree, and every anchor against the headings of its
// target.
func TestLinks(t *testing.T) {
	checked, anchored := 0, 0
	known := map[string][]string{}
	for _, file := range documents(t) {
		for _, link := range links(read(t, file)) {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			target, anchor, hasAnchor := strings.Cut(link, "#")
			to := file
			if target != "" {
				to = path.Join(path.Dir(file), target)
			}
			checked++
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, link)
				continue
			}
			if !hasAnchor || path.Ext(to) != ".md" {
				continue
			}
			anchored++
			if known[to] == nil {
				known[to] = anchors(read(t, to))
			}
			if !slices.Contains(known[to], anchor) {
				t.Errorf("%s links to %s, and %s has no such heading; it has %v", file, link, to, known[to])
			}
		}
	}
	if checked == 0 || anchored == 0 {
		t.Errorf("found %d links, %d of them with an anchor", checked, anchored)
	}
}

// TestLinksAreFound shows what counts as a link, and which anchors headings have, on GitHub and on the site alike.
func TestLinksAreFound(t *testing.T) {
	const text = "# A `kubectl` _get_: what's new?\n## Twice\n[a](b.md#c) ![d](e.svg) `[no](f)`\n[r]: g.md\n```\n# no " +
		"heading\n[no](h)\n```\n## Twice\n<a id=\"given\"></a>\n## [Linked](i.md \"title\") heading - 2\n"
	if got, want := links(text), []string{"b.md#c", "e.svg", "i.md", "g.md"}; !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
	if got, want := anchors(text), []string{
		"a-kubectl-get-whats-new", "twice", "linked-heading---2", "given",
	}; !slices.Equal(got, want) {
		t.Errorf("anchors %q, want %q", got, want)
	}
}

var (
	blocks       = regexp.MustCompile("(?m)^ *```(?:.|\n)*?\n *```[^\n]*$")
	spans        = regexp.MustCompile("`[^`\n]*`")
	inlineLink   = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	definedLink  = regexp.MustCompile(`(?m)^ {0,3}\[[^\]]+\]:\s*(\S+)`)
	heading      = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*#*$`)
	linkText     = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	emphasis     = regexp.MustCompile(`(^|\W)[*_]+(\S(?:.*?\S)?)[*_]+(\W|$)`)
	givenAnchors = regexp.MustCompile(`<[a-z0-9]+ [^>]*?(?:id|name)="([^"]+)"`)
)

// withoutBlocks returns a document without its code blocks.
func withoutBlocks(text string) string { return blocks.ReplaceAllString(text, "") }

// links returns the targets of a document's links, those in code excepted.
func links(text string) []string {
	text = spans.ReplaceAllString(withoutBlocks(text), "")
	var targets []string
	for _, pattern := range []*regexp.Regexp{inlineLink, definedLink} {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			targets = append(targets, match[1])
		}
	}
	return targets
}

// anchors returns those of a document's headings, each once: GitHub and the site number further headings of the same
// text differently.
func anchors(text string) []string {
	text = withoutBlocks(text)
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		plain := emphasis.ReplaceAllString(linkText.ReplaceAllString(match[1], "$1"), "$1$2$3")
		add(strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, plain))
	}
	for _, match := range givenAnchors.FindAllStringSubmatch(text, -1) {
		add(match[1])
	}
	return names
}
