// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs keeps what the documents say true.
package docs
