// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package negotiate

import (
	"fmt"
	"strings"
)

// EventStream is the type of server-sent events. A pattern with a wildcard does not
// match it: events are passed through one by one unless they are asked for by name.
const EventStream = "text/event-stream"

// DefaultTypes are the content types that are compressed unless a user names others:
// text, and formats of text. Images, video, fonts in WOFF and archives are compressed
// already.
func DefaultTypes() []string {
	return []string{
		"text/*", "application/json", "application/*+json", "application/xml", "application/*+xml", "application/javascript",
		"application/x-javascript", "application/ecmascript", "application/x-ndjson", "application/graphql-response+json",
		"application/manifest+json", "application/yaml", "application/toml", "application/rtf", "application/wasm",
		"application/vnd.ms-fontobject", "application/x-protobuf", "application/protobuf", "application/sql",
		"application/x-sh",
		"font/ttf", "font/otf", "font/collection", "image/svg+xml", "image/bmp", "image/vnd.microsoft.icon", "image/x-icon",
		"model/*+xml", "model/*+json", "message/http",
	}
}

// Types is a set of content types.
type Types struct {
	exact    map[string]bool
	patterns []pattern
}

// pattern is the text before and after a wildcard.
type pattern struct{ prefix, suffix string }

// NewTypes returns the set of what the patterns match: a type such as
// "application/json", or one with a single "*" for any text, such as "text/*" or
// "application/*+json".
func NewTypes(patterns []string) (*Types, error) {
	t := &Types{exact: make(map[string]bool)}
	for _, p := range patterns {
		p = strings.ToLower(p)
		main, sub, ok := strings.Cut(p, "/")
		if !ok || !isToken(main) || !isToken(sub) {
			return nil, fmt.Errorf("content type %q: write type/subtype, such as text/html or text/*", p)
		}
		prefix, suffix, wild := strings.Cut(p, "*")
		switch {
		case !wild:
			t.exact[p] = true
		case strings.Contains(suffix, "*") || p != "*/*" && strings.Contains(main, "*"):
			if p != "*/*" {
				return nil, fmt.Errorf("content type %q: only the part after / may have a *, and one of them", p)
			}
			t.patterns = append(t.patterns, pattern{})
		default:
			t.patterns = append(t.patterns, pattern{prefix, suffix})
		}
	}
	return t, nil
}

// Match reports whether the set has the type of a Content-Type field. Parameters do
// not matter.
func (t *Types) Match(contentType string) bool {
	name := MediaType(contentType)
	if t.exact[name] {
		return true
	}
	if name == "" || name == EventStream {
		return false
	}
	for _, p := range t.patterns {
		if len(name) >= len(p.prefix)+len(p.suffix) && strings.HasPrefix(name, p.prefix) &&
			strings.HasSuffix(name, p.suffix) {
			return true
		}
	}
	return false
}

// MediaType returns the type of a Content-Type field in lower case, without parameters.
func MediaType(contentType string) string {
	name, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(trim(name))
}

// Directive reports whether a list field such as Cache-Control has a directive,
// whatever its argument. Commas within quotes do not separate.
func Directive(fields []string, name string) bool {
	for _, field := range fields {
		for len(field) > 0 {
			var element string
			element, field = cutElement(field)
			key, _, _ := strings.Cut(element, "=")
			if strings.EqualFold(trim(key), name) {
				return true
			}
		}
	}
	return false
}

// cutElement splits a list field after its first element.
func cutElement(field string) (element, rest string) {
	quoted := false
	for i := 0; i < len(field); i++ {
		switch c := field[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return field[:i], field[i+1:]
		}
	}
	return field, ""
}
