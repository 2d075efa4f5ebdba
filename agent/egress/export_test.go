// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import "net"

// Resolve makes a Guard ask another resolver.
func (g *Guard) Resolve(r *net.Resolver) { g.resolver = r }
