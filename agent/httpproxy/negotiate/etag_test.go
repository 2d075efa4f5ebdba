// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package negotiate

import (
	"strings"
	"testing"
)

func TestTag(t *testing.T) {
	for _, test := range []struct {
		tag  string
		c    Coding
		want string
	}{
		{`"abc"`, Gzip, `"abc;lighterage=gzip"`},
		{`"abc"`, Zstd, `"abc;lighterage=zstd"`},
		{`"abc"`, Identity, `"abc"`},
		{`""`, Deflate, `";lighterage=deflate"`},
		{`W/"abc"`, Gzip, `W/"abc"`},
		{`abc`, Gzip, `abc`},
		{`"`, Gzip, `"`},
		{``, Gzip, ``},
	} {
		got := Tag(test.tag, test.c)
		if got != test.want {
			t.Errorf("Tag(%s, %v) = %s, want %s", test.tag, test.c, got, test.want)
		}
		base, c := Untag(got)
		if got != test.tag && (base != test.tag || c != test.c) || got == test.tag && (base != got || c != Identity) {
			t.Errorf("Untag(%s) = %s, %v", got, base, c)
		}
	}
	for _, foreign := range []string{
		`"abc-gzip"`, `"abc;lighterage=br"`, `"abc;lighterage="`, `W/"abc;lighterage=gzip"`, `"abc;lighterage=gzip`,
	} {
		if base, c := Untag(foreign); base != foreign || c != Identity {
			t.Errorf("Untag(%s) = %s, %v", foreign, base, c)
		}
	}
}

func TestConditions(t *testing.T) {
	gzip, zstd := Parse([]string{"gzip"}), Parse([]string{"gzip, zstd"})
	identity, silent := Parse([]string{""}), Parse(nil)
	for _, test := range []struct {
		name      string
		field     string
		accepted  Accepted
		ifMatch   string
		noneMatch string
	}{
		{"plain", `"a"`, gzip, `"a"`, `"a"`},
		{"any", `*`, gzip, `*`, `*`},
		{"coded", `"a;lighterage=gzip"`, gzip, `"a"`, `"a"`},
		{"coded as the client accepts no more", `"a;lighterage=gzip"`, identity, `"a"`, `"a;lighterage=gzip"`},
		{"coded, client says nothing", `"a;lighterage=gzip"`, silent, `"a"`, `"a"`},
		{
			"list", `"a;lighterage=gzip", W/"b", "c;lighterage=zstd","d"`, gzip, `"a", W/"b", "c","d"`,
			`"a", W/"b", "c;lighterage=zstd","d"`,
		},
		{"list, both accepted", `"a;lighterage=gzip", "c;lighterage=zstd"`, zstd, `"a", "c"`, `"a", "c"`},
		{"weak", `W/"a;lighterage=gzip"`, gzip, `W/"a;lighterage=gzip"`, `W/"a;lighterage=gzip"`},
		{"a comma in a tag", `"x,y;lighterage=gzip"`, gzip, `"x,y"`, `"x,y"`},
		{"not closed", `"a;lighterage=gzip`, gzip, `"a;lighterage=gzip`, `"a;lighterage=gzip`},
		{"empty", ``, gzip, ``, ``},
	} {
		if got := IfMatch(test.field); got != test.ifMatch {
			t.Errorf("%s: If-Match %s becomes %s, want %s", test.name, test.field, got, test.ifMatch)
		}
		if got := IfNoneMatch(test.field, test.accepted, &Sent{}); got != test.noneMatch {
			t.Errorf("%s: If-None-Match %s becomes %s, want %s", test.name, test.field, got, test.noneMatch)
		}
	}
}

func TestSent(t *testing.T) {
	var sent Sent
	IfNoneMatch(`"a;lighterage=gzip", "a;lighterage=zstd", "b;lighterage=zstd", "c"`, Parse([]string{"*"}), &sent)
	for _, test := range []struct {
		base      string
		preferred Coding
		want      string
	}{
		{`"a"`, Gzip, `"a;lighterage=gzip"`},
		{`"a"`, Zstd, `"a;lighterage=zstd"`},
		{`"b"`, Gzip, `"b;lighterage=zstd"`},
		{`"c"`, Gzip, `"c"`},
		{`"d"`, Gzip, `"d"`},
	} {
		if got := sent.TagOf(test.base, test.preferred); got != test.want {
			t.Errorf("TagOf(%s, %v) = %s, want %s", test.base, test.preferred, got, test.want)
		}
	}
}

func FuzzTags(f *testing.F) {
	for _, s := range []string{`"a"`, `"a;lighterage=gzip", W/"b"`, `"`, `""`, `*`, `"";lighterage=gzip""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		var sent Sent
		for _, got := range []string{IfMatch(field), IfNoneMatch(field, Parse([]string{"gzip"}), &sent)} {
			if len(got) > len(field) {
				t.Errorf("%q grew to %q", field, got)
			}
			if !strings.Contains(field, ";lighterage=") && got != field {
				t.Errorf("%q became %q", field, got)
			}
		}
		if base, c := Untag(field); Tag(base, c) != field {
			t.Errorf("%q is taken apart to %q and %v", field, base, c)
		}
	})
}
