// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

// askForHistory asks the cluster of the destination what snapshots there are, unless it was asked a moment ago or is
// asked for another Transfer now.
func (r *Reconciler) askForHistory(
	ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts,
) error {
	pause := plan.HistoryPause(transfer, facts.Now)
	other, err := r.receiverOf(transfer, facts)
	if peer, ok := other.(peerReceiver); ok {
		end, wait := r.histories.begin(transfer.UID, peer.peer.Name, pause)
		if wait > 0 {
			facts.History.Again = wait
			return nil
		}
		defer func() { end(pause) }()
		facts.History.Answer, err = r.Gateways.History(ctx, r.gatewayOf(peer.peer), &wirev1.HistoryRequest{
			Namespace: transfer.Namespace, Name: transfer.Name, RunId: transfer.Status.Run.ID,
		})
	}
	if facts.History.Problem = peerProblem(err); facts.History.Problem != nil {
		err = nil
	}
	facts.History.Seen = err == nil
	return err
}

// peerProblem is what an error of another cluster means; nil for one of this cluster.
func peerProblem(err error) *agentpod.Problem {
	for cause, reason := range map[error]string{
		agentclient.ErrUnreachable: v1alpha1.ReasonPeerUnreachable, agentclient.ErrUntrusted: v1alpha1.ReasonPeerUntrusted,
		agentclient.ErrIncompatible: v1alpha1.ReasonPeerIncompatible,
	} {
		if errors.Is(err, cause) {
			return &agentpod.Problem{Reason: reason, Message: err.Error()}
		}
	}
	return nil
}
