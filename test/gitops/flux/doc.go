// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flux tests the operator and its objects under Flux: source-controller and kustomize-controller run as
// processes of this machine, with a Git server that the tests start. make test-gitops runs it.
package flux
