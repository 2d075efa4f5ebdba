// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package security holds the scenarios in which a tenant, a client, a peer or a stranger attacks through public
// surfaces. Those that need an API server have the build tag envtest; those that are timed, the build tag security
// (make test-security).
package security
