// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"

	"github.com/lighterage/lighterage/controllers/plan"
)

func TestIsAttemptName(t *testing.T) {
	long := strings.Repeat("x", 39) + ".books"
	for _, test := range []struct {
		owner, name string
		want        bool
	}{
		{"ledger", plan.AttemptName("ledger", "a2b3c", 1), true},
		{"ledger", plan.AttemptName("ledger", "zzzzz", 100), true},
		{long, plan.AttemptName(long, "a2b3c", 2), true},
		{"ledger-a2b3c-2-01234567", "ledger-a2b3c-2-01234567", true},
		{"ledger", "ledger-tls", false},
		{"ledger", "ledger-a2b3c-0", false},
		{"ledger", "ledger-a2b3c-1-key", false},
		{"ledger", "books-a2b3c-1", false},
		{"ledger", "ledgera2b3c-1", false},
	} {
		if got := plan.IsAttemptName(test.owner, test.name); got != test.want {
			t.Errorf("%s of %s: %v", test.name, test.owner, got)
		}
	}
}
