// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/binary"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxResponse bounds what a receiver answers to the last block, in bytes.
const maxResponse = 1024

// WriteResponse tells a sender that its last block came, and that it was one of so many.
func WriteResponse(w io.Writer, blocks uint64) error {
	response := &wirev1.DataResponse{Blocks: blocks}
	b := binary.BigEndian.AppendUint32(nil, uint32(proto.Size(response)))
	b, err := proto.MarshalOptions{}.MarshalAppend(b, response)
	if err != nil {
		return fmt.Errorf("marshal the answer to the last block: %w", err)
	}
	_, err = w.Write(b)
	return err
}

// ReadResponse waits for what WriteResponse writes and compares the number of blocks. Its errors have a reason.
func ReadResponse(r io.Reader, blocks uint64) error {
	var buffer [4 + maxResponse]byte
	if _, err := io.ReadFull(r, buffer[:4]); err != nil {
		return Lost(err)
	}
	n := binary.BigEndian.Uint32(buffer[:])
	if n > maxResponse {
		return Invalid("the receiver's answer to the last block has %d bytes; the limit is %d", n, maxResponse)
	}
	if _, err := io.ReadFull(r, buffer[4:4+n]); err != nil {
		return Lost(err)
	}
	var response wirev1.DataResponse
	if err := proto.Unmarshal(buffer[4:4+n], &response); err != nil {
		return Invalid("the receiver's answer to the last block cannot be read: %w", err)
	}
	if response.GetBlocks() != blocks {
		return Invalid("the receiver took %d blocks of %d", response.GetBlocks(), blocks)
	}
	return nil
}
