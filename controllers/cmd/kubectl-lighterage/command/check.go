// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/check"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/table"
)

// checkPage is how many objects a request asks for.
const checkPage = 500

type checking struct {
	*plugin
	operator string
	// to is the context of another cluster, with which the links are checked; empty: there is none.
	to, toOperator string
	output         choice
}

// checked is the output for programs.
type checked struct {
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Skipped  int            `json:"skipped"`
	Results  []check.Result `json:"results"`
}

func newCheck(p *plugin) *cobra.Command {
	c := &checking{plugin: p, output: choice{"text", "json", "yaml"}}
	cmd := c.output.addTo(&cobra.Command{
		Use:   "check",
		Short: "Check the installation in a cluster, its Peers, nodes and storage",
		Long: `Check the installation in a cluster: versions, kinds, manager and gateway, Pod Security, network policies, the
clock, the CA, Peers, node agents, engines, accelerators, storage classes and ObjectStores. It changes nothing.

A check is ok, a warning, an error, or skipped where what it needs cannot be read. The exit code is 1 if there is an
error. With --to it checks two clusters, whether their clocks agree, and whether each has a Peer that leads to the
other one.

It takes get on the namespace of the operator and its ConfigMap lighterage-ca; list on deployments, daemonsets and
networkpolicies there; and list on nodes, nodeprofiles, peers, storageclasses and objectstores.`,
		Example: `  kubectl lighterage check
  kubectl lighterage check --context east --to west
  kubectl lighterage check --context west -o json`,
		Args: cobra.NoArgs, RunE: action(c.run),
	})
	flags := cmd.Flags()
	flags.StringVar(&c.operator, "operator-namespace", "lighterage-system", "`namespace` of the operator")
	flags.StringVar(&c.to, "to", "", "`context` of another cluster, in the same kubeconfig, to check as well")
	flags.StringVar(&c.toOperator, "to-operator-namespace", "", "`namespace` of the operator in the other cluster (default: "+
		"as --operator-namespace)")
	completeFlag(cmd, "to", p.completeContext)
	return cmd
}

func (c *checking) run(ctx context.Context) error {
	if err := c.open(); err != nil {
		return err
	}
	results, err := c.results(ctx)
	if err != nil {
		return err
	}
	summary := summarise(results)
	err = c.output.write(c.Out, summary, func(to io.Writer) error { return writeChecked(to, &summary, columns(c.Out)) })
	if err != nil {
		return err
	}
	if summary.Errors > 0 {
		return fmt.Errorf("%d checks found an error", summary.Errors)
	}
	return nil
}

// results are those of one cluster, or of two and of what joins them.
func (c *checking) results(ctx context.Context) ([]check.Result, error) {
	if c.to == "" {
		c.say("Reading the cluster")
		facts, err := c.facts(ctx)
		if err != nil {
			return nil, err
		}
		return check.Run(facts), nil
	}
	own, err := c.contextName()
	if err != nil {
		return nil, err
	}
	other := &checking{plugin: c.elsewhere(c.to), operator: cmp.Or(c.toOperator, c.operator)}
	if err := other.open(); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.to, err)
	}
	var results []check.Result
	sides := []check.Side{{Name: own}, {Name: c.to}}
	for i, of := range []*checking{c, other} {
		c.say("Reading cluster %s", sides[i].Name)
		if sides[i].Facts, err = of.facts(ctx); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", sides[i].Name, err)
		}
		for _, r := range check.Run(sides[i].Facts) {
			r.Cluster = sides[i].Name
			results = append(results, r)
		}
	}
	return append(results, check.Pair(sides[0], sides[1])...), nil
}

func summarise(results []check.Result) checked {
	return checked{
		Errors: check.Count(results, check.Error), Warnings: check.Count(results, check.Warning),
		Skipped: check.Count(results, check.Skipped), Results: results,
	}
}

// facts reads everything that checks look at. What cannot be read is a fact too, unless the command was interrupted.
func (c *checking) facts(ctx context.Context) (*check.Facts, error) {
	f := &check.Facts{Client: wirev1.Version, OperatorNamespace: c.operator, Wanted: knownKinds()}
	f.Now, f.ServerTime = c.times(ctx)
	in := client.InNamespace(c.operator)
	group, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	if version, err := group.ServerVersion(); err != nil {
		f.Kubernetes.Err = err
	} else {
		f.Kubernetes.Value = version.GitVersion
	}
	resources, err := group.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		f.Served.Err = err
	} else if err == nil {
		for _, r := range resources.APIResources {
			f.Served.Value = append(f.Served.Value, r.Kind)
		}
	}
	f.Namespace.Err = c.cluster.Get(ctx, client.ObjectKey{Name: c.operator}, &f.Namespace.Value)
	var published corev1.ConfigMap
	f.CA.Err = c.cluster.Get(ctx, client.ObjectKey{Namespace: c.operator, Name: pki.CAName}, &published)
	f.CA.Value = []byte(published.Data[pki.CAKey])
	listed(ctx, c.cluster, &f.Deployments, in)
	listed(ctx, c.cluster, &f.DaemonSets, in)
	listed(ctx, c.cluster, &f.NetworkPolicies, in)
	listed(ctx, c.cluster, &f.Nodes)
	listed(ctx, c.cluster, &f.NodeProfiles)
	listed(ctx, c.cluster, &f.Peers)
	listed(ctx, c.cluster, &f.ObjectStores)
	listed(ctx, c.cluster, &f.StorageClasses)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("interrupted: %w", err)
	}
	return f, nil
}

// listed reads all objects of a type, page by page, into a fact.
func listed[T any](ctx context.Context, cluster client.Client, fact *check.Fact[[]T], options ...client.ListOption) {
	*fact = check.Fact[[]T]{}
	list, err := listOf[T](cluster.Scheme())
	if err != nil {
		fact.Err = err
		return
	}
	for more := ""; ; {
		page, _ := list.DeepCopyObject().(client.ObjectList) // each is decoded into an empty one
		some := append(slices.Clone(options), client.Limit(checkPage), client.Continue(more))
		if fact.Err = cluster.List(ctx, page, some...); fact.Err == nil {
			fact.Err = meta.EachListItem(page, func(o runtime.Object) error {
				if item, ok := any(o).(*T); ok {
					fact.Value = append(fact.Value, *item)
				}
				return nil
			})
		}
		if fact.Err != nil {
			fact.Value = nil
			return
		}
		if more = page.GetContinue(); more == "" {
			return
		}
	}
}

// listOf is an empty list of objects of a type that the scheme knows.
func listOf[T any](scheme *runtime.Scheme) (client.ObjectList, error) {
	object, ok := any(new(T)).(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", object)
	}
	of, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", object, err)
	}
	made, err := scheme.New(of.GroupVersion().WithKind(of.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("finding the list of %s: %w", of.Kind, err)
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is no list", made)
	}
	return list, nil
}

// times are that of this machine and that of the API server, as its answers state it, at about the same moment.
func (c *checking) times(ctx context.Context) (own time.Time, server check.Fact[time.Time]) {
	own = time.Now()
	caller, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return own, check.Fact[time.Time]{Err: err}
	}
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return own, check.Fact[time.Time]{Err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return own, check.Fact[time.Time]{Err: err}
	}
	before := time.Now()
	answer, err := caller.Do(request)
	if err != nil {
		return own, check.Fact[time.Time]{Err: err}
	}
	_ = answer.Body.Close() // nothing of it is read
	own = before.Add(time.Since(before) / 2)
	stated, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		err = errors.New("its answer has no valid Date")
	}
	return own, check.Fact[time.Time]{Value: stated, Err: err}
}

// isTerminal reports whether somebody types what is read.
func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) //nolint:gosec // it fits, on all platforms
}

// columns is the width of a terminal; 0 of what is none.
func columns(out io.Writer) int {
	width, _ := screen(out)
	return width
}

// screen is the size of a terminal; 0 of what is none.
func screen(out io.Writer) (width, height int) {
	file, ok := out.(*os.File)
	if !ok {
		return 0, 0
	}
	width, height, err := term.GetSize(int(file.Fd())) //nolint:gosec // it fits, on all platforms
	if err != nil {
		return 0, 0
	}
	return width, height
}

// writeChecked writes a line for each result, and hints below those that ask for something. Lines are broken at width.
func writeChecked(to io.Writer, c *checked, width int) error {
	cluster, category := "", ""
	var err error
	line := func(format string, values ...any) {
		if err == nil {
			_, err = fmt.Fprintln(to, table.Wrap(fmt.Sprintf(format, values...), "          ", width))
		}
	}
	for _, r := range c.Results {
		if r.Cluster != cluster && r.Cluster != "" {
			line("Cluster %s", r.Cluster)
			category = ""
		}
		cluster = r.Cluster
		if r.Category != category {
			category = r.Category
			line("%s", category)
		}
		line("  %-7s %s", r.Result, r.Message)
		if r.Result != check.OK && r.Hint != "" {
			line("          %s", r.Hint)
		}
		if r.Docs != "" {
			line("          see %s", r.Docs)
		}
	}
	line("%d errors, %d warnings, %d skipped", c.Errors, c.Warnings, c.Skipped)
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
