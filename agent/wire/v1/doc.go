// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wirev1 is the only contract between the control plane and the agents, and between agents of different
// clusters.
package wirev1
