// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/topology"
)

// Unscheduled is what status says of where agents run when the scheduler finds no node for one of their pods: nil when
// it finds one for each. waits is what they wait for, with the fix; it is empty where the scheduler's own words are
// all that there is to say.
func Unscheduled[R Report](
	request placement.Request, cluster *topology.Cluster, agents []Agent[R],
) (where *v1alpha1.PlacementStatus, waits string, err error) {
	for _, agent := range agents {
		if stuck := agentpod.Stuck(agent.Pod); stuck == nil || stuck.Reason != v1alpha1.ReasonUnschedulable {
			continue
		}
		request.Waits = true
		found, err := cluster.Decide(request)
		if err != nil {
			return nil, "", err
		}
		if found.Blocked != nil {
			waits = found.Blocked.Message
		}
		return &found.Status, waits, nil
	}
	return nil, "", nil
}
