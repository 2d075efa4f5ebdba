// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package argocd tests the health checks of config/argocd as Argo CD runs them, on statuses that the controllers write.
package argocd
