// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package transfer_test

// sparsely is by how many times fewer places are tried where tests go through all of something: the race detector makes
// moving megabytes ten times slower. All of them are tried without it (make test-unit does both).
const sparsely = 5
