// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ReceiptStatus is what a side knows of the receipt of a run, see spec.receipt of Transfer.
//
// +structType=atomic
type ReceiptStatus struct {
	// contentsSHA256 is the digest of the content manifest that both agents computed, in hexadecimal digits.
	// +optional
	ContentsSHA256 string `json:"contentsSHA256,omitempty"`
	// entries of the content manifest: files and symbolic links.
	// +optional
	Entries int64 `json:"entries"`
	// bytes of those files.
	// +optional
	Bytes int64 `json:"bytes"`
	// wireBytes that the attempt wrote to and read from the network, TLS included.
	// +optional
	WireBytes int64 `json:"wireBytes"`
	// digestSeconds is the CPU time that this side's agent took to read and digest all content once more. It is part of
	// cpu.
	// +optional
	DigestSeconds string `json:"digestSeconds,omitempty"`
	// part is the receiving cluster's part of the receipt, as JSON. Of a Delivery only.
	// +optional
	Part string `json:"part,omitempty"`
	// envelope is the receipt as a DSSE envelope: with the signature of the sending cluster at first, with both when
	// configMapName is set.
	// +optional
	Envelope string `json:"envelope,omitempty"`
	// configMapName names the immutable ConfigMap in this namespace that has the receipt with both signatures under
	// receipt.json. Nobody but people deletes it.
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`
}
