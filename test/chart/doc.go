// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart holds tests of what Helm and kustomize install.
package chart
