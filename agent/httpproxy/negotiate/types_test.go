// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package negotiate

import "testing"

func TestTypes(t *testing.T) {
	for _, test := range []struct {
		patterns []string
		yes, no  []string
	}{
		{DefaultTypes(),
			[]string{
				"text/html", "TEXT/HTML; charset=utf-8", "application/json", "application/problem+json;x=y", "image/svg+xml",
				"application/wasm",
			},
			[]string{
				"", "text", "image/png", "video/mp4", "application/octet-stream", "application/zip", "text/event-stream",
				"font/woff2", "application/+", "multipart/byteranges",
			}},
		{[]string{"text/event-stream"}, []string{"text/event-stream;charset=utf-8"}, []string{"text/html"}},
		{[]string{"*/*"}, []string{"a/b", "image/png"}, []string{"", "text/event-stream"}},
		{[]string{"Text/HTML"}, []string{"text/html"}, []string{"text/plain"}},
		{[]string{"a/b*b"}, []string{"a/bb", "a/bcb"}, []string{"a/b"}},
		{nil, nil, []string{"text/html", ""}},
	} {
		types, err := NewTypes(test.patterns)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range test.yes {
			if !types.Match(s) {
				t.Errorf("%q does not match %q", s, test.patterns)
			}
		}
		for _, s := range test.no {
			if types.Match(s) {
				t.Errorf("%q matches %q", s, test.patterns)
			}
		}
	}
	for _, bad := range []string{
		"", "text", "/", "text/", "*/html", "*", "text/*x*", "text/html; charset=utf-8", "te xt/html", "*/*/*",
	} {
		if _, err := NewTypes([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestDirective(t *testing.T) {
	for _, test := range []struct {
		fields []string
		want   bool
	}{
		{nil, false}, {[]string{""}, false}, {[]string{"no-transform"}, true},
		{[]string{"public, No-Transform , max-age=1"}, true},
		{[]string{"public", "no-transform=1"}, true}, {[]string{"no-transformation"}, false},
		{[]string{`private="x, no-transform"`}, false}, {[]string{`private="a\", no-transform", no-transform`}, true},
		{[]string{`x="open, no-transform`}, false},
	} {
		if got := Directive(test.fields, "no-transform"); got != test.want {
			t.Errorf("%q: %v", test.fields, got)
		}
	}
}
