// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentclient is how the manager talks to the agents of its own cluster and to the gateways of others.
package agentclient

import (
	"context"
	"errors"
	"time"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Errors of Agents and PeerGateway. Test for them with errors.Is; the error that wraps one has the fix in its message.
var (
	// ErrUnreachable: nobody answers. Worth trying again.
	ErrUnreachable = errors.New("unreachable")
	// ErrUntrusted: one side does not accept the other's certificate. Somebody has to fix a Peer.
	ErrUntrusted = errors.New("untrusted")
	// ErrIncompatible: the other side speaks another version of the protocol. Somebody has to upgrade.
	ErrIncompatible = errors.New("incompatible")
	// ErrRejected: an agent does not take what it was sent. Its report says why.
	ErrRejected = errors.New("rejected")
)

// RefusedError is what a gateway does not do, and trying again does not change.
type RefusedError struct {
	// Reason of the refusal, and Message with what to do about it.
	Reason  wirev1.FailureReason
	Message string
}

// Error is of error.
func (r *RefusedError) Error() string { return r.Message }

// Target is an agent of this cluster.
type Target struct {
	// Address is host and port, the host being the pod's IP.
	Address string
	// ServerName that the agent's certificate must hold.
	ServerName string
	// Soon: it is asked again within seconds, so the connection is kept.
	Soon bool
	// Patience is how long an agent that sends or receives may wait for its end with its report; 0: it answers at once, as
	// agents of earlier releases do in any case.
	Patience time.Duration
}

// Agents asks agents of this cluster. Every method is idempotent, may be retried and is bounded by a short deadline of
// its own.
type Agents interface {
	// Report asks a sending or receiving agent what it is at.
	Report(ctx context.Context, target Target) (*wirev1.Report, error)
	// Pause ends a sending agent, which tells the receiving one and leaves its final report.
	Pause(ctx context.Context, target Target) error
	// Limit changes how many bytes per second a sending agent writes at most; 0: any.
	Limit(ctx context.Context, target Target, bytesPerSecond uint64) error
	// Profile asks a node agent what it measured; ErrUnreachable too while it is still measuring.
	Profile(ctx context.Context, target Target) (*wirev1.NodeMeasurement, error)
	// HTTPReport asks a replica of an HTTPEndpoint what it did.
	HTTPReport(ctx context.Context, target Target) (*wirev1.HTTPReport, error)
	// SetHTTPConfig has a replica of an HTTPEndpoint use a configuration, which has a generation. ErrIncompatible: the
	// replica is of an earlier release, or the configuration is longer than wirev1.MaxSentConfig; ErrRejected: it
	// cannot be used, or the replica knows a newer one.
	SetHTTPConfig(ctx context.Context, target Target, config *wirev1.HTTPConfig) error
	// QueueReport asks a member of a Queue what it holds and did.
	QueueReport(ctx context.Context, target Target) (*wirev1.QueueReport, error)
	// SetQueueConfig is SetHTTPConfig for a member of a Queue.
	SetQueueConfig(ctx context.Context, target Target, config *wirev1.QueueConfig) error
}

// Gateway is the gateway of another cluster.
type Gateway struct {
	// Endpoint is host and port.
	Endpoint string
	// CABundle is the other cluster's CA as PEM.
	CABundle []byte
	// Tunnel is what Endpoint, which is this cluster's own gateway then, is asked for, see package tunnel; empty: it is
	// the peer's gateway.
	Tunnel string
	// Dial makes connections to Endpoint; nil: TCP.
	Dial tunnel.Dial
}

// PeerGateway talks to gateways of other clusters. Every method is idempotent and bounded by a deadline of its own.
// ErrUnreachable may be retried; ErrUntrusted and ErrIncompatible will not go away by themselves.
type PeerGateway interface {
	// Hello tells whether the two clusters can talk.
	Hello(ctx context.Context, gateway Gateway) (*wirev1.HelloResponse, error)
	// Withdraw ends every attempt of a Transfer at the other side. It succeeds when there is none.
	Withdraw(ctx context.Context, gateway Gateway, namespace, name string) error
	// WithdrawPull ends what was made at the other side for a Transfer that pulls. It succeeds when there is nothing.
	WithdrawPull(ctx context.Context, gateway Gateway, request *wirev1.WithdrawRequest) error
	// Pull asks for a run of a Transfer at the other side that sends to this one. A *RefusedError is what the other side
	// does not do; ErrIncompatible, too, when it is of a release that does not know pulls.
	Pull(ctx context.Context, gateway Gateway, request *wirev1.PullRequest) (*wirev1.PullResponse, error)
	// Receipt asks for the receiving cluster's part of a receipt and its signature; ErrIncompatible when it is of a
	// release without receipts.
	Receipt(ctx context.Context, gateway Gateway, request ReceiptRequest) (*wirev1.ReceiptResponse, error)
	// History asks what VolumeSnapshots there are of a Transfer's destination after a run; ErrIncompatible when the
	// receiving cluster is of a release that takes none for peers.
	History(ctx context.Context, gateway Gateway, request *wirev1.HistoryRequest) (*wirev1.HistoryResponse, error)
}

// ReceiptRequest names an attempt of a Transfer of this cluster.
type ReceiptRequest struct {
	Namespace, Name, Run string
	Attempt              int32
	// Envelope is the receipt with this cluster's signature; nil before it has signed.
	Envelope []byte
}
