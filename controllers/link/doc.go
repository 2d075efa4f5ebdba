// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package link decides how two clusters are joined: which Peer stands for the other cluster, at which endpoint, and
// what remains to be done. It is pure: the kubectl plugin reads and writes the clusters.
package link
