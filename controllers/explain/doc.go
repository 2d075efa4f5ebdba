// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says of an object of any kind what its conditions mean and what to do about them, what was decided
// and why, and what it cost; of a Transfer also what other choices would have cost. It is pure: it knows what it is
// given, says what it lacks, and invents nothing.
package explain
