// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"net"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// limitRetry is the wait after an agent could not be given another limit.
const limitRetry = 30 * time.Second

// sender is the sending agent of the attempt in status; runs is false when it cannot be asked.
func sender(transfer *v1alpha1.Transfer, facts plan.TransferFacts) (target agentclient.Target, runs bool) {
	ip, runs := attempt.AgentToAsk(facts.Job, facts.Pod)
	return agentclient.Target{
		Address:    net.JoinHostPort(ip, strconv.Itoa(agentpod.ControlPort)),
		ServerName: pki.SendServerName(string(transfer.UID)),
	}, runs
}

// pause asks the agent to end, and reports whether it will. One of an older release does not know how.
func (r *Reconciler) pause(ctx context.Context, transfer *v1alpha1.Transfer, facts plan.TransferFacts) bool {
	target, runs := sender(transfer, facts)
	if !runs {
		return false
	}
	err := r.Agents.Pause(ctx, target)
	if err != nil {
		log.FromContext(ctx).V(1).Info("The agent cannot be asked to pause and is ended", "reason", err.Error())
	}
	return err == nil
}

// limit gives the agent the limit of the decision. One that does not take it keeps its own, as status then says.
func (r *Reconciler) limit(
	ctx context.Context, transfer *v1alpha1.Transfer, facts plan.TransferFacts, decision *plan.TransferDecision,
) {
	target, runs := sender(transfer, facts)
	if !decision.Limit || !runs {
		return
	}
	bytesPerSecond := uint64(0)
	if limit := plan.Bandwidth(decision.Status.Run); limit != nil {
		bytesPerSecond = uint64(max(limit.Value(), 0)) //nolint:gosec // It is not negative.
	}
	err := r.Agents.Limit(ctx, target, bytesPerSecond)
	r.raises.note(target, r.Clock.Now(), err)
	if err != nil {
		log.FromContext(ctx).Info("The agent does not take another limit of bandwidth yet", "reason", err.Error())
		decision.Status.Run.BandwidthLimit = transfer.Status.Run.BandwidthLimit
		decision.Status.Run.BandwidthShare = transfer.Status.Run.BandwidthShare
		decision.Status.Run.WindowLimit = transfer.Status.Run.WindowLimit
		decision.RequeueAfter = sooner(decision.RequeueAfter, limitRetry)
	}
}
