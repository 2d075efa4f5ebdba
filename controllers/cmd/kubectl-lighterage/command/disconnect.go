// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/link"
)

// maxUsersShown bounds how many objects are named that use a Peer.
const maxUsersShown = 10

type disconnecting struct {
	pair
	force bool
}

func newDisconnect(p *plugin) *cobra.Command {
	d := &disconnecting{pair: pair{plugin: p}}
	cmd := &cobra.Command{
		Use:   "disconnect --to CONTEXT",
		Short: "Remove the Peers by which two clusters were joined",
		Long: `Remove from each of two clusters the Peer that kubectl lighterage connect made for the other one, and the PeerGrants
that it made for that Peer.

Each cluster finds the Peer by the CA of the other one. A Peer that connect did not make is kept: delete it where it is
kept, for example in Git. While Transfers, TransferSets, Deliveries, Queues or other PeerGrants name a Peer, nothing is
removed without --force. After it their runs and channels end with the reason PeerNotFound, and Deliveries from the Peer
are deleted.

It takes, in both clusters, get on the namespace kube-system and on the ConfigMap lighterage-ca of the operator's
namespace; get, list and delete on peers; list on transfers, transfersets, deliveries, queues and peergrants; and delete
on peergrants in the namespaces of those that connect made.`,
		Example: `  kubectl lighterage disconnect --context east --to west`,
		Args:    cobra.NoArgs, PreRunE: d.check, RunE: action(d.run),
	}
	d.addTo(cmd)
	cmd.Flags().BoolVar(&d.force, "force", false, "also while objects name the Peers")
	return cmd
}

func (d *disconnecting) run(ctx context.Context) error {
	if err := d.open(ctx, func(s *side) []right {
		rights := append(s.readRights(), peerRights("delete")...)
		for _, resource := range []string{"transfers", "transfersets", "deliveries", "queues", "peergrants"} {
			rights = append(rights, right{group: v1alpha1.GroupVersion.Group, resource: resource, verb: "list"})
		}
		return rights
	}); err != nil {
		return err
	}
	var found [2][]client.Object
	used := 0
	for i, s := range d.sides {
		other := d.sides[1-i]
		holders, err := link.Find(s.peers, other.bundle)
		if err != nil {
			return fmt.Errorf("cluster %s: reading its CA: %w", other.context, err)
		}
		for _, peer := range holders {
			if peer.Labels[link.MadeByLabel] != link.MadeByConnect {
				d.say("Cluster %s: Peer %s was not made by connect and is kept; delete it where it is kept, for example in Git",
					s.context, peer.Name)
				continue
			}
			users, grants, err := s.users(ctx, peer.Name)
			if err != nil {
				return err
			}
			d.sayUsers(s, peer.Name, users)
			used += len(users)
			found[i] = append(append(found[i], grants...), peer)
		}
	}
	if used > 0 && !d.force {
		return fmt.Errorf("%d objects name the Peers; delete or change them first, or disconnect with --force", used)
	}
	// All rights are asked for before anything is deleted, so that nobody is left with half a link.
	if err := d.demand(ctx, func(s *side) []right {
		if s == d.sides[0] {
			return deleteRights(found[0])
		}
		return deleteRights(found[1])
	}); err != nil {
		return err
	}
	removed := 0
	for i, s := range d.sides {
		for _, object := range found[i] {
			name := nameOf(object)
			uid := object.GetUID()
			if err := client.IgnoreNotFound(s.cluster.Delete(
				ctx, object, client.Preconditions{UID: &uid},
			)); err != nil {
				return s.failed(fmt.Sprintf("deleting %s (%d objects are deleted; repeat the command)", name, removed), err)
			}
			removed++
			d.say("Cluster %s: %s deleted", s.context, name)
		}
	}
	if removed == 0 {
		d.say("There is nothing to remove")
	}
	return nil
}

// deleteRights are those to delete the PeerGrants among objects.
func deleteRights(objects []client.Object) []right {
	var rights []right
	for _, object := range objects {
		r := right{
			group: v1alpha1.GroupVersion.Group, resource: "peergrants", verb: "delete", namespace: object.GetNamespace(),
		}
		if r.namespace != "" && !slices.Contains(rights, r) {
			rights = append(rights, r)
		}
	}
	return rights
}

func (d *disconnecting) sayUsers(s *side, peer string, users []string) {
	if len(users) == 0 {
		return
	}
	shown := strings.Join(users[:min(len(users), maxUsersShown)], ", ")
	if more := len(users) - maxUsersShown; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	d.say("Cluster %s: Peer %s is named by %s", s.context, peer, shown)
}

// nameOf is a Peer or PeerGrant, for people.
func nameOf(object client.Object) string {
	if _, ok := object.(*v1alpha1.Peer); ok {
		return "Peer " + object.GetName()
	}
	return "PeerGrant " + client.ObjectKeyFromObject(object).String()
}

// users are the objects that name a Peer, and, apart from these, the PeerGrants that connect made for it.
func (s *side) users(ctx context.Context, peer string) (users []string, own []client.Object, err error) {
	var transfers v1alpha1.TransferList
	var sets v1alpha1.TransferSetList
	var deliveries v1alpha1.DeliveryList
	var queues v1alpha1.QueueList
	var grants v1alpha1.PeerGrantList
	for _, list := range []client.ObjectList{&transfers, &sets, &deliveries, &queues, &grants} {
		if err := s.cluster.List(ctx, list); err != nil {
			return nil, nil, s.failed(fmt.Sprintf("listing %T", list), err)
		}
	}
	for i := range grants.Items {
		if g := &grants.Items[i]; madeFor(g, peer) {
			own = append(own, g)
		}
	}
	others := slices.DeleteFunc(slices.Clone(grants.Items), func(g v1alpha1.PeerGrant) bool { return madeFor(&g, peer) })
	return usersOf(peer, transfers.Items, sets.Items, deliveries.Items, queues.Items, others), own, nil
}

// madeFor reports whether connect made a PeerGrant, and it names that Peer alone.
func madeFor(g *v1alpha1.PeerGrant, peer string) bool {
	another := func(f v1alpha1.PeerGrantFrom) bool { return f.Peer != peer }
	return g.Labels[link.MadeByLabel] == link.MadeByConnect && len(g.Spec.From) > 0 &&
		!slices.ContainsFunc(g.Spec.From, another)
}

// usersOf names the objects that name a Peer.
func usersOf(
	peer string, transfers []v1alpha1.Transfer, sets []v1alpha1.TransferSet, deliveries []v1alpha1.Delivery,
	queues []v1alpha1.Queue, grants []v1alpha1.PeerGrant,
) []string {
	var users []string
	add := func(kind string, object client.Object) {
		users = append(users, kind+" "+client.ObjectKeyFromObject(object).String())
	}
	for i := range transfers {
		spec := &transfers[i].Spec
		if spec.Destination.Peer == peer || spec.Source.Peer == peer ||
			slices.ContainsFunc(spec.Destinations, func(d v1alpha1.NamedDestination) bool { return d.Peer == peer }) {
			add("Transfer", &transfers[i])
		}
	}
	for i := range sets { // also those that have no members at the moment
		if sets[i].Spec.Template.Destination.Peer == peer {
			add("TransferSet", &sets[i])
		}
	}
	for i := range deliveries {
		if deliveries[i].Spec.Peer == peer {
			add("Delivery", &deliveries[i])
		}
	}
	for i := range queues {
		if slices.Contains(queues[i].Spec.SendingPeers(), peer) {
			add("Queue", &queues[i])
		}
	}
	for i := range grants {
		if slices.ContainsFunc(grants[i].Spec.From, func(f v1alpha1.PeerGrantFrom) bool { return f.Peer == peer }) {
			add("PeerGrant", &grants[i])
		}
	}
	return users
}
