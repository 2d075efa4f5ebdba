// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Conn is a connection to the receiver, or to the gateway.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
	// Ready waits until the connection is made. It fails when the context ends, or at once when there is no trust.
	Ready(context.Context) error
	// Untrusted returns why there is no trust between the sides, as an error with a reason, or nil.
	Untrusted() error
}

// connectPatience is how long a sender tries to reach the receiver, which was ready a moment ago.
const connectPatience = 2 * time.Minute

// ready waits until the receiver can be reached.
func ready(ctx context.Context, conn Conn, direct bool) error {
	limited, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	err := conn.Ready(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		if direct {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
				"the receiving agent cannot be reached since %v: look at the Delivery, and check that a NetworkPolicy lets "+
					"agents reach its port 8443", connectPatience)
		}
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE,
			"the receiving agent cannot be reached through the peer's gateway since %v: look at the Delivery in the other "+
				"cluster", connectPatience)
	}
	return err
}

// lost is protocol.Lost for an error that want of trust may explain.
func lost(conn Conn, err error) error {
	if untrusted := conn.Untrusted(); untrusted != nil {
		return untrusted
	}
	return protocol.Lost(err)
}
