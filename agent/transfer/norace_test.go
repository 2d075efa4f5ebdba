// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package transfer_test

const sparsely = 1
