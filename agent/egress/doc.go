// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package egress decides what an agent may dial at the wish of a tenant: the backend of an HTTPEndpoint, the external
// servers of a Queue.
//
// An address is checked after its name was resolved and before the connection is opened, at every dial. A name that
// resolves to something else the next time (DNS rebinding), a redirection by an ExternalName Service and an unusual way
// to write an address all come down to the address that the kernel is asked to connect to.
package egress
