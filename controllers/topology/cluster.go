// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/usage"
)

// maxDecisions bounds how many decisions a Cluster remembers, since tenants choose what they ask for.
const maxDecisions = 1024

// Cluster is where agents that mount no claim and hold no slot of an accelerator can be, as it was at one time:
// replicas of HTTPEndpoints and members of Queues, which do not end. Slots are for agents that do; one that took a slot
// would keep it, and where it may be would change with what the others take.
//
// It remembers decisions. While no node changes, those of HTTPEndpoints and Queues stay the same, and most ask for the
// same thing.
type Cluster struct {
	facts     placement.Facts
	gateway   float64
	mu        sync.Mutex
	decisions map[string]placement.Plan
}

// NewCluster returns a Cluster with these nodes, in the order of their names, and profiles. Neither may be changed any
// more.
func NewCluster(facts placement.Facts) *Cluster {
	facts.FreeSlots = nil
	return &Cluster{facts: facts, decisions: map[string]placement.Plan{}}
}

// Cluster is what is seen now.
func (t *Topology) Cluster(ctx context.Context) (*Cluster, error) { return t.cluster.get(ctx) }

func (t *Topology) newCluster(ctx context.Context) (*Cluster, error) {
	present, err := t.nodes.get(ctx)
	if err != nil {
		return nil, err
	}
	profiles, err := t.profiles.get(ctx)
	c := NewCluster(placement.Facts{Nodes: present.all, Profiles: profiles})
	c.gateway = math.Float64frombits(t.gateway.Load())
	return c, err
}

// SetGateway says how many seconds of CPU time gateways spend for each GiB that they pass.
func (t *Topology) SetGateway(perGiB float64) {
	t.gateway.Store(math.Float64bits(perGiB))
	t.cluster.changed()
}

// Profiles that the node agents filled, by the name of the node. They must not be changed.
func (c *Cluster) Profiles() map[string]v1alpha1.NodeProfileStatus { return c.facts.Profiles }

// Network is what was measured for a node; nil where nothing was, or nothing that is plausible.
func (c *Cluster) Network(node string) *usage.NetworkCost {
	status := c.facts.Profiles[node]
	perGiB, ok := seconds(status.NetworkCPUSecondsPerGiB)
	if !ok {
		return nil
	}
	network := &usage.NetworkCost{PerGiB: perGiB, Gateway: c.gateway}
	if measured := status.Network; measured != nil {
		acknowledgement, first := seconds(measured.PushMicrosecondsPerSegment)
		segment, second := seconds(measured.PullMicrosecondsPerSegment)
		bytes, third := seconds(measured.PullSecondsPerGiB)
		if first && second && third {
			network.Segments = &usage.SegmentCost{
				Acknowledgement: acknowledgement / 1e6, Segment: segment / 1e6, PerGiB: bytes,
			}
		}
	}
	return network
}

// Cores of a node; of one that was not measured, those of the largest node that was, and 0 if none was.
func (c *Cluster) Cores(node string) int32 {
	if n := c.facts.Profiles[node].Cores; n > 0 {
		return n
	}
	var most int32
	for _, profile := range c.facts.Profiles {
		most = max(most, profile.Cores)
	}
	return most
}

// seconds reads a coefficient.
func seconds(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n >= 0 && n <= 1e6
}

// Labels of a node; nil if there is none of that name. They must not be changed.
func (c *Cluster) Labels(node string) map[string]string {
	i, found := slices.BinarySearchFunc(c.facts.Nodes, node, func(n corev1.Node, name string) int {
		return strings.Compare(n.Name, name)
	})
	if !found {
		return nil
	}
	if labels := c.facts.Nodes[i].Labels; labels != nil {
		return labels
	}
	return map[string]string{}
}

// Decide is placement.Decide for this cluster. What it returns is the caller's.
func (c *Cluster) Decide(request placement.Request) (placement.Plan, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return placement.Plan{}, fmt.Errorf("encoding what is wanted of a node: %w", err)
	}
	key := string(text)
	c.mu.Lock()
	decided, known := c.decisions[key]
	c.mu.Unlock()
	if !known {
		decided = placement.Decide(request, c.facts)
		c.mu.Lock()
		if len(c.decisions) < maxDecisions {
			c.decisions[key] = decided
		}
		c.mu.Unlock()
	}
	decided.Affinity, decided.Status = decided.Affinity.DeepCopy(), *decided.Status.DeepCopy()
	if decided.Blocked != nil {
		blocked := *decided.Blocked
		decided.Blocked = &blocked
	}
	return decided, nil
}
