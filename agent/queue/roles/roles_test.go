// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

// TestAllow: what each operation is for, and that nobody may ask for what is not known.
func TestAllow(t *testing.T) {
	for request, want := range map[roles.Request]string{
		roles.Publish: "Put", roles.Consume: "Get", roles.Settle: "Get", roles.Browse: "Get", roles.Answer: "Put,Get",
		roles.Describe: "Put,Get",
		roles.Unknown:  "", roles.Request(99): "",
	} {
		if got := roles.Needed(request); got != want {
			t.Errorf("request %d needs %q; want %q", request, got, want)
		}
		for _, o := range []roles.Operations{roles.None, roles.Put, roles.Get, roles.All} {
			allowed := false
			for name := range strings.SplitSeq(want, ",") {
				allowed = allowed || name != "" && strings.Contains(o.String(), name)
			}
			if o.Allow(request) != allowed {
				t.Errorf("%q for request %d: %v", o, request, !allowed)
			}
		}
	}
}

// TestTokens: a token does what its role says; without roles all may do everything, and with some only those that are
// named, unless others are.
func TestTokens(t *testing.T) {
	tokens := []roles.Token{
		{Name: "shop", Text: "a"},
		{Name: "till", Text: "b"},
		{Name: "new", Text: "c"},
		{Name: "empty", Text: ""},
		{Name: "*", Text: "d"},
	}
	for what, test := range map[string]struct {
		roles roles.Roles
		want  string
	}{
		"none":        {nil, "a=Put,Get b=Put,Get c=Put,Get d=Put,Get"},
		"some":        {roles.Roles{"shop": roles.Put, "till": roles.Get}, "a=Put b=Get"},
		"some others": {roles.Roles{"shop": roles.Put, roles.Others: roles.Get}, "a=Put b=Get c=Get d=Get"},
		"no others":   {roles.Roles{"gone": roles.All}, ""},
		"empty":       {roles.Roles{}, ""},
	} {
		table := roles.NewTable(tokens, test.roles, nil)
		var got []string
		for _, text := range []string{"a", "b", "c", "d", "e", ""} {
			if c := table.Token(roles.DigestOf(text)); c.Operations != roles.None {
				got = append(got, text+"="+c.Operations.String())
			}
		}
		if joined := strings.Join(got, " "); joined != test.want {
			t.Errorf("%s: %s; want %s", what, joined, test.want)
		}
	}
	both := roles.NewTable(
		[]roles.Token{{Name: "shop", Text: "a"}, {Name: "till", Text: "a"}},
		roles.Roles{"shop": roles.Put, "till": roles.Get}, nil,
	)
	if c := both.Token(roles.DigestOf("a")); c.Operations != roles.All || c.Name != "token:shop" {
		t.Errorf("a token of two clients: %+v", c)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", tokens, tokens[0], tokens[:2], tokens[1]); strings.Contains(text, `"a"`) ||
		strings.Contains(text, "{shop a}") {
		t.Errorf("a token is printed: %s", text)
	}
}

func certificate(cn string, dns []string, uris ...string) *x509.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: cn}, DNSNames: dns}
	for _, text := range uris {
		u, _ := url.Parse(text)
		c.URIs = append(c.URIs, u)
	}
	return c
}

// TestCertificates: every name that a CA vouches for gives what its role says.
func TestCertificates(t *testing.T) {
	given := roles.Roles{"CN:shop": roles.Put, "DNS:till.example": roles.Get, "URI:spiffe://a/b": roles.Get}
	others := roles.Roles{"CN:shop": roles.Put, roles.Others: roles.Get}
	for _, test := range []struct {
		roles       roles.Roles
		certificate *x509.Certificate
		want        string
	}{
		{nil, certificate("any", nil), "CN:any Put,Get"},
		{nil, certificate("", nil), "certificate without a name Put,Get"},
		{given, certificate("shop", nil), "CN:shop Put"},
		{given, certificate("x", []string{"y", "till.example"}), "DNS:till.example Get"},
		{given, certificate("shop", []string{"till.example"}), "CN:shop Put,Get"},
		{given, certificate("", nil, "spiffe://a/b"), "URI:spiffe://a/b Get"},
		{given, certificate("URI:spiffe://a/b", []string{"shop"}), "CN:URI:spiffe://a/b "},
		{given, certificate("till.example", nil), "CN:till.example "},
		{others, certificate("till", nil), "CN:till Get"},
		{others, certificate("*", nil), "CN:* Get"},
		{others, certificate("shop", nil), "CN:shop Put"},
		{roles.Roles{}, certificate("shop", nil), "CN:shop "},
	} {
		c := roles.NewTable(nil, nil, test.roles).Certificate(test.certificate)
		if got := c.Name + " " + c.Operations.String(); got != test.want {
			t.Errorf("%v: %s; want %s", test.roles, got, test.want)
		}
	}
	if c := roles.NewTable(nil, nil, nil).Certificate(certificate(strings.Repeat("é", 1000), nil)); len(c.Name) > 256 {
		t.Errorf("a name of %d bytes is logged", len(c.Name))
	}
}

// TestSame: tables differ by what clients may do.
func TestSame(t *testing.T) {
	token := []roles.Token{{Name: "shop", Text: "a"}}
	tables := []*roles.Table{
		roles.NewTable(nil, nil, nil), roles.NewTable(token, nil, nil),
		roles.NewTable(token, roles.Roles{"shop": roles.Put}, nil),
		roles.NewTable(token, nil, roles.Roles{}), roles.NewTable(token, nil, roles.Roles{"CN:a": roles.Put}),
	}
	for i, a := range tables {
		for j, b := range tables {
			if a.Same(b) != (i == j) {
				t.Errorf("tables %d and %d: %v", i, j, a.Same(b))
			}
		}
	}
}
