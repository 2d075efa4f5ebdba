// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/table"
)

func newExplain(p *plugin) *cobra.Command {
	var of kind
	var name string
	output := choice{"text", "json", "yaml"}
	return output.addTo(&cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Explain an object of any kind: its conditions, decisions and cost, and what to do next",
		Long: `Explain an object of any kind of Lighterage: what its conditions mean and what to do about them, what was decided
and why, what it cost, and what the alternatives are. It changes nothing.

Of a Transfer that runs or has run, estimate what other engines and levels would have cost. The output tells measured
figures and estimates apart.

It takes the verb get on the object. It explains more of a Transfer with get on nodeprofiles and, for a Transfer within
the cluster, with get on deliveries in the namespace of the destination.`,
		Example: `  kubectl lighterage explain transfer/ledger -n bank
  kubectl lighterage explain queue/orders -n bank
  kubectl lighterage explain peer west
  kubectl lighterage explain transfer ledger -n bank -o json`,
		Args: allKinds.argument(&of, &name), ValidArgsFunction: allKinds.complete(p),
		RunE: action(func(ctx context.Context) error {
			_, report, err := p.explain(ctx, of, name)
			if err != nil {
				return err
			}
			return output.write(p.Out, report, func(to io.Writer) error {
				var text strings.Builder
				if err := report.WriteText(&text); err != nil {
					return err
				}
				return writeNarrow(to, text.String(), columns(p.Out))
			})
		}),
	})
}

// writeNarrow writes a text whose lines are broken where they are wider than a terminal.
func writeNarrow(to io.Writer, text string, width int) error {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if width > 0 && len(line) > width { // as many bytes as columns, or more
			line = table.Wrap(line, "      ", width)
		}
		lines = append(lines, line)
	}
	return writeLines(to, lines)
}

// explain reads an object and what is about it.
func (p *plugin) explain(ctx context.Context, of kind, name string) (explain.Object, *explain.Report, error) {
	if of.name == transfers.name {
		in, err := p.gather(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		report, err := explain.Of(in.Transfer, in)
		return in.Transfer, report, err
	}
	if err := p.open(); err != nil {
		return nil, nil, err
	}
	empty, err := p.cluster.Scheme().New(v1alpha1.GroupVersion.WithKind(of.name))
	if err != nil {
		return nil, nil, fmt.Errorf("finding the kind %s: %w", of.name, err)
	}
	object, ok := empty.(client.Object)
	if !ok {
		return nil, nil, fmt.Errorf("%T is no object", empty)
	}
	if err := p.get(ctx, of, name, object); err != nil {
		return nil, nil, err
	}
	report, err := explain.Of(object, explain.Input{})
	return object, report, err
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
	case plan.HasLegs(transfer):
		return "", "there are several receivers; explain the Transfers in status.destinations", nil
	case plan.Pulls(transfer):
		return "", "the receiver is explained with its Delivery; see status.pull", nil
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
