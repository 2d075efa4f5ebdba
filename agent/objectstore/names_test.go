// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lighterage/lighterage/agent/objectstore"
)

func TestCheckName(t *testing.T) {
	long := strings.Repeat("x", objectstore.MaxKey)
	for _, name := range []string{"a", "a/b", ".a", "a..b", "a b", "ü/ß", "...", "A/a", "a%2e%2e/b", long[4:]} {
		if err := objectstore.CheckName("pre", name); err != nil {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	for _, name := range []string{
		"",
		"/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", `a\b`, "a\nb", "a\x00", "\x7f", "a\u0085", "\u2028",
		"\xff", long[3:],
	} {
		if err := objectstore.CheckName("pre", name); !errors.Is(err, objectstore.ErrName) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

// FuzzNames holds that what CheckName accepts reaches the server as it is, and nothing else does.
func FuzzNames(f *testing.F) {
	for _, name := range []string{
		"a/b", "..", "a//b", "a/../b", "a\x00b", strings.Repeat("ü", 512), "%2e%2e/x", "a?b#c", "a+b c&d=e;f", "\xff", `\`,
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		server, store := start(t)
		_, err := store.Put(t.Context(), name, strings.NewReader("x"), 1, objectstore.PutOptions{})
		if err != nil {
			if len(server.Requests()) > 0 || !errors.Is(err, objectstore.ErrName) {
				t.Errorf("%q: %v after %q", name, err, server.Requests())
			}
			return
		}
		if keys := server.Keys(); len(keys) != 1 || keys[0] != "east/bank/"+name {
			t.Errorf("%q was written as %q", name, keys)
		}
		if names, err := list(t, store, ""); err != nil || len(names) != 1 || names[0] != name {
			t.Errorf("%q is listed as %q, %v", name, names, err)
		}
	})
}

// FuzzAnswers holds that whatever a server answers, errors are explained, printable and bounded.
func FuzzAnswers(f *testing.F) {
	f.Add(404, "<Error><Code>NoSuchKey</Code></Error>", "")
	f.Add(200, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>"+
		"</ListBucketResult>", "x")
	f.Add(200, "<ListBucketResult><Contents><Key>east/bank/%zz</Key><Size>-1</Size></Contents></ListBucketResult>", "")
	f.Add(500, "<Error><Code>\x1b[2J</Code><Message>"+strings.Repeat("m", 5000)+"</Message></Error>", `"`)
	f.Add(301, "<html>", "e")
	f.Fuzz(func(t *testing.T, status int, body, etag string) {
		if status < 200 || status > 599 {
			return
		}
		server, store := start(t)
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Etag", strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return -1
				}
				return r
			}, etag))
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		})
		check := func(err error) {
			if err == nil {
				return
			}
			text := err.Error()
			if len(text) > 1024 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("%q", text)
			}
		}
		_, err := list(t, store, "")
		check(err)
		_, err = get(t, store, "a", "", 0, 1)
		check(err)
		u, err := store.Create(t.Context(), "a", nil)
		check(err)
		_, err = store.Parts(t.Context(), u)
		check(err)
		_, err = store.Complete(t.Context(), u, nil, true)
		check(err)
		check(store.Delete(t.Context(), "a"))
		for _, err := range store.Uploads(t.Context(), "") {
			check(err)
		}
	})
}
