// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/owned"
	"github.com/lighterage/lighterage/controllers/quota"
)

// decision is what to do about a Queue. It follows from what was gathered alone.
type decision struct {
	// askAgain: members are asked again before messages are deleted that may have come since. Nothing else is to be
	// done.
	askAgain bool
	// release: the Queue goes, and its claims with it. Nothing else is to be done.
	release bool
	// ask is what the namespace's quotas are to admit before anything is made of it. The decision is made again with
	// their answer.
	ask *quota.Request
	// admitted, if set, is the storage that the quotas admitted. It is written to status before anything is made of it.
	admitted *resource.Quantity
	// usable is what the spec asks for, with the storage that was admitted; nil when it cannot be used.
	usable *Wanted
	// exceeded is why that is less storage than the spec asks for.
	exceeded *agentpod.Problem
	// apply: what is usable is to be made, on nodes of the affinity.
	apply    bool
	affinity *corev1.Affinity
	// pricesLast is how long the prices certainly last that members decide by; 0 for ever.
	pricesLast time.Duration
	// keepServing, if set, is why nothing of the spec is made. Members that run go on with what it said before.
	keepServing *agentpod.Problem
	// facts are those for Observe, but what comes of carrying this out.
	facts Facts
}

// decide does not change its arguments. answer is that to an earlier decision's ask, nil for the first decision.
func decide(
	queue *v1alpha1.Queue, in inputs, image agentpod.Image, now time.Time, answer *quota.Answer,
) (decision, error) {
	d := decision{facts: Facts{Now: now, Set: in.set, Members: in.members.Agents, Tariffs: in.tariffs}}
	if queue.DeletionTimestamp != nil {
		d.facts.Kept = keep(queue, in)
		d.askAgain = !in.members.Asked || in.members.Oldest > freshness && d.facts.Kept == nil
		d.release = !d.askAgain && d.facts.Kept == nil
		if d.askAgain || d.release {
			return d, nil
		}
	}
	wanted, problem := Want(queue, in.policies, in.tariffs, in.neighbours, in.privilegeAllowed, now)
	if problem == nil {
		problem = in.former
	}
	if problem != nil {
		d.keepServing = problem
		return d, nil
	}
	d.pricesLast = wanted.Policy.ServesFor(in.tariffs, now)
	if err := d.admit(wanted, answer); err != nil || d.usable == nil {
		return d, err
	}
	return d, d.place(in, image)
}

// admit limits what is wanted to the storage that the namespace's quotas admit.
func (d *decision) admit(wanted Wanted, answer *quota.Answer) error {
	queue := wanted.Queue
	admitted, asked := queue.Status.StorageSize, queue.Spec.Storage.Size
	switch {
	case queue.DeletionTimestamp != nil || admitted != nil && admitted.Cmp(asked) >= 0:
	case answer == nil:
		request := quota.QueueRequest(queue)
		d.ask = &request
		return nil
	case answer.Exceeded == nil:
		size := asked.DeepCopy()
		d.admitted, d.usable = &size, &wanted
		return nil
	default:
		d.exceeded = &agentpod.Problem{Reason: v1alpha1.ReasonQuotaExceeded, Message: storageExceeds(queue, *answer.Exceeded)}
		if admitted == nil {
			d.keepServing = d.exceeded
			return nil
		}
	}
	if admitted != nil && admitted.Cmp(asked) < 0 {
		var err error
		if wanted, err = wanted.limited(*admitted); err != nil {
			return err
		}
	}
	d.usable = &wanted
	return nil
}

// place decides where members may run. While no node can take one, those that run stay, and what does not change what
// they are made from, which would stop them first, is followed.
func (d *decision) place(in inputs, image agentpod.Image) error {
	d.facts.NotAllowed = in.permission.Problem
	where, err := in.cluster.Decide(d.usable.Placement(image.Architectures))
	if err != nil {
		return err
	}
	d.facts.Placement, d.affinity, d.apply = &where.Status, where.Affinity, where.Blocked == nil
	if d.apply {
		return nil
	}
	d.facts.Blocked = &agentpod.Problem{Reason: v1alpha1.ReasonUnschedulable, Message: where.Blocked.Message}
	if in.set != nil {
		d.apply, err = owned.Current(d.usable.statefulSet(in.set, where.Affinity, image), in.set)
	}
	if !d.apply {
		d.keepServing = d.facts.Blocked
	}
	return err
}
