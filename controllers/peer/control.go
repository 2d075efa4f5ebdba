// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/route"
)

// Controls returns the state of the control connections that this cluster's gateways have with a Peer.
type Controls func(ctx context.Context, peer string) (reverse.State, error)

// observeControl sets what status says of control connections, and returns the condition; none without them.
func (r *Reconciler) observeControl(ctx context.Context, peer *v1alpha1.Peer) []metav1.Condition {
	if !route.Controlled(peer) {
		peer.Status.Control = nil
		return nil
	}
	state, err := r.options.Controls(ctx, peer.Name)
	if err != nil {
		// What was known last is as good as any guess, but for a condition.
		return []metav1.Condition{{
			Type: v1alpha1.ConditionConnected, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonConnecting,
			Message: fmt.Sprintf("This cluster's gateways do not tell of their control connections: %v", err),
		}}
	}
	peer.Status.Control = controlStatus(peer.Status.Control, state)
	return []metav1.Condition{connected(peer, state)}
}

// controlStatus is what status says of a state. While the same error comes again, with each attempt, its time stays:
// else each look at a peer that is down would be a write.
func controlStatus(before *v1alpha1.PeerControlStatus, state reverse.State) *v1alpha1.PeerControlStatus {
	status := &v1alpha1.PeerControlStatus{
		Connections: int32(min(state.Connections, 1<<20)), LastError: conditions.Shorten(state.Error),
	}
	// As the API server keeps them, so that the same state is no change.
	second := func(t time.Time) *metav1.Time {
		if t.IsZero() {
			return nil
		}
		return &metav1.Time{Time: t.Truncate(time.Second)}
	}
	status.Since, status.LastErrorTime = second(state.Since), second(state.ErrorTime)
	if before != nil && before.LastError == status.LastError && before.LastErrorTime != nil {
		status.LastErrorTime = before.LastErrorTime
	}
	return status
}

// connected is the condition of a state.
func connected(peer *v1alpha1.Peer, state reverse.State) metav1.Condition {
	switch {
	case state.Connections > 0:
		return conditions.New(v1alpha1.ConditionConnected, true, v1alpha1.ReasonControlConnected,
			"The gateways have control connections, by which the cluster that cannot be dialled is asked for others")
	case peer.Spec.Connection == v1alpha1.PeerListen:
		return conditions.New(v1alpha1.ConditionConnected, false, v1alpha1.ReasonNotConnected,
			"The other cluster's gateway keeps no control connection to this cluster; set connection: Dial on the Peer "+
				"there that stands for this cluster, and read its condition Connected")
	case state.Error == "":
		return conditions.New(v1alpha1.ConditionConnected, false, v1alpha1.ReasonConnecting,
			"This cluster's gateway makes its first control connection")
	default:
		return conditions.New(v1alpha1.ConditionConnected, false, reasonOf(state.Reason, v1alpha1.ReasonNotConnected),
			"This cluster's gateway cannot make a control connection: "+state.Error)
	}
}

// reasonOf is the reason of a condition for that of a tunnel that was refused.
func reasonOf(reason tunnel.Reason, otherwise string) string {
	switch reason {
	case tunnel.NotConnected:
		return v1alpha1.ReasonNotConnected
	case tunnel.ProxyAuthentication:
		return v1alpha1.ReasonProxyAuthenticationFailed
	case tunnel.ProxyRefused:
		return v1alpha1.ReasonProxyRefused
	case tunnel.ProxyUnreachable:
		return v1alpha1.ReasonProxyUnreachable
	default:
		return otherwise
	}
}
