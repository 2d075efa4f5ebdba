// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/topology"
)

// inputs are what a decision needs of the cluster.
type inputs struct {
	policies         []v1alpha1.CompressionPolicy
	tariffs          []v1alpha1.Tariff
	neighbours       Neighbours
	privilegeAllowed bool
	set              *appsv1.StatefulSet
	claims           []corev1.PersistentVolumeClaim
	// former is why nothing can be made yet: what another Queue of this name left, or this one made before it was to
	// adopt that.
	former  *agentpod.Problem
	cluster *topology.Cluster
	// expires is how soon the first of the grants does; 0 if none does.
	expires time.Duration
	// permission is what members may dial of the external servers and object stores that the spec names.
	permission egress.Permission
	members    replicas.Heard[*wirev1.QueueReport]
}

func (r *Reconciler) gather(ctx context.Context, queue *v1alpha1.Queue) (inputs, error) {
	var in inputs
	// What a deletion takes with it is final, so for that the API server is asked: the cache may not know yet of what
	// was just made.
	var own client.Reader = r.Client
	if queue.DeletionTimestamp != nil {
		own = r.Reader
	}
	var err error
	in.policies, err = lookup.Policies(ctx, r.Client, queue.Namespace, queue.Spec.Compression.Policy())
	if err != nil {
		return in, err
	}
	tariffs := &v1alpha1.TariffList{}
	if err := r.Client.List(ctx, tariffs, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing Tariffs: %w", err)
	}
	in.tariffs = tariffs.Items
	peers, grants := &v1alpha1.PeerList{}, &v1alpha1.PeerGrantList{}
	if err := r.Client.List(ctx, peers, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing Peers: %w", err)
	}
	if err := r.Client.List(ctx, grants, client.InNamespace(queue.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing the PeerGrants of namespace %s: %w", queue.Namespace, err)
	}
	active := peergrant.Active(grants.Items, r.Clock.Now())
	in.expires = peergrant.UntilExpiration(active, r.Clock.Now())
	in.neighbours = Neighbours{Peers: peers.Items, Grants: active, Tunnels: r.Image.Tunnels}
	if path := r.Image.DataPath; path != string(v1alpha1.DataPathTCP) {
		in.neighbours.DataPath = path // else configurations stay as earlier releases made them
	}
	if queue.DeletionTimestamp == nil &&
		slices.ContainsFunc(active, func(grant v1alpha1.PeerGrant) bool { return opens(&grant, queue) }) {
		key, err := r.Authority.ChannelKey(ctx)
		if err != nil {
			return in, fmt.Errorf("making the server names of channels: %w", err)
		}
		in.neighbours.ChannelKey = key
	}
	if err := r.gatherSiblings(ctx, queue, &in.neighbours); err != nil {
		return in, err
	}
	for _, name := range claimNames(queue.Spec) {
		claim := corev1.PersistentVolumeClaim{}
		found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: queue.Namespace, Name: name}, &claim)
		if err != nil {
			return in, err
		}
		if found {
			in.neighbours.Claims = append(in.neighbours.Claims, claim)
		}
	}
	if in.neighbours.Stores, err = r.gatherStores(ctx, queue); err != nil {
		return in, err
	}

	namespace, err := lookup.Namespace(ctx, r.Client, queue.Namespace)
	if err != nil {
		return in, err
	}
	in.neighbours.NamespaceUID, in.privilegeAllowed = namespace.UID, agentpod.AllowsPrivilege(namespace)

	set := &appsv1.StatefulSet{}
	found, err := lookup.Get(ctx, own, client.ObjectKey{Namespace: queue.Namespace, Name: objectName(queue)}, set)
	if err != nil {
		return in, err
	}
	if found && metav1.IsControlledBy(set, queue) {
		in.set = set
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := own.List(
		ctx, claims, client.InNamespace(queue.Namespace), client.MatchingLabels(selector(queue.UID)),
	); err != nil {
		return in, fmt.Errorf("listing the claims of %s: %w", client.ObjectKeyFromObject(queue), err)
	}
	in.claims = ownClaims(queue, claims.Items)
	if err := r.gatherFormer(ctx, own, queue, &in); err != nil {
		return in, err
	}
	dialled := append(serverUses(queue.Spec.Engine.External), specUses(in.neighbours.Stores)...)
	if in.permission, err = r.Egress.Permission(ctx, queue.Namespace, dialled); err != nil {
		return in, err
	}
	if in.cluster, err = r.Topology.Cluster(ctx); err != nil {
		return in, err
	}
	pods, err := replicas.Pods(ctx, r.Client, queue, selector(queue.UID), func(owner *metav1.OwnerReference) bool {
		return owner.Kind == "StatefulSet" && owner.Name == objectName(queue)
	})
	if err != nil {
		return in, err
	}
	in.members = replicas.Listen(
		r.Reports, client.ObjectKeyFromObject(queue), pods, controlPort, pki.QueueServerName(string(queue.UID)),
		in.cluster,
	)
	in.neighbours.Dictionaries, in.neighbours.DeflateDictionaries = knowDictionaries(
		in.set, in.members.Agents, memberCount(queue.Spec),
	)
	return in, nil
}

// gatherSiblings looks at the Queues of the namespace that send within it, and those that the Queue sends to.
func (r *Reconciler) gatherSiblings(ctx context.Context, queue *v1alpha1.Queue, neighbours *Neighbours) error {
	siblings := &v1alpha1.QueueList{}
	if err := r.Client.List(
		ctx, siblings, client.InNamespace(queue.Namespace), client.MatchingFields{index.SendsHere: index.Yes},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return fmt.Errorf("listing the Queues of namespace %s: %w", queue.Namespace, err)
	}
	neighbours.Queues = siblings.Items
	for _, channel := range queue.Spec.SendingChannels() {
		if channel.Peer != "" || slices.ContainsFunc(neighbours.Queues, func(q v1alpha1.Queue) bool {
			return q.Name == channel.Queue
		}) {
			continue
		}
		to := v1alpha1.Queue{}
		found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: queue.Namespace, Name: channel.Queue}, &to)
		if err != nil {
			return err
		}
		if found {
			neighbours.Queues = append(neighbours.Queues, to)
		}
	}
	if queue.DeletionTimestamp != nil ||
		!slices.ContainsFunc(siblings.Items, func(q v1alpha1.Queue) bool { return sendsHere(&q, queue.Name) }) {
		return nil
	}
	ca, err := r.Authority.CA(ctx)
	if err != nil {
		return fmt.Errorf("reading the cluster's CA: %w", err)
	}
	neighbours.CA = ca.CertificatePEM
	return nil
}
