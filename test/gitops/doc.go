// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops tests how GitOps tools deal with the kinds: Argo CD's health checks of config/argocd, and an
// installation with Flux, end to end. It is a module of its own, because the operator needs none of these libraries.
package gitops
