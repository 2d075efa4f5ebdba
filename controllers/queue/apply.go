// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/owned"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch

// memory is what the manager remembers of a Queue.
type memory struct {
	secret    agentsecret.State
	published published
	// rolloutWaits: members are to be replaced, and it is not this Queue's turn.
	rolloutWaits bool
}

// ensureAll makes what is wanted to be, and returns the StatefulSet as it is then. The problem is what the API server,
// or somebody else's object, has against it.
func (r *Reconciler) ensureAll(
	ctx context.Context, wanted Wanted, in inputs, affinity *corev1.Affinity,
) (*appsv1.StatefulSet, *agentpod.Problem, error) {
	set, problem, err := r.tryAll(ctx, wanted, in, affinity)
	rejected, err := owned.Persistent(&r.rejected, wanted.Queue, err, r.Clock.Now())
	if rejected != nil {
		problem = rejected
	}
	return set, problem, err
}

// tryAll is ensureAll, whose error may be one that will not go.
func (r *Reconciler) tryAll(
	ctx context.Context, wanted Wanted, in inputs, affinity *corev1.Affinity,
) (*appsv1.StatefulSet, *agentpod.Problem, error) {
	queue := wanted.Queue
	if problem, err := r.labelClaims(ctx, queue, in.claims); problem != nil || err != nil {
		return in.set, problem, err
	}
	refused, err := r.growClaims(ctx, queue, in.claims)
	if err != nil {
		return in.set, nil, err
	}
	if refused != nil {
		// Members must not count on space that they do not get. All else goes on.
		if wanted, err = wanted.within(in.claims); err != nil {
			return in.set, nil, err
		}
	}
	m := r.memories.Of(client.ObjectKeyFromObject(queue), queue.UID)
	if problem, err := r.ensureSecret(ctx, wanted, m, wanted.content(), in); problem != nil || err != nil {
		return in.set, problem, err
	}
	if problem, err := r.ensureNetwork(ctx, wanted, in.permission.Services); problem != nil || err != nil {
		return in.set, problem, err
	}
	present := in.set
	for _, object := range wanted.Objects(present, affinity, r.Image) {
		if set, ok := object.(*appsv1.StatefulSet); ok {
			may, err := r.mayRoll(queue, set, present)
			if err != nil {
				return present, nil, err
			}
			if m.rolloutWaits = !may; !may {
				continue
			}
		}
		after, problem, err := r.objects.Ensure(ctx, queue, object)
		if problem != nil || err != nil {
			return present, problem, err
		}
		if set, ok := after.(*appsv1.StatefulSet); ok {
			present = set
		}
	}
	if problem, err := r.publishCA(ctx, wanted, m); problem != nil || err != nil {
		return present, problem, err
	}
	return present, refused, nil
}

// mayRoll reports whether the StatefulSet may become what is wanted now.
func (r *Reconciler) mayRoll(queue *v1alpha1.Queue, wanted, present *appsv1.StatefulSet) (bool, error) {
	if present == nil {
		return true, nil
	}
	atOnce := owned.SpecChanged(queue, present) || readyMembers(present) == 0
	return r.rollouts.May(
		queue.UID, wanted, present, atOnce, rolledOut(present, memberCount(queue.Spec)), r.Clock.Now(),
	)
}

// ensureSecret writes the Secret with the members' configuration and identity when either has changed. Members that
// lack the configuration are sent it at once; the Secret is where they find it when they start again.
func (r *Reconciler) ensureSecret(
	ctx context.Context, wanted Wanted, m *memory, content agentsecret.Content, in inputs,
) (*agentpod.Problem, error) {
	queue := wanted.Queue
	content, err := r.permitted(ctx, queue.Namespace, content)
	if err != nil {
		return nil, err
	}
	content.Identity = pki.QueueIdentity(r.Cluster, queue.Namespace, queue.Name)
	content.ServerNames = serverNames(queue)
	var holder client.Object
	if in.set != nil {
		holder = in.set
	}
	content.Newest = replicas.NewestGeneration(in.members.Agents)
	problem, err := r.secrets.Ensure(ctx, &m.secret, wanted.meta(objectName(queue)), content, holder)
	if config, ok := content.Config.(*wirev1.QueueConfig); ok && problem == nil && err == nil {
		r.Reports.Configure(client.ObjectKeyFromObject(queue), agentsecret.Numbered(&m.secret, config))
	}
	return problem, err
}

// keepServing looks after members that run while the spec cannot be followed for the problem. They go on with what it
// said before, and with certificates that are renewed in time. It returns the problem with what else there is to say.
func (r *Reconciler) keepServing(
	ctx context.Context, queue *v1alpha1.Queue, in inputs, problem agentpod.Problem,
) (*agentpod.Problem, error) {
	if in.set == nil {
		return &problem, nil
	}
	content, known := agentsecret.Recorded(in.set, &wirev1.QueueConfig{})
	if !known {
		problem.Message += "; certificates of its members are not renewed until then"
		return &problem, nil
	}
	m := r.memories.Of(client.ObjectKeyFromObject(queue), queue.UID)
	before := Wanted{Queue: queue}
	refused, err := r.ensureSecret(ctx, before, m, content, in)
	if refused == nil && err == nil {
		refused, err = r.publishCA(ctx, before, m)
	}
	if refused != nil {
		problem.Message += "; besides, " + refused.Message
	}
	return &problem, err
}

// within is the same for members whose claims are as they are.
func (w Wanted) within(claims []corev1.PersistentVolumeClaim) (Wanted, error) {
	size := w.Queue.Spec.Storage.Size
	for i := range claims {
		if has := claims[i].Spec.Resources.Requests.Storage(); has.Cmp(size) < 0 {
			size = *has
		}
	}
	return w.limited(size)
}

// limited is the same for members that have so much storage.
func (w Wanted) limited(size resource.Quantity) (Wanted, error) {
	queue := w.Queue.DeepCopy()
	queue.Spec.Storage.Size = size
	w.Queue = queue
	w, err := w.configured()
	if err != nil {
		return w, fmt.Errorf("making the configuration for %s of storage: %w", &queue.Spec.Storage.Size, err)
	}
	return w, nil
}

// growClaims asks for claims that are as large as the spec says. They never become smaller. One that is not bound yet
// cannot grow, and is looked at again when it is.
func (r *Reconciler) growClaims(
	ctx context.Context, queue *v1alpha1.Queue, claims []corev1.PersistentVolumeClaim,
) (*agentpod.Problem, error) {
	for i := range claims {
		claim := &claims[i]
		if claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound ||
			claim.Spec.Resources.Requests.Storage().Cmp(queue.Spec.Storage.Size) >= 0 {
			continue
		}
		grown := claim.DeepCopy()
		grown.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: queue.Spec.Storage.Size}
		if err := r.Client.Patch(ctx, grown, client.MergeFrom(claim), client.FieldOwner(conditions.FieldOwner)); err != nil {
			claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
			return owned.Refusal(claim, fmt.Errorf("growing claim %s: %w", client.ObjectKeyFromObject(claim), err))
		}
	}
	return nil, nil
}
