// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wirev1 is the only contract between the control plane and the agents, and between agents of different clusters.
package wirev1

// ProtocolVersion is what both sides state first. It changes when an older peer could misread a newer one.
const ProtocolVersion = 2
