// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package h2spec holds the tests of h2spec against the agent in mode http.
package h2spec
