// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/longpath"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/wire/datapath"
	"github.com/lighterage/lighterage/agent/wire/tunnel"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// openTimeout is how long a gateway may take to say how to reach a queue.
const openTimeout = 30 * time.Second

// Destination is a queue of another cluster, or of this one.
type Destination struct {
	// Address is the host and port of a queue of this cluster, whose members have ServerName; empty: Gateway is asked.
	Address, ServerName string
	// Gateway is the host and port of the cluster's gateway, or of this cluster's own, which is asked for Tunnel then.
	// See package tunnel.
	Gateway, Tunnel string
	// Namespace and Queue there.
	Namespace, Queue string
	// Files are those of the sending queue. CAFile among them vouches for the other cluster; empty: that of its peer.
	Files  *transport.Files
	CAFile string
	// Counter of the bytes of all connections; nil: nobody counts.
	Counter *transport.Counter
	// Try is the path that connections are to take.
	Try datapath.Path

	// made are the connections of the last call of Connect; nil before the first.
	made atomic.Pointer[connections]
}

// connections are those of one start of the channel. What those before were does not count.
type connections struct {
	paths  datapath.Paths
	newest atomic.Pointer[longpath.Path]
}

// DataPath is that of the connections which the last call of Connect has made; nil while there are none.
func (d *Destination) DataPath() *wirev1.DataPath {
	made := d.made.Load()
	if made == nil {
		return nil
	}
	seen := made.paths.Seen()
	if path := made.newest.Load(); seen != nil && path != nil {
		seen.RoundTripNanos, seen.CongestionControl = uint64(path.RoundTrip), path.Control
	}
	return seen
}

// Connect asks the gateway, if there is one, for the way to the queue, each time again since it may have changed, and
// returns a connection that is made when it is first used.
func (d *Destination) Connect(ctx context.Context) (Link, error) {
	made := &connections{paths: datapath.Paths{Try: d.Try}}
	d.made.Store(made)
	dialer := &transport.Dialer{
		Address: d.Address, Files: d.Files, Counter: d.Counter, Connect: made.paths.DialContext,
		Adapted: func(path longpath.Path) { made.newest.Store(&path) },
	}
	if d.Address != "" {
		return dialer.DialOwn(d.ServerName)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	dialer.Address, dialer.CAFile = d.Gateway, d.CAFile
	dialer.Connect = tunnel.Through(made.paths.DialContext, d.Tunnel, d.Files.Certificate)
	gateway, err := dialer.Dial(transport.GatewayServerName)
	if err != nil {
		return nil, err
	}
	defer func() { _ = gateway.Close() }() // It was used once.
	if err := gateway.Ready(ctx); err != nil {
		return nil, unreachable(gateway, err)
	}
	answer, err := d.open(ctx, gateway, wirev1.ProtocolVersion)
	if err != nil {
		return nil, err
	}
	if answer.GetServerName() == "" {
		return nil, invalid("the peer's gateway named no way to the queue")
	}
	return dialer.Dial(answer.GetServerName())
}

// open asks in a version of the protocol, and in an older one, if that is spoken here, where the gateway rejects the
// newer.
func (d *Destination) open(
	ctx context.Context, gateway *transport.Client, version uint32,
) (*wirev1.OpenQueueResponse, error) {
	answer, err := wirev1.NewGatewayClient(gateway).OpenQueue(ctx, &wirev1.OpenQueueRequest{
		ProtocolVersion: version, Namespace: d.Namespace, Name: d.Queue,
	})
	if err == nil {
		return answer, nil
	}
	err = unreachable(gateway, err)
	if failure.Is(err, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE) && wirev1.Speaks(version-1) {
		return d.open(ctx, gateway, version-1)
	}
	return nil, err
}

// unreachable gives an error of a call to a gateway a reason.
func unreachable(gateway *transport.Client, err error) error {
	if untrusted := gateway.Untrusted(); untrusted != nil {
		return untrusted
	}
	for _, detail := range grpcstatus.Convert(err).Details() {
		if refused, ok := detail.(*wirev1.Failure); ok {
			return failure.FromWire(refused)
		}
	}
	if grpcstatus.Code(err) == codes.Unimplemented {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the peer's gateway does not know queues (%w): use the same release of Lighterage in both clusters", err)
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE,
		"the peer's gateway did not answer (%w): check the endpoint of the Peer, and that the network lets this cluster "+
			"reach it; messages wait here", err)
}

// Admission returns what NewReceiver needs to let callers in.
func Admission(callers *transport.Callers) func(context.Context) (Source, error) {
	return func(ctx context.Context) (Source, error) {
		who, err := callers.FromContext(ctx)
		if err != nil {
			return Source{}, failure.New(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "%w", err)
		}
		return Source(who), nil
	}
}
