// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1_test

import (
	"crypto/x509"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

var fingerprint = strings.Repeat("0123456789abcdef", 4)

func claims() wirev1.RunClaims {
	return wirev1.RunClaims{
		Run: "7f3ca", Audience: []string{fingerprint}, Namespace: "vault", Claim: "ledger-copy", Path: "/a b/ü&x=y",
		Delete: true, Privileged: true,
	}
}

func encode(t *testing.T, c wirev1.RunClaims) string {
	t.Helper()
	uri, err := c.URI()
	if err != nil {
		t.Fatal(err)
	}
	return uri.String()
}

func TestRunClaims(t *testing.T) {
	longest := claims()
	longest.Path = "/" + strings.Repeat("%", 4095)
	longest.Audience = nil
	for range 16 {
		longest.Audience = append(longest.Audience, fingerprint)
	}
	longest.Namespace, longest.Claim = strings.Repeat("n", 63), strings.Repeat("c", 253)
	plain := claims()
	plain.Delete, plain.Privileged, plain.Path = false, false, "/"
	for _, want := range []wirev1.RunClaims{claims(), longest, plain} {
		got, err := wirev1.ParseRunClaims(encode(t, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v became %+v: %v", want, got, err)
		}
	}
}

func TestRunClaimsOfOtherForms(t *testing.T) {
	good := encode(t, claims())
	for name, uri := range map[string]string{
		"empty":           "",
		"identity":        "spiffe://east/ns/bank/transfer/ledger",
		"other scheme":    strings.Replace(good, "lighterage:", "lighter:", 1),
		"other host":      strings.Replace(good, "//run?", "//walk?", 1),
		"a path":          strings.Replace(good, "//run?", "//run/x?", 1),
		"unknown":         good + "&more=1",
		"twice":           good + "&run=aaaaa",
		"other order":     strings.Replace(good, "audience="+fingerprint+"&", "", 1) + "&audience=" + fingerprint,
		"false":           strings.Replace(good, "delete=true", "delete=false", 1),
		"fragment":        good + "#x",
		"upper case":      strings.Replace(good, fingerprint, strings.ToUpper(fingerprint), 1),
		"no audience":     strings.Replace(good, "audience="+fingerprint+"&", "", 1),
		"short print":     strings.Replace(good, fingerprint, fingerprint[1:], 1),
		"no run":          strings.Replace(good, "run=7f3ca", "run=", 1),
		"long run":        strings.Replace(good, "run=7f3ca", "run=7f3ca23", 1),
		"no namespace":    strings.Replace(good, "namespace=vault", "namespace=", 1),
		"upward":          strings.Replace(good, "path=%2F", "path=%2F..%2F", 1),
		"relative":        strings.Replace(good, "path=%2F", "path=", 1),
		"escaped letters": strings.Replace(good, "vault", "v%61ult", 1),
		"too long":        good + strings.Repeat("&", 1<<15),
		"broken escape":   good + "&x=%",
	} {
		if got, err := wirev1.ParseRunClaims(uri); !errors.Is(err, wirev1.ErrNoClaims) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := (wirev1.RunClaims{}).URI(); !errors.Is(err, wirev1.ErrNoClaims) {
		t.Errorf("no claims at all were encoded: %v", err)
	}
}

func TestIdentityURI(t *testing.T) {
	parse := func(uri string) *url.URL {
		parsed, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	identity, run := parse("spiffe://east/ns/bank/transfer/ledger"), parse(encode(t, claims()))
	for name, c := range map[string]struct {
		uris   []*url.URL
		ok     bool
		claims bool
	}{
		"none":           {nil, false, false},
		"identity":       {[]*url.URL{identity}, true, false},
		"with claims":    {[]*url.URL{identity, run}, true, true},
		"two identities": {[]*url.URL{identity, identity}, false, false},
		"three":          {[]*url.URL{identity, run, run}, false, false},
	} {
		certificate := &x509.Certificate{URIs: c.uris}
		if got, err := wirev1.IdentityURI(certificate); (err == nil) != c.ok || c.ok && got != identity {
			t.Errorf("%s: identity %v, %v", name, got, err)
		}
		if _, err := wirev1.RunClaimsOf(certificate); (err == nil) != c.claims {
			t.Errorf("%s: claims %v", name, err)
		}
	}
}

func FuzzParseRunClaims(f *testing.F) {
	f.Add("lighterage://run?audience=" + fingerprint + "&claim=c&namespace=n&path=%2F&run=a")
	f.Add(
		"lighterage://run?audience=" + fingerprint + "&claim=c&delete=true&namespace=n&path=%2Fa%26&privileged=true&run=a",
	)
	f.Add("spiffe://east/manager")
	f.Fuzz(func(t *testing.T, uri string) {
		c, err := wirev1.ParseRunClaims(uri)
		if err != nil {
			if !errors.Is(err, wirev1.ErrNoClaims) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := c.URI()
		if err != nil || again.String() != uri {
			t.Errorf("%q became %v: %v", uri, again, err)
		}
	})
}
