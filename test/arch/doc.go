// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package arch holds tests of the tree itself: what may import what and why not, and how files look.
package arch
