// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package console serves pages about clusters on loopback, with the rights of the user who runs it.
//
// Package view makes what a page shows; guard.go and session.go decide who may see it; the files *page.go put both
// together. Nothing here knows a kubeconfig: a Cluster reads and changes objects.
package console
