// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package negotiate chooses the content coding of a response as RFC 9110 says, and
// keeps the entity tags of its codings apart. It is pure.
package negotiate

import (
	"fmt"
	"strings"
)

// Coding is a content coding of HTTP.
type Coding uint8

// The codings.
const (
	// Identity is no coding.
	Identity Coding = iota
	// Gzip is RFC 1952.
	Gzip
	// Deflate is DEFLATE in the wrapping of zlib, RFC 1950: that is what HTTP means
	// by the name.
	Deflate
	// Zstd is RFC 8878.
	Zstd

	codings
)

// String returns the coding as headers name it.
func (c Coding) String() string {
	switch c {
	case Identity:
		return "identity"
	case Gzip:
		return "gzip"
	case Deflate:
		return "deflate"
	case Zstd:
		return "zstd"
	default:
		return fmt.Sprintf("coding %d", uint8(c))
	}
}

// ParseCoding returns the coding of a name as users write it.
func ParseCoding(name string) (Coding, error) {
	for c := Gzip; c < codings; c++ {
		if name == c.String() {
			return c, nil
		}
	}
	return Identity, fmt.Errorf("unknown content coding %q: use gzip, deflate or zstd", name)
}

const (
	// maxElements bounds how much of an Accept-Encoding is looked at. There are about
	// a dozen codings.
	maxElements = 64

	// weights are thousandths; unset is that of a coding that was not named.
	one   = 1000
	unset = -1
)

// Accepted is what a client says of content codings.
type Accepted struct {
	// weight of each coding, from 0 for never to 1000.
	weight [codings]int16
	// stated is false when the client said nothing, and so leaves it to the server.
	stated bool
}

// Parse reads the Accept-Encoding fields of a request.
//
// No field at all means that the client takes anything; an empty one, that it takes
// identity alone. A name outweighs "*", and the last mention of a name counts. An
// element that is malformed is as if it were not there: nothing that was not clearly
// said is taken for consent.
func Parse(fields []string) Accepted {
	a := Accepted{stated: len(fields) > 0}
	for c := range a.weight {
		a.weight[c] = unset
	}
	star := int16(unset)
	seen := 0
	for _, field := range fields {
		for element := range strings.SplitSeq(field, ",") {
			if seen++; seen > maxElements {
				break
			}
			name, weight, ok := parseElement(element)
			if !ok {
				continue
			}
			if name == "*" {
				star = weight
			} else if c, known := codingOf(name); known {
				a.weight[c] = weight
			}
		}
	}
	for c := range a.weight {
		if a.weight[c] != unset {
			continue
		}
		switch {
		case star != unset:
			a.weight[c] = star
		case Coding(c) != Identity:
			a.weight[c] = 0
			// Identity, not mentioned, stays unset: it is acceptable, and everything that
			// was asked for is preferred.
		}
	}
	return a
}

// parseElement reads one element of Accept-Encoding: a name and perhaps a weight.
func parseElement(element string) (name string, weight int16, ok bool) {
	name, parameters, weighted := strings.Cut(element, ";")
	name = trim(name)
	if !isToken(name) {
		return "", 0, false
	}
	if !weighted {
		return name, one, true
	}
	key, value, ok := strings.Cut(trim(parameters), "=")
	if !ok || key != "q" && key != "Q" {
		return "", 0, false
	}
	weight, ok = parseWeight(value)
	return name, weight, ok
}

// parseWeight reads a qvalue: 0 to 1 with at most three decimals.
func parseWeight(s string) (int16, bool) {
	if s == "" || s[0] != '0' && s[0] != '1' || len(s) > len("0.000") || len(s) > 1 && s[1] != '.' {
		return 0, false
	}
	weight, unit := int16(s[0]-'0')*one, int16(one/10)
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		weight += int16(s[i]-'0') * unit
		unit /= 10
	}
	return weight, weight <= one
}

func trim(s string) string { return strings.Trim(s, " \t") }

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// codingOf returns the coding that a client names. x-gzip is gzip by RFC 9110.
func codingOf(name string) (Coding, bool) {
	if strings.EqualFold(name, "x-gzip") {
		return Gzip, true
	}
	for c := range codings {
		if strings.EqualFold(name, c.String()) {
			return c, true
		}
	}
	return Identity, false
}

// Accepts reports whether the client takes the coding.
func (a Accepted) Accepts(c Coding) bool {
	if c >= codings {
		return false
	}
	if c == Identity {
		return a.weight[Identity] != 0
	}
	return !a.stated || a.weight[c] > 0
}

// Choose returns the coding for a client among those that the server offers, in the
// server's order, and whether the client takes that: if not, nothing fits and the
// coding is Identity.
//
// The client's weights win; among equal ones the server's order does. Identity wins
// over a coding only if the client gave it the greater weight by name. A client that
// said nothing takes everything, and gets identity: it may be older than any coding.
func (a Accepted) Choose(offered []Coding) (c Coding, acceptable bool) {
	if !a.stated {
		return Identity, true
	}
	best, weight := Identity, int16(0)
	for _, c := range offered {
		if c != Identity && c < codings && a.weight[c] > weight {
			best, weight = c, a.weight[c]
		}
	}
	if a.weight[Identity] > weight {
		best = Identity
	}
	return best, best != Identity || a.Accepts(Identity)
}

// Indifferent reports whether the client accepts both codings with the same weight, be it that of "*", so that the
// server may send either.
func (a Accepted) Indifferent(c, other Coding) bool {
	return a.stated && c < codings && other < codings && a.weight[c] > 0 && a.weight[c] == a.weight[other]
}
