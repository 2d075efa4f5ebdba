// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/owned"
)

// decision is what to do about an HTTPEndpoint. It follows from what was gathered alone.
type decision struct {
	// usable is what the spec asks for; nil when it cannot be used.
	usable *Wanted
	// pricesLast is how long the prices certainly last that replicas decide by; 0 for ever.
	pricesLast time.Duration
	// apply: what is usable is to be made, on nodes of the affinity.
	apply    bool
	affinity *corev1.Affinity
	// keepServing, if set, is why nothing of the spec is made. Replicas that run go on with what it said before.
	keepServing *agentpod.Problem
	// facts for Observe, but what comes of carrying this out.
	facts Facts
}

// decide does not change its arguments. While no node can take a replica, those that run stay, and what does not change
// what they are made from is followed.
func decide(endpoint *v1alpha1.HTTPEndpoint, in inputs, image agentpod.Image, now time.Time) (decision, error) {
	d := decision{facts: Facts{
		Now: now, Backend: in.backend, Deployment: in.deployment, Replicas: in.replicas.Agents,
		Tariffs: in.tariffs,
	}}
	wanted, problem := Want(endpoint, in.policies, in.tariffs, in.privilegeAllowed, now)
	if problem != nil {
		d.keepServing = problem
		return d, nil
	}
	d.usable, d.facts.NotAllowed = &wanted, in.permission.Problem
	d.pricesLast = wanted.Policy.ServesFor(in.tariffs, now)
	where, err := in.cluster.Decide(wanted.Placement(image.Architectures))
	if err != nil {
		return d, err
	}
	d.facts.Placement, d.affinity, d.apply = &where.Status, where.Affinity, where.Blocked == nil
	if d.apply {
		return d, nil
	}
	d.facts.Blocked = &agentpod.Problem{Reason: v1alpha1.ReasonUnschedulable, Message: where.Blocked.Message}
	if in.deployment != nil {
		d.apply, err = owned.Current(wanted.deployment(in.deployment, where.Affinity, image), in.deployment)
	}
	if !d.apply {
		d.keepServing = d.facts.Blocked
	}
	return d, err
}
