// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact removes secrets from objects and logs before they leave a cluster in a support bundle. It is pure.
package redact

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// Removed replaces what was removed.
const Removed = "(removed)"

// ownAnnotations is the prefix of the annotations that are kept.
const ownAnnotations = "lighterage.dev/"

// shortestEncoded is the least length of base64 that may hold a private key.
const shortestEncoded = 32

// sensitive are words for secrets, as parts of the names of settings. Names of references, such as secretName, do not
// have them at their end.
const sensitive = `(?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key(?:[-_]?id)?|private[-_]?key|` +
	`secret[-_]?key|credentials?|authorization|cookie|signature)`

var (
	// sensitiveName is a field of an object that holds a secret, if it holds text.
	sensitiveName = regexp.MustCompile(`(?i)` + sensitive + `$`)

	patterns = []struct {
		found *regexp.Regexp
		by    string
	}{
		// A private key, also a truncated one, or one whose lines are escaped.
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`), Removed},
		// JSON Web Tokens, such as those of ServiceAccounts.
		{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), Removed},
		// Tokens of kubectl lighterage link.
		{regexp.MustCompile(`\blighterage-link-[A-Za-z0-9_-]{16,}`), Removed},
		// NATS seeds, which are private keys too.
		{regexp.MustCompile(`\bS[ACNOUX][A-Z2-7]{56}\b`), Removed},
		{regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), Removed},
		{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}`), `$1 ` + Removed},
		{regexp.MustCompile(`(://)[^/\s@"']*@`), `$1` + Removed + `@`},
		// name=value, name: value, "name":"value", escaped or not; a value with blanks is in quotes.
		{regexp.MustCompile(
			`(?i)([a-z0-9_.-]*` + sensitive + `\\?["']?\s*[:=]\s*)` +
				`(?:\\"(?:[^"\\]|\\[^"])*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'\\,;&}\])]+)`,
		), `${1}` + Removed},
	}
)

// Text returns a text without what looks like a secret.
func Text(text string) string {
	for _, p := range patterns {
		text = p.found.ReplaceAllString(text, p.by)
	}
	return text
}

// Object removes from an object, as decoded from JSON, what is or may be a secret: the content of Secrets and
// ConfigMaps, values of environment variables, managed fields, and annotations of others. All other text is passed
// through Text. It changes the object.
func Object(object map[string]any) {
	for _, field := range []string{"data", "binaryData", "stringData"} {
		if _, has := object[field]; has {
			object[field] = Removed
		}
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		annotations, _ := metadata["annotations"].(map[string]any)
		for name := range annotations {
			if !strings.HasPrefix(name, ownAnnotations) {
				annotations[name] = Removed
			}
		}
	}
	value(object)
}

// value cleans what is in a value, and returns what is to be in its place.
func value(v any) any {
	switch v := v.(type) {
	case string:
		if encodesSecret(v) {
			return Removed
		}
		return Text(v)
	case []any:
		for i := range v {
			v[i] = value(v[i])
		}
	case map[string]any:
		for name, field := range v {
			_, text := field.(string)
			switch {
			case text && sensitiveName.MatchString(name):
				v[name] = Removed
			case name == "env":
				variables(field)
			default:
				v[name] = value(field)
			}
		}
	}
	return v
}

// variables removes the values of environment variables. Their references to Secrets stay.
func variables(field any) {
	list, _ := field.([]any)
	for _, item := range list {
		if variable, ok := item.(map[string]any); ok {
			if _, has := variable["value"]; has {
				variable["value"] = Removed
			}
		}
	}
}

// encodesSecret reports whether text is base64 of something with a secret.
func encodesSecret(text string) bool {
	if len(text) < shortestEncoded {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	return err == nil && Text(string(decoded)) != string(decoded)
}
