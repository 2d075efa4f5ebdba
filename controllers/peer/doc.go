// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peer looks after Peers: it checks their CA bundles, finds Peers that cannot be told apart, and asks the other
// cluster's gateway whether the two can talk.
package peer
