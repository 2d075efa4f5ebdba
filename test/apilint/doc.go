// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apilint checks the Go types of the API against the conventions of Kubernetes' APIs, from their source alone.
package apilint
