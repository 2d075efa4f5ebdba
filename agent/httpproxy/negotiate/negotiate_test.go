// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package negotiate

import (
	"fmt"
	"strings"
	"testing"
)

var (
	all         = []Coding{Gzip, Deflate, Zstd}
	deflateGzip = []Coding{Deflate, Gzip}
	gzipDeflate = []Coding{Gzip, Deflate}
	gzipOnly    = []Coding{Gzip}
	none        []Coding
)

// refused is what TestChoose expects where nothing fits.
const refused = Coding(255)

// TestChoose is what RFC 9110, section 12.5.3, says of a field, and what other servers document of theirs where that is
// the same.
func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name    string
		fields  []string // nil: no field
		offered []Coding
		want    Coding
	}{
		// The examples of the system that has COMP=gzip,deflate.
		{"greater weight", []string{"deflate;q=1.0, gzip;q=0.5"}, gzipDeflate, Deflate},
		{"equal weights: server's order", []string{"deflate;q=1.0, gzip;q=1.0"}, gzipDeflate, Gzip},
		{"identity weighs more", []string{"deflate;q=0.5, gzip;q=0.5, identity;q=1.0"}, gzipDeflate, Identity},
		{"the server's order, the other way round", []string{"deflate;q=1.0, gzip;q=1.0"}, deflateGzip, Deflate},

		// RFC 9110's own examples.
		{"RFC: two", []string{"compress, gzip"}, all, Gzip},
		{"RFC: empty", []string{""}, all, Identity},
		{"RFC: star", []string{"*"}, all, Gzip},
		{"RFC: weights", []string{"compress;q=0.5, gzip;q=1.0"}, all, Gzip},
		{"RFC: identity below gzip, rest refused", []string{"gzip;q=1.0, identity; q=0.5, *;q=0"}, all, Gzip},
		{"RFC: rest refused, gzip not offered", []string{"gzip;q=1.0, identity; q=0.5, *;q=0"}, []Coding{Zstd}, Identity},

		{"absent", nil, all, Identity},
		{"blank", []string{" \t "}, all, Identity},
		{"nothing offered", []string{"gzip"}, none, Identity},

		// Refusal.
		{"identity refused", []string{"identity;q=0"}, all, refused},
		{"identity refused, gzip taken", []string{"gzip, identity;q=0"}, all, Gzip},
		{"identity refused, br taken", []string{"br, identity;q=0"}, all, refused},
		{"all refused", []string{"*;q=0"}, all, refused},
		{"all but gzip refused", []string{"gzip, *;q=0"}, all, Gzip},
		{"all but identity refused", []string{"identity, *;q=0"}, all, Identity},
		{"all but br refused", []string{"br, *;q=0"}, all, refused},
		{"gzip refused, all else taken", []string{"gzip;q=0, *"}, all, Deflate},
		{"nothing offered, identity refused", []string{"*, identity;q=0"}, none, refused},
		{"refused with decimals", []string{"gzip;q=0.000"}, gzipOnly, Identity},

		// The star.
		{"star below a name", []string{"gzip;q=0.5, *;q=0.1"}, all, Gzip},
		{"star above a name", []string{"gzip;q=0.3, *;q=0.7"}, all, Deflate},
		{"star above the only name offered: identity is one of all", []string{"gzip;q=0.3, *;q=0.7"}, gzipOnly, Identity},
		{"star equal to identity", []string{"*;q=0.5, identity;q=0.5"}, all, Gzip},
		{"star and a name of its weight", []string{"zstd, *"}, all, Gzip},

		// Browsers and programs.
		{"Chrome", []string{"gzip, deflate, br, zstd"}, all, Gzip},
		{"Firefox", []string{"gzip, deflate, br, zstd"}, []Coding{Zstd, Gzip, Deflate}, Zstd},
		{"Safari", []string{"gzip, deflate, br"}, []Coding{Zstd, Gzip, Deflate}, Gzip},
		{"curl", []string{"deflate, gzip"}, all, Gzip},
		{"Java", []string{"gzip"}, all, Gzip},
		{"an old proxy", []string{"identity"}, all, Identity},
		{"identity first, no weights", []string{"identity, gzip"}, all, Gzip},

		// What Caddy documents of its encode handler, with the codings here.
		{"Caddy: no header", nil, gzipOnly, Identity},
		{"Caddy: one", []string{"gzip"}, gzipOnly, Gzip},
		{"Caddy: one that is not offered", []string{"zstd"}, gzipOnly, Identity},
		{"Caddy: two that are the same", []string{"gzip, zstd"}, []Coding{Zstd, Gzip}, Zstd},
		{"Caddy: weights", []string{"gzip;q=0.4, zstd;q=0.6"}, all, Zstd},
		{"Caddy: one without weight, one below", []string{"zstd;q=0.9, gzip"}, all, Gzip},
		{"Caddy: weight 0", []string{"gzip;q=0, zstd;q=0"}, all, Identity},
		{"Caddy: no space", []string{"zstd;q=0.8,gzip;q=1.0"}, all, Gzip},

		// What Envoy documents of its compressor filter.
		{"Envoy: star", []string{"*"}, gzipOnly, Gzip},
		{"Envoy: star, gzip refused", []string{"gzip;q=0, *;q=1"}, gzipOnly, Identity},
		{"Envoy: identity weighs more", []string{"gzip;q=.5, identity"}, gzipOnly, Identity},
		{"Envoy: identity weighs more, well-formed", []string{"gzip;q=0.5, identity"}, gzipOnly, Identity},
		{"Envoy: identity refused", []string{"gzip, identity;q=0"}, gzipOnly, Gzip},
		{"Envoy: identity at 0.5, gzip at 1", []string{"identity;q=0.5, gzip;q=1"}, gzipOnly, Gzip},
		{"Envoy: deflate first", []string{"deflate, gzip"}, gzipOnly, Gzip},
		{"Envoy: xyz", []string{"xyz"}, gzipOnly, Identity},

		// Names.
		{"upper case", []string{"GZIP"}, all, Gzip},
		{"x-gzip", []string{"x-gzip"}, all, Gzip},
		{"x-gzip refused", []string{"x-gzip;q=0, *"}, gzipOnly, Identity},
		{"part of a name", []string{"gzipped"}, all, Identity},
		{"several fields", []string{"br", "gzip"}, all, Gzip},
		{"several fields, weights", []string{"gzip;q=0.1", "zstd;q=0.2"}, all, Zstd},
		{"the last mention counts", []string{"gzip;q=0, gzip;q=1"}, all, Gzip},
		{"the last mention refuses", []string{"gzip;q=1, gzip;q=0"}, all, Identity},

		// Space and empty elements, which RFC 9110 has recipients accept.
		{"spaces", []string{"  gzip ; q=0.8 ,  zstd\t;\tq=0.9 "}, all, Zstd},
		{"empty elements", []string{", ,gzip,,"}, all, Gzip},
		{"only commas", []string{",,,"}, all, Identity},

		// Malformed elements are no consent, and spoil nothing else.
		{"weight of 2", []string{"gzip;q=2"}, all, Identity},
		{"weight of 1.001", []string{"gzip;q=1.001"}, all, Identity},
		{"four decimals", []string{"gzip;q=0.1234"}, all, Identity},
		{"negative weight", []string{"gzip;q=-1"}, all, Identity},
		{"no weight", []string{"gzip;q="}, all, Identity},
		{"no equals sign", []string{"gzip;q"}, all, Identity},
		{"no digit", []string{"gzip;q=.5"}, all, Identity},
		{"a point at the end", []string{"gzip;q=1."}, all, Gzip},
		{"not a number", []string{"gzip;q=NaN"}, all, Identity},
		{"exponent", []string{"gzip;q=1e0"}, all, Identity},
		{"another parameter", []string{"gzip;level=9"}, all, Identity},
		{"two parameters", []string{"gzip;q=1;q=0"}, all, Identity},
		{"quoted", []string{`"gzip"`}, all, Identity},
		{"space in a name", []string{"g zip"}, all, Identity},
		{"no comma", []string{"gzip zstd"}, all, Identity},
		{"one malformed, one not", []string{"gzip;q=x, zstd;q=0.1"}, all, Zstd},
		{"malformed refusal of identity", []string{"identity;q=00, br"}, all, Identity},
		{"bytes", []string{"\x00\xff;q=\x01"}, all, Identity},
		{"upper-case q", []string{"gzip;Q=0.5, zstd;Q=0.6"}, all, Zstd},
		{"far too many", []string{strings.Repeat("br,", 1000) + "gzip"}, all, Identity},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := Parse(test.fields).Choose(test.offered)
			if !ok {
				if got != Identity {
					t.Errorf("%v, and unacceptable", got)
				}
				got = refused
			}
			if got != test.want {
				t.Errorf("%q, offered %v: got %v, want %v", test.fields, test.offered, got, test.want)
			}
		})
	}
}

func TestAccepts(t *testing.T) {
	for _, test := range []struct {
		fields []string
		c      Coding
		want   bool
	}{
		{nil, Gzip, true}, {nil, Identity, true},
		{[]string{"gzip"}, Gzip, true}, {[]string{"gzip"}, Identity, true}, {[]string{"gzip"}, Zstd, false},
		{[]string{"identity;q=0"}, Identity, false}, {[]string{"*;q=0"}, Gzip, false}, {[]string{"*;q=0.1"}, Zstd, true},
		{[]string{"*"}, refused, false},
	} {
		if got := Parse(test.fields).Accepts(test.c); got != test.want {
			t.Errorf("%q accepts %v: %v", test.fields, test.c, got)
		}
	}
}

func TestCodingNames(t *testing.T) {
	for _, c := range all {
		if got, err := ParseCoding(c.String()); got != c || err != nil {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	for _, name := range []string{"", "identity", "br", "GZIP", refused.String()} {
		if _, err := ParseCoding(name); err == nil {
			t.Errorf("%q is a coding", name)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	fields := []string{"gzip;q=0.5, deflate, br;q=1.0, zstd, *;q=0.1, identity;q=0"}
	types, err := NewTypes(DefaultTypes())
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		Parse(fields).Choose(all)
		types.Match("application/problem+json; charset=utf-8")
		IfMatch(`"abc", W/"def"`)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestIndifferent(t *testing.T) {
	for field, want := range map[string]bool{
		"gzip, zstd": true, "*": true, "gzip, *": true, "gzip;q=0.5, zstd;q=0.5": true, "x-gzip, zstd": true,
		"gzip": false, "zstd": false, "gzip;q=0.9, zstd": false, "gzip;q=0, zstd;q=0": false, "": false, "identity": false,
	} {
		if got := Parse([]string{field}).Indifferent(Gzip, Zstd); got != want {
			t.Errorf("%q: %v", field, got)
		}
	}
	if Parse(nil).Indifferent(Gzip, Zstd) {
		t.Error("a client that says nothing accepts codings alike")
	}
	if Parse([]string{"gzip"}).Indifferent(Gzip, codings) {
		t.Error("what is no coding is accepted")
	}
}

// FuzzParse holds what follows from any field, however broken.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "gzip", "gzip;q=0.5, *;q=0", "identity;q=0", ";;,,==", "*;q=1.000", strings.Repeat("gzip,", 100),
	} {
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		a := Parse([]string{first, second})
		c, ok := a.Choose(all)
		if ok != a.Accepts(c) {
			t.Errorf("%v is chosen, acceptable %v, accepted %v", c, ok, a.Accepts(c))
		}
		if !ok && (a.Accepts(Identity) || a.Accepts(Gzip) || a.Accepts(Deflate) || a.Accepts(Zstd)) {
			t.Error("refused, although something is accepted")
		}
		if lower := strings.ToLower(first + second); c != Identity && !strings.Contains(lower, c.String()) &&
			!strings.Contains(lower, "*") {
			t.Errorf("%v was never mentioned", c)
		}
		if again, _ := a.Choose([]Coding{Gzip, Deflate, Zstd, Gzip}); again != c {
			t.Errorf("%v, then %v", c, again)
		}
	})
}

func ExampleAccepted_Choose() {
	c, ok := Parse([]string{"gzip;q=0.5, zstd"}).Choose([]Coding{Gzip, Zstd})
	fmt.Println(c, ok)
	// Output: zstd true
}
