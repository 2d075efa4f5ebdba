// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package bucket_test

// raced: the race detector makes compressing megabytes ten times slower. make test-unit runs all tests without it, and
// make test-race those with it that do not skip.
const raced = true
