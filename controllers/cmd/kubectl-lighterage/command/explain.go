// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/plan"
)

func newExplain(p *plugin) *cobra.Command {
	var name string
	output := choice{"text", "json", "yaml"}
	return output.addTo(&cobra.Command{
		Use:   "explain transfer/NAME",
		Short: "Explain the compression of a Transfer and estimate other choices",
		Long: `Explain what was decided about the compression of a Transfer that runs or has run, and on which figures. Estimate
what other engines and levels would have cost. The output tells measured figures and estimates apart.

It takes the verb get on transfers. It explains more with get on nodeprofiles and, for a Transfer within the
cluster, with get on deliveries in the namespace of the destination.`,
		Example: `  kubectl lighterage explain transfer/ledger -n bank
  kubectl lighterage explain transfer ledger -n bank -o json`,
		Args: transfers.argument(&name), ValidArgsFunction: p.complete(transfers),
		RunE: action(func(ctx context.Context) error {
			in, err := p.gather(ctx, name)
			if err != nil {
				return err
			}
			explanation, err := explain.Explain(in)
			if err != nil {
				return err
			}
			return output.write(p.Out, explanation, explanation.WriteText)
		}),
	})
}

// gather reads a Transfer and what is known of the nodes of both sides.
func (p *plugin) gather(ctx context.Context, name string) (explain.Input, error) {
	in := explain.Input{Transfer: &v1alpha1.Transfer{}}
	if err := p.get(ctx, transfers, name, in.Transfer); err != nil {
		return in, err
	}
	run := in.Transfer.Status.Run
	if run == nil {
		return in, nil
	}
	var err error
	if in.Sender, in.SenderUnknown, err = profile(ctx, p.cluster, run.Node); err != nil {
		return in, err
	}
	node, why, err := receiver(ctx, p.cluster, in.Transfer)
	if err != nil || why != "" {
		in.ReceiverUnknown = why
		return in, err
	}
	in.Receiver, in.ReceiverUnknown, err = profile(ctx, p.cluster, node)
	return in, err
}

// profile is the NodeProfile of a node. Where it cannot be read for a reason that leaves enough to say, unknown says
// why.
func profile(
	ctx context.Context, cluster client.Client, node string,
) (found *v1alpha1.NodeProfile, unknown string, err error) {
	if node == "" {
		return nil, "the node is not known yet", nil
	}
	found = &v1alpha1.NodeProfile{}
	err = cluster.Get(ctx, client.ObjectKey{Name: node}, found)
	switch {
	case err == nil && len(found.Status.Engines) == 0:
		return nil, fmt.Sprintf(
			"the NodeProfile of node %s has no measurement yet; kubectl describe nodeprofile %s says why", node, node,
		), nil
	case err == nil:
		return found, "", nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf(
			"you may not read the NodeProfile of node %s; ask for a ClusterRole with the verb get on nodeprofiles of "+
				"lighterage.dev",
			node,
		), nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Sprintf(
			"there is no NodeProfile of node %s; the node is gone, or the node agent does not run there", node,
		), nil
	}
	return nil, "", fmt.Errorf("reading NodeProfile %s: %w", node, err)
}

// receiver is the node that received; unknown says why it is not known.
func receiver(
	ctx context.Context, cluster client.Client, transfer *v1alpha1.Transfer,
) (node, unknown string, err error) {
	run := transfer.Status.Run
	switch {
	case !plan.IsLocal(transfer):
		return "", fmt.Sprintf(
			"the receiver is in the cluster of Peer %s, whose NodeProfiles this cluster does not have",
			transfer.Spec.Destination.Peer,
		), nil
	case run.Route == v1alpha1.RoutePod:
		return run.Node, "", nil
	}
	key := client.ObjectKey{Namespace: transfer.Spec.Destination.Namespace}
	if key.Namespace == "" {
		key.Namespace = transfer.Namespace
	}
	key.Name = plan.DeliveryName(
		"", v1alpha1.TransferReference{Namespace: transfer.Namespace, Name: transfer.Name, Run: run.ID, Attempt: run.Attempt},
	)
	var delivery v1alpha1.Delivery
	err = cluster.Get(ctx, key, &delivery)
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Sprintf(
			"you may not read Delivery %s, which names the receiver's node; ask for a Role there with the verb get on "+
				"deliveries of lighterage.dev",
			key,
		), nil
	case apierrors.IsNotFound(err):
		return "", fmt.Sprintf("Delivery %s, which named the receiver's node, is gone", key), nil
	case err != nil:
		return "", "", fmt.Errorf("reading Delivery %s: %w", key, err)
	case delivery.Status.Run == nil:
		return "", fmt.Sprintf("Delivery %s does not name the receiver's node yet", key), nil
	}
	return delivery.Status.Run.Node, "", nil
}
