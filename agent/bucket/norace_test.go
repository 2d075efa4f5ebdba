// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package bucket_test

const raced = false
