// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peergrant decides what PeerGrants allow, reports whether what they name exists, and ends the Deliveries that
// no grant allows any more.
package peergrant
