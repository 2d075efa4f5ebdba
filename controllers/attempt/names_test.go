// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lighterage/lighterage/controllers/attempt"
)

func TestIsName(t *testing.T) {
	long := strings.Repeat("x", 39) + ".books"
	for _, test := range []struct {
		owner, name string
		want        bool
	}{
		{"ledger", attempt.Name("ledger", "a2b3c", 1), true},
		{"ledger", attempt.Name("ledger", "zzzzz", 100), true},
		{long, attempt.Name(long, "a2b3c", 2), true},
		{"ledger-a2b3c-2-01234567", "ledger-a2b3c-2-01234567", true},
		{"ledger", "ledger-tls", false},
		{"ledger", "ledger-a2b3c-0", false},
		{"ledger", "ledger-a2b3c-1-key", false},
		{"ledger", "books-a2b3c-1", false},
		{"ledger", "ledgera2b3c-1", false},
	} {
		if got := attempt.IsName(test.owner, test.name); got != test.want {
			t.Errorf("%s of %s: %v", test.name, test.owner, got)
		}
	}
}

func TestName(t *testing.T) {
	for _, name := range []string{
		"a", strings.Repeat("a", 39) + "." + strings.Repeat("b", 100), strings.Repeat("a", 39) + "-b",
		strings.Repeat("x", 253),
	} {
		got := attempt.Name(name, "abcde", 100)
		if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 || len(got) > 63 {
			t.Errorf("%q: %v", got, errs)
		}
	}
}
