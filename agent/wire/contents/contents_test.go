// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package contents_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/contents"
)

func file(path, text string) *contents.Entry {
	return &contents.Entry{Path: path, Size: uint64(len(text)), SHA256: sha256.Sum256([]byte(text))}
}

// The format is published: whoever checks a receipt in ten years computes this.
func TestVector(t *testing.T) {
	link := contents.LinkTo("b", "a/x")
	var text bytes.Buffer
	d, err := contents.NewDigest(&text)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*contents.Entry{file("a/x", "hello"), file("a.txt", ""), &link} {
		if err := d.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	const want = "lighterage-contents-v1\n" +
		"f\x00a/x\x005\x002cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n" +
		"f\x00a.txt\x000\x00e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n" +
		"l\x00b\x003\x001653a06856ec14bc20b4e1dcc951d601eda9f17d7af17cfd4a433cfe93a29b04\n"
	if text.String() != want {
		t.Errorf("the manifest is %q", text.Bytes())
	}
	whole := sha256.Sum256(text.Bytes())
	if !bytes.Equal(d.Sum(), whole[:]) {
		t.Error("the digest is not that of the text")
	}
	if d.Files != 2 || d.Links != 1 || d.Bytes != 5 {
		t.Errorf("%d files, %d links, %d bytes", d.Files, d.Links, d.Bytes)
	}
}

func TestEntriesThatAreRejected(t *testing.T) {
	for name, entries := range map[string][]*contents.Entry{
		"twice":        {file("a", ""), file("a", "")},
		"out of order": {file("a.txt", ""), file("a/x", "")},
		"empty path":   {file("", "")},
		"NUL":          {file("a\x00b", "")},
		"long":         {file(string(bytes.Repeat([]byte("x"), 4096)), "")},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := contents.NewDigest(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				err = errors.Join(err, d.Add(e))
			}
			if err == nil {
				t.Error("accepted")
			}
		})
	}
}

// A walk finds entries in this order.
func FuzzCompare(f *testing.F) {
	f.Add("a/x", "a.txt")
	f.Add("a", "a/x")
	f.Add("é", "z")
	f.Fuzz(func(t *testing.T, a, b string) {
		if slices.ContainsFunc([]string{a, b}, func(p string) bool { return p == tree.Root || tree.CheckPath(p) != nil }) {
			return
		}
		sign := func(n int) int { return max(-1, min(1, n)) }
		if got, want := sign(contents.Compare(a, b)), sign(tree.Compare(a, b)); got != want {
			t.Errorf("%q and %q: %d, a walk has %d", a, b, got, want)
		}
	})
}
