// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ClaimPatience is how long a receiver keeps a connection for blocks that was made before its session. A sender uses
// one within half of that.
const ClaimPatience = time.Minute

// maxSmall bounds a message without a block, in bytes.
const maxSmall = 1024

// WriteClaim says to which session a connection belongs that was made before the session. Blocks follow.
func WriteClaim(w io.Writer, session []byte) error {
	return writeSmall(w, &wirev1.DataRequest{Session: session})
}

// ReadClaim waits for what WriteClaim writes.
func ReadClaim(r io.Reader) (session []byte, err error) {
	var claim wirev1.DataRequest
	if err := readSmall(r, &claim); err != nil {
		return nil, err
	}
	if len(claim.GetSegments()) > 0 || len(claim.GetBlock()) > 0 {
		return nil, Invalid("a connection begins with a block instead of its session")
	}
	return claim.GetSession(), nil
}

// writeSmall writes a message after its length in 4 bytes, big-endian.
func writeSmall(w io.Writer, m proto.Message) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(proto.Size(m)))
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		return fmt.Errorf("marshal a %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	_, err = w.Write(b)
	return err
}

// readSmall reads what writeSmall writes. Its errors have a reason.
func readSmall(r io.Reader, m proto.Message) error {
	var buffer [4 + maxSmall]byte
	if _, err := io.ReadFull(r, buffer[:4]); err != nil {
		return Lost(err)
	}
	n := binary.BigEndian.Uint32(buffer[:])
	name := m.ProtoReflect().Descriptor().Name()
	if n > maxSmall {
		return Invalid("a %s of %d bytes; the limit is %d", name, n, maxSmall)
	}
	if _, err := io.ReadFull(r, buffer[4:4+n]); err != nil {
		return Lost(err)
	}
	if err := proto.Unmarshal(buffer[4:4+n], m); err != nil {
		return Invalid("a %s cannot be read: %w", name, err)
	}
	return nil
}
