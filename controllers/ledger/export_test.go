// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

// NanosOf is for tests.
var NanosOf = nanosOf
