// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Together reports whether one of the nodes can reach all volumes, each from the nodes that its selector says; nil:
// from all. Where nothing is known of nodes it is taken for granted.
func Together(nodes []corev1.Node, volumes ...*corev1.NodeSelector) bool {
	return len(nodes) == 0 || slices.ContainsFunc(nodes, func(node corev1.Node) bool {
		return !slices.ContainsFunc(volumes, func(volume *corev1.NodeSelector) bool { return !reaches(volume, &node) })
	})
}
