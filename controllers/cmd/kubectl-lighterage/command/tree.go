// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/overview"
)

func newTree(p *plugin) *cobra.Command {
	var name, other string
	output := choice{"text", "json", "yaml"}
	cmd := output.addTo(&cobra.Command{
		Use:   "tree transfer/NAME",
		Short: "Show what belongs to a Transfer: Jobs, pods and Deliveries, of both clusters",
		Long: `Show what belongs to a Transfer: Jobs and pods of its agents, and the Deliveries of its present or last run
with their Jobs and pods, in the namespace of the destination. Where that is in another cluster, --to-context names its
context of the kubeconfig. Each of several destinations has a Transfer of its own, which has a tree with its Deliveries.
Jobs of attempts that succeeded are deleted when status has their report. It changes nothing.

It takes get on transfers; list on jobs and pods in the Transfer's namespace; and list on deliveries, jobs and pods in
that of the destination. What you may not read is named.`,
		Example: `  kubectl lighterage tree transfer/ledger -n bank
  kubectl lighterage tree transfer/ledger -n bank --context east --to-context west -o json`,
		Args: transfers.argument(&name), ValidArgsFunction: p.complete(transfers),
		RunE: action(func(ctx context.Context) error {
			tree, err := p.tree(ctx, name, other)
			if err != nil {
				return err
			}
			return output.write(p.Out, tree, func(to io.Writer) error { return writeLines(to, tree.Lines(columns(p.Out))) })
		}),
	})
	cmd.Flags().StringVar(&other, "to-context", "", "`context` of the destination's cluster, if it is another one")
	completeFlag(cmd, "to-context", p.completeContext)
	return cmd
}

// tree reads a Transfer and what may belong to it.
func (p *plugin) tree(ctx context.Context, name, other string) (overview.Node, error) {
	transfer := &v1alpha1.Transfer{}
	if err := p.get(ctx, transfers, name, transfer); err != nil {
		return overview.Node{}, err
	}
	var own overview.Side
	label := v1alpha1.TransferLabel
	if len(transfer.Spec.Destinations) > 0 {
		label = v1alpha1.DestinationsLabel // object stores among them have Jobs of their own
	}
	p.workloads(ctx, &own, transfer.Namespace, label, string(transfer.UID))
	destination := transfer.Spec.Destination
	receiving, cluster := p, ""
	switch {
	case len(transfer.Spec.Destinations) > 0:
		return overview.TreeOf(transfer, own, "", nil), nil
	case destination.Peer == "":
	case other == "":
		return overview.TreeOf(transfer, own, "", nil), nil
	default:
		receiving, cluster = p.elsewhere(other), other
		if err := receiving.open(); err != nil {
			return overview.Node{}, err
		}
	}
	received := &overview.Side{}
	namespace := cmp.Or(destination.Namespace, transfer.Namespace)
	run := ""
	switch status := &transfer.Status; {
	case status.Pull != nil:
		run = status.Pull.RunID
	case status.Run != nil:
		run = status.Run.ID
	}
	if run != "" {
		listed(
			ctx, receiving.cluster, &received.Deliveries, client.InNamespace(namespace),
			client.MatchingLabels{v1alpha1.RunLabel: run},
		)
	}
	if len(received.Deliveries.Value) > 0 {
		receiving.workloads(ctx, received, namespace, v1alpha1.RunLabel, run)
	}
	return overview.TreeOf(transfer, own, cluster, received), nil
}

// workloads lists the Jobs and pods with a label.
func (p *plugin) workloads(ctx context.Context, side *overview.Side, namespace, label, value string) {
	in, with := client.InNamespace(namespace), client.MatchingLabels{label: value}
	listed(ctx, p.cluster, &side.Jobs, in, with)
	listed(ctx, p.cluster, &side.Pods, in, with)
}
