// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package envelope_test

import (
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/queue/envelope"
)

func TestFits(t *testing.T) {
	t.Parallel()
	for suffix, want := range map[string]bool{
		"": true, ".a": true, ".a.b": true, ".gr\u00f6\u00dfe": true, ".a*": true, ".>>": true,
		"." + strings.Repeat("a", envelope.MaxSuffix-1): true,
		"a": false, ".": false, ".a.": false, "..a": false, ".a..b": false, ".*": false, ".a.>": false, ".>.a": false,
		".a b": false, ".a\tb": false, ".a\x7f": false,
		".\xff": false, "." + strings.Repeat("a", envelope.MaxSuffix): false,
	} {
		if envelope.FitsSuffix(suffix) != want || envelope.FitsSuffix([]byte(suffix)) != want {
			t.Errorf("suffix %.40q: want %v", suffix, want)
		}
	}
	for name, want := range map[string]bool{
		"A": true, "x-1_~": true, "": false, "a(b)": false, "a/b": false, "a b": false, "a:": false, "gr\u00f6\u00dfe": false,
		"a\t": false, "a\x7f": false,
	} {
		if envelope.FitsName(name) != want {
			t.Errorf("name %q: want %v", name, want)
		}
	}
	for value, want := range map[string]bool{
		"": true, "a\tb c": true, "caf\xe9": true, "a\rb": false, "a\nb": false, "a\x00": false,
	} {
		if envelope.FitsValue([]byte(value)) != want {
			t.Errorf("value %q: want %v", value, want)
		}
	}
	if got := envelope.Printable("\n\u00e9 a\r\n" + strings.Repeat("b", 1000)); len(got) != envelope.MaxText ||
		!strings.HasPrefix(got, "?? a??b") {
		t.Errorf("%q", got)
	}
}
