// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/overview"
)

// statusMost is how many problems and runs are shown unless all are asked for.
const statusMost = 10

type showing struct {
	checking

	everything bool
}

func newStatus(p *plugin) *cobra.Command {
	s := &showing{checking: checking{plugin: p, output: choice{"text", "json", "yaml"}}}
	cmd := s.output.addTo(&cobra.Command{
		Use:   "status",
		Short: "Show the operator, all objects, what needs attention and what runs, on one screen",
		Long: `Show on one screen: the operator, how many objects of each kind are in which state, which of them need
attention and why, and the runs that are under way. It changes nothing.

States are those of conditions: failed (Failed), stalled (Stalled: somebody must act), waiting (not Ready, or no
controller has looked at it), working (Reconciling), ready (Ready), resting (suspended, paused, or waiting for its
schedule).

The exit code does not depend on what it shows; kubectl lighterage check has one that does. With --namespace, objects
of that namespace alone are shown. What you may not read is named.

It takes the rights of check, and list on all kinds of lighterage.dev, in the cluster or in the namespace.`,
		Example: `  kubectl lighterage status
  kubectl lighterage status -n bank --all
  kubectl lighterage status -o json`,
		Args: cobra.NoArgs, RunE: action(s.run),
	})
	flags := cmd.Flags()
	flags.StringVar(&s.operator, "operator-namespace", "lighterage-system", "`namespace` of the operator")
	flags.BoolVar(&s.everything, "all", false, "all problems and runs, also those that have ended in watch")
	return cmd
}

func (s *showing) run(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	s.say("Reading the cluster")
	installed, err := s.facts(ctx)
	if err != nil {
		return err
	}
	facts := &overview.Facts{Check: installed}
	for _, name := range knownKinds() {
		items, cut, err := s.all(ctx, name, *s.flags.Namespace)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", ctx.Err())
		}
		if apierrors.IsForbidden(err) {
			err = errors.New("you may not list them")
		}
		kind := overview.Kind{Name: name, Cut: cut}
		if err == nil {
			kind.Objects.Value, err = common(items)
		}
		if err == nil {
			var runs []overview.Run
			runs, err = runsOf(name, items)
			facts.Runs = append(facts.Runs, runs...)
		}
		kind.Objects.Err = err
		facts.Kinds = append(facts.Kinds, kind)
	}
	summary, most := overview.Summarise(facts), statusMost
	if s.everything {
		most = 0
	}
	return s.output.write(s.Out, summary, func(to io.Writer) error {
		return writeLines(to, summary.Lines(columns(s.Out), most))
	})
}

func writeLines(to io.Writer, lines []string) error {
	if _, err := fmt.Fprintln(to, strings.Join(lines, "\n")); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// all reads the objects of a kind in a namespace, or in all of them, page by page; cut says that there are more.
func (p *plugin) all(
	ctx context.Context, kind, namespace string,
) (items []unstructured.Unstructured, cut bool, err error) {
	for more := ""; ; {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		err := p.cluster.List(
			ctx, page, client.InNamespace(namespace), client.Limit(checkPage), client.Continue(more),
		)
		if err != nil {
			return nil, false, err //nolint:wrapcheck // the caller says of what
		}
		items = append(items, page.Items...)
		if more = page.GetContinue(); more == "" || len(items) >= maxGathered {
			return items, more != "", nil
		}
	}
}

// common is what all kinds have in common.
func common(items []unstructured.Unstructured) ([]overview.Object, error) {
	var objects []overview.Object
	for i := range items {
		var found struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(items[i].Object, &found); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", items[i].GetKind(), client.ObjectKeyFromObject(&items[i]), err)
		}
		objects = append(objects, overview.Object{
			Namespace: items[i].GetNamespace(), Name: items[i].GetName(), Conditions: found.Status.Conditions,
		})
	}
	return objects, nil
}

// runsOf are the runs of objects of a kind; only Transfers, CompressionTrials and Deliveries from other clusters have
// some. Deliveries of this cluster are a part of their Transfers.
func runsOf(kind string, items []unstructured.Unstructured) ([]overview.Run, error) {
	var runs []overview.Run
	var failures []error
	for i := range items {
		var err error
		switch kind {
		case transfers.name:
			var t v1alpha1.Transfer
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(items[i].Object, &t); err == nil {
				runs = append(runs, overview.OfTransfer(&t))
			}
		case trials.name:
			var t v1alpha1.CompressionTrial
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(items[i].Object, &t); err == nil {
				runs = append(runs, overview.OfTrial(&t))
			}
		case deliveries.name:
			var d v1alpha1.Delivery
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(items[i].Object, &d)
			if err == nil && d.Spec.Peer != "" {
				runs = append(runs, overview.OfDelivery(&d))
			}
		}
		if err != nil {
			failures = append(failures, fmt.Errorf(
				"reading %s %s: %w", kind, client.ObjectKeyFromObject(&items[i]), err,
			))
		}
	}
	return runs, errors.Join(failures...)
}
