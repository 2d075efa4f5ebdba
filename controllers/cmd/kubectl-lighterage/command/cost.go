// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/bill"
	"github.com/lighterage/lighterage/controllers/table"
)

const (
	// statementPage is how many Statements a request asks for. One has a few hundred kilobytes at most.
	statementPage = 50
	// maxGapsShown bounds how many incomplete Statements are named.
	maxGapsShown = 5
)

// costing is a cost command: its flags, and what they mean.
type costing struct {
	plugin          *plugin
	all             bool
	month, from, to string
	by              []string
	output          choice
	export          export

	kind       kind // and the name of an object, if one is named
	name       string
	period     bill.Period
	dimensions []bill.Dimension
}

func newCost(p *plugin) *cobra.Command {
	c := &costing{plugin: p, output: choice{"table", "csv", "json"}, export: newExport()}
	cmd := c.output.addTo(&cobra.Command{
		Use:   "cost [KIND/NAME]",
		Short: "Show what a namespace, the cluster or an object spent",
		Long: `Show what moving data cost a namespace, or with --all-namespaces the cluster: CPU time, bytes on the wire
and storage, at the prices that were in force. Each Statement holds what the nodes of this cluster spent for one
namespace in one month, so what a peer spent is in its own cluster.

Amounts in different currencies are never added. AVOIDED is the price of the bytes that compression kept off the wire.
It is not in COST. Figures with ~ include the CPU time of the network stack, which is an estimate.

With --focus, write FOCUS ` + focusVersion + ` in place of a table: one file for each UTC day, as CSV or
Parquet, or all in one file. An existing file is replaced as a whole. Rows are checked against the specification
before anything is written.

With the name of a Transfer, Delivery, HTTPEndpoint or Queue, show the cost in its status in place of Statements:
that of the last run, or since the object was created.

It takes the verb list on statements, in the namespace or in the cluster, or the verb get on the object.`,
		Example: `  kubectl lighterage cost -n bank
  kubectl lighterage cost --all-namespaces --month 2026-11 --by namespace,kind
  kubectl lighterage cost -n bank --from 2026-11-01 --to 2026-11-15 --by day -o csv > bank.csv
  kubectl lighterage cost transfer/ledger -n bank
  kubectl lighterage cost --all-namespaces --month 2026-11 --focus bills --focus-format parquet --cluster-name east`,
		Args: c.argument, ValidArgsFunction: charged.complete(p),
		PreRunE: func(*cobra.Command, []string) error { return c.check(time.Now()) },
		RunE:    action(c.run),
	})
	flags := cmd.Flags()
	flags.BoolVarP(&c.all, "all-namespaces", "A", false, "all namespaces")
	flags.StringVar(&c.month, "month", "", "UTC month as `YYYY-MM` (default: the present one)")
	flags.StringVar(&c.from, "from", "", "first UTC day as `YYYY-MM-DD`")
	flags.StringVar(&c.to, "to", "", "last UTC day as `YYYY-MM-DD` (default with --from: today)")
	flags.StringSliceVar(
		&c.by, "by", nil,
		"one or more of namespace, kind, peer, direction, engine, nodeclass and day (default kind, or namespace with -A)",
	)
	c.export.addTo(cmd)
	cmd.MarkFlagsMutuallyExclusive("focus", "by")
	cmd.MarkFlagsMutuallyExclusive("focus", "output")
	var dimensions []cobra.Completion
	for _, d := range bill.Dimensions() {
		dimensions = append(dimensions, string(d))
	}
	completeFlag(cmd, "by", cobra.FixedCompletions(dimensions, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check finds what is wrong with the flags.
func (c *costing) check(now time.Time) (err error) {
	if c.name != "" && (c.all || c.month+c.from+c.to+c.export.path != "" || len(c.by) > 0) {
		return errors.New("with an object, leave out -A, --month, --from, --to, --by and --focus: it has one cost")
	}
	if c.period, err = bill.NewPeriod(c.month, c.from, c.to, now); err != nil {
		return err
	}
	by := c.by
	switch {
	case len(by) == 0 && c.all:
		by = []string{string(bill.ByNamespace)}
	case len(by) == 0:
		by = []string{string(bill.ByKind)}
	}
	if c.dimensions, err = bill.ParseDimensions(by); err != nil {
		return fmt.Errorf("--by: %w", err)
	}
	return c.export.check()
}

func (c *costing) run(ctx context.Context) error {
	if err := c.plugin.open(); err != nil {
		return err
	}
	if c.name != "" {
		object, err := c.plugin.object(ctx, c.kind, c.name)
		if err != nil {
			return err
		}
		return c.show(object, object.WriteText, object.WriteCSV)
	}
	namespace := c.plugin.namespace
	if c.all {
		namespace = ""
	}
	account, err := c.plugin.account(ctx, c.period, namespace)
	if err != nil {
		return err
	}
	for i, gap := range account.Gaps {
		if i == maxGapsShown {
			fmt.Fprintf(c.plugin.ErrOut, "%d more Statements are not complete\n", len(account.Gaps)-i)
			break
		}
		fmt.Fprintf(
			c.plugin.ErrOut, "Statement %s is not complete: %s\n", gap.Statement,
			table.Printable(gap.Reason+": "+gap.Message),
		)
	}
	if c.export.path != "" {
		return c.export.write(account, namespace, c.plugin.ErrOut)
	}
	spent := account.By(c.dimensions)
	return c.show(spent, spent.WriteText, spent.WriteCSV)
}

// show writes an object in the format of the flag.
func (c *costing) show(object any, text, csv func(io.Writer) error) error {
	if c.output.String() == "csv" {
		return csv(c.plugin.Out)
	}
	return c.output.write(c.plugin.Out, object, text)
}

// account reads the Statements of a period, of all namespaces where none is named.
func (p *plugin) account(ctx context.Context, period bill.Period, namespace string) (*bill.Account, error) {
	account := bill.NewAccount(period)
	for _, month := range period.Months() {
		// The name of a Statement is its month.
		options := &client.ListOptions{Namespace: namespace, Limit: statementPage}
		client.MatchingFields{"metadata.name": month}.ApplyToList(options)
		for {
			var page v1alpha1.StatementList
			if err := p.cluster.List(ctx, &page, options); err != nil {
				return nil, unlisted(err, namespace)
			}
			for i := range page.Items {
				if err := account.Add(&page.Items[i]); err != nil {
					return nil, err
				}
			}
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
	}
	if account.Statements == 0 {
		return nil, p.noStatements(ctx, period, namespace)
	}
	return account, nil
}

// unlisted says why Statements could not be listed.
func unlisted(err error, namespace string) error {
	where, role := fmt.Sprintf("in namespace %q", namespace), "a Role there"
	if namespace == "" {
		where, role = "in all namespaces", "a ClusterRole"
	}
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return fmt.Errorf(
			"this cluster does not have the kind Statement; install or upgrade the operator (helm upgrade --install "+
				"lighterage ...), or choose another cluster with --context: %w",
			err,
		)
	case apierrors.IsForbidden(err):
		return fmt.Errorf(
			"you may not list Statements %s; ask for %s with the verb list on statements of %s: %w", where, role,
			v1alpha1.GroupVersion.Group, err,
		)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster rejects the credentials of the kubeconfig; log in again: %w", err)
	case apierrors.IsResourceExpired(err):
		return fmt.Errorf("the Statements changed for too long while they were listed; try again: %w", err)
	}
	return fmt.Errorf("listing Statements %s: %w", where, err)
}

// noStatements says which there are in place of those that were asked for.
func (p *plugin) noStatements(ctx context.Context, period bill.Period, namespace string) error {
	where := fmt.Sprintf("namespace %q has", namespace)
	if namespace == "" {
		where = "the cluster has"
	}
	var objects metav1.PartialObjectMetadataList
	objects.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("StatementList"))
	if err := p.cluster.List(ctx, &objects, client.InNamespace(namespace)); err != nil {
		return unlisted(err, namespace)
	}
	var months []string
	for _, object := range objects.Items {
		months = append(months, object.Name)
	}
	slices.Sort(months)
	months = slices.Compact(months)
	if len(months) == 0 {
		return errors.New(
			where + " no Statements; the manager makes the first one when a Transfer, Delivery, Queue or HTTPEndpoint of a " +
				"namespace has reported figures",
		)
	}
	return fmt.Errorf(
		"%s no Statement with figures of %s; it has Statements of %s", where, period, strings.Join(months, ", "),
	)
}
