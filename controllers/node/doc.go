// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node keeps a NodeProfile for every node on which a node agent measured, and labels the node with what was
// found.
package node
