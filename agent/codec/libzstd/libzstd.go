// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package libzstd is the engine of codec.Zstd that uses the reference
// implementation in C.
//
// It needs cgo and the build tag libzstd; without either the package compiles,
// Available reports false and New fails.
package libzstd

// Name is the engine's name.
const Name = "libzstd"
