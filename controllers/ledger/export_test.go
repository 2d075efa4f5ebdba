// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

// For tests.
var (
	NanosOf = nanosOf
	Parse   = parse
)
