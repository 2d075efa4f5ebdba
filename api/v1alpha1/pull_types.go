// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// PullStatus is what the cluster that is pulled from says of the present or last run. Progress, compression and history
// of the Transfer are what it says, too; decompression, omissions and the receipt are of the Delivery in this cluster.
//
// +structType=atomic
type PullStatus struct {
	// transfer is the name of the Transfer that was made in the source's namespace there, and of the PeerGrant that lets
	// it write here.
	// +optional
	Transfer string `json:"transfer,omitempty"`
	// runID of that Transfer's run, which Deliveries of it have; empty until it has begun.
	// +optional
	RunID string `json:"runID,omitempty"`
}
