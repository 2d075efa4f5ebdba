// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package isal is the deflate engine of igzip, the deflate part of the ISA-L
// library: the fastest there is in software on amd64 and arm64, with one level of
// effort.
//
// It needs cgo and the build tag isal; without either the package compiles,
// Available reports false and New fails.
package isal

// Name is the name of the engine that New returns.
const Name = "isa-l"
