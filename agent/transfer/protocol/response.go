// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"io"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// WriteResponse tells a sender that its last block came, and that it was one of so many.
func WriteResponse(w io.Writer, blocks uint64) error {
	return writeSmall(w, &wirev1.DataResponse{Blocks: blocks})
}

// ReadResponse waits for what WriteResponse writes and compares the number of blocks. Its errors have a reason.
func ReadResponse(r io.Reader, blocks uint64) error {
	var response wirev1.DataResponse
	if err := readSmall(r, &response); err != nil {
		return err
	}
	if response.GetBlocks() != blocks {
		return Invalid("the receiver took %d blocks of %d", response.GetBlocks(), blocks)
	}
	return nil
}
