// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package h2spec holds what clients of an HTTPEndpoint speak to against h2spec, a maintained list of cases of HTTP/2
// and HPACK.
package h2spec
