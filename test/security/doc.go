// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package security plays attackers against the public surfaces of what the operator runs: strangers, peers, tenants and clients.
package security
