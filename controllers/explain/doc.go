// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says of a Transfer what was decided about compression, what the decision was made of, and what other
// choices would have cost. It is pure: it knows what it is given, says what it lacks, and invents nothing.
package explain
