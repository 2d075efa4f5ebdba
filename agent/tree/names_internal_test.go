// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
)

// FuzzStageName: what is taken for the name of a staging directory is one that is written, but for zeros in front.
func FuzzStageName(f *testing.F) {
	own := newStageName("abcde", 1).String()
	for _, name := range []string{own, "a.007.b", "a.4294967296.b", "a.-1.b", "..", "a.1.b.c"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s, ok := parseStageName(name)
		if again, same := parseStageName(s.String()); ok && (!same || again != s) {
			t.Errorf("%q is %+v, and then %+v", name, s, again)
		}
		if ok && strings.ContainsAny(s.run+s.nonce, ".") {
			t.Errorf("%q is %+v", name, s)
		}
	})
}

// FuzzSourceNames: whatever a directory has, each plain name comes once, and a file rests only if it and its index are
// there and nothing else has the name.
func FuzzSourceNames(f *testing.F) {
	for _, names := range []string{
		"a.gz\x00.a.gz.lgci", "a\x00a.gz\x00.a.gz.lgci", "...gz.lgci\x00..gz", ".gz\x00..gz.lgci",
		"a.gz.gz\x00.a.gz.gz.lgci\x00.a.gz.lgci",
		StagingName + ".gz\x00." + StagingName + ".gz.lgci",
	} {
		f.Add([]byte(names), true)
		f.Add([]byte(names), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, root bool) {
		var all []string
		for name := range bytes.SplitSeq(text, []byte{0}) {
			if len(name) > 0 && len(name) <= 255 && !bytes.ContainsRune(name, '/') {
				all = append(all, string(name))
			}
		}
		slices.Sort(all)
		n := &names{}
		for _, name := range slices.Compact(all) {
			n.add(name)
		}
		parent, in := "sub", "sub/"
		if root {
			parent, in = Root, ""
		}
		for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
			w := &walker{form: form}
			last := ""
			for i, r := range w.sourceNames(parent, n) {
				if i > 0 && r.plain <= last {
					t.Errorf("%q comes after %q", r.plain, last)
				}
				last = r.plain
				if !n.has(r.name) || !r.file && r.plain != r.name {
					t.Errorf("%+v", r)
				}
				if r.file && (n.has(r.plain) || !n.has(form.IndexName(r.plain)) || r.name != form.Name(r.plain) ||
					CheckPath(in+r.plain) != nil || root && r.plain == StagingName) {
					t.Errorf("%+v rests", r)
				}
			}
		}
	})
}
