// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package bucket_test

// raced: the race detector makes compressing megabytes ten times slower. make test-unit runs all tests without it as
// well.
const raced = true
