// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale holds a test of what the manager asks of the API server, by object: what `make bench-scale` measures,
// in small, and bounded by counts, which do not depend on the machine.
package scale
