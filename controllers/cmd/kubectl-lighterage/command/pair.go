// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

// gatewayService is the name of the Service of the gateway.
const gatewayService = "lighterage-gateway"

// side is one of two clusters.
type side struct {
	*plugin
	context  string
	operator string // its namespace
	// name that was asked for, of the Peer that stands for this cluster in the other one.
	name string
	// patience is how long to wait for an operator that was just installed to publish its CA.
	patience time.Duration

	id     types.UID // of the namespace kube-system, of which each cluster has its own
	bundle []byte    // the public part of its CA
	peers  []v1alpha1.Peer
}

// pair is a command about two clusters.
type pair struct {
	plugin           *plugin
	to               string
	patience         time.Duration // of both sides
	operators, names [2]string
	// sides are those of --context and --to.
	sides [2]*side
}

// addTo adds the flags of the two clusters.
func (p *pair) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.to, "to", "", "`context` of the other cluster, in the same kubeconfig")
	flags.StringVar(&p.names[0], "name", "", "`name` of the cluster of --context in the other one (default: its context)")
	flags.StringVar(&p.names[1], "to-name", "", "`name` of the other cluster in that of --context (default: its context)")
	p.addOperators(cmd)
	completeFlag(cmd, "to", p.plugin.completeContext)
}

// addOperators adds the flags of the namespaces of the operator.
func (p *pair) addOperators(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.operators[0], "operator-namespace", "lighterage-system", "`namespace` of the operator")
	flags.StringVar(&p.operators[1], "to-operator-namespace", "", "`namespace` of the operator in the other cluster "+
		"(default: as --operator-namespace)")
}

func (p *pair) check(*cobra.Command, []string) error {
	if p.to == "" {
		return errors.New("name the context of the other cluster with --to")
	}
	return nil
}

// contexts are the flags by which another command is about the same clusters.
func (p *pair) contexts() string {
	return "--context " + p.sides[0].context + " --to " + p.sides[1].context
}

// right is one to do something.
type right struct{ group, resource, verb, namespace, name string }

func (r right) String() string {
	text := r.verb + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.name != "" {
		text += " " + r.name
	}
	if r.namespace != "" {
		text += " in namespace " + r.namespace
	}
	return text
}

// open finds both clusters, checks that they are two, and that the user has the rights in each.
func (p *pair) open(ctx context.Context, rights func(*side) []right) error {
	own, err := p.plugin.contextName()
	if err != nil {
		return err
	}
	for i, named := range []string{own, p.to} {
		s := &side{
			plugin: p.plugin, context: named, operator: cmp.Or(p.operators[i], p.operators[0]), name: p.names[i],
			patience: p.patience,
		}
		if i == 1 {
			s.plugin = p.plugin.elsewhere(named)
		}
		p.sides[i] = s
		if err := s.plugin.open(); err != nil {
			return fmt.Errorf("cluster %s: %w", named, err)
		}
	}
	if err := p.demand(ctx, rights); err != nil {
		return err
	}
	for _, s := range p.sides {
		if err := s.read(ctx); err != nil {
			return err
		}
	}
	a, b := p.sides[0], p.sides[1]
	if a.id == b.id {
		return fmt.Errorf("contexts %s and %s are one cluster: its namespace kube-system has the UID %s in both; name "+
			"another one with --context or --to", a.context, b.context, a.id)
	}
	shared, err := link.Share(a.bundle, b.bundle)
	switch {
	case err != nil:
		return fmt.Errorf("reading the ConfigMaps %s: %w", pki.CAName, err)
	case shared:
		return fmt.Errorf("clusters %s and %s have the same CA, so that neither can be told from the other; give one of "+
			"them a CA of its own (see docs/operations/certificates.md)", a.context, b.context)
	}
	return nil
}

// demand checks that the user has rights in each cluster.
func (p *pair) demand(ctx context.Context, rights func(*side) []right) error {
	var missing []string
	for _, s := range p.sides {
		lacks, err := s.lacks(ctx, rights(s))
		if err != nil {
			return s.failed("asking for your rights", err)
		}
		for _, r := range lacks {
			missing = append(missing, fmt.Sprintf("in cluster %s: %s", s.context, r))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("you lack rights; ask for a ClusterRole with\n  %s", strings.Join(missing, "\n  "))
	}
	return nil
}

// elsewhere is the plugin for another context of the kubeconfig.
func (p *plugin) elsewhere(named string) *plugin {
	other := newPlugin(p.IOStreams)
	f := other.flags
	*f.KubeConfig, *f.Context, *f.Timeout = *p.flags.KubeConfig, named, *p.flags.Timeout
	*f.Impersonate, *f.ImpersonateUID = *p.flags.Impersonate, *p.flags.ImpersonateUID
	*f.ImpersonateGroup, *f.ImpersonateUserExtra = *p.flags.ImpersonateGroup, *p.flags.ImpersonateUserExtra
	return other
}

// lacks are the rights that the user does not have.
func (p *plugin) lacks(ctx context.Context, rights []right) ([]right, error) {
	var missing []right
	for _, r := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: r.group, Resource: r.resource, Verb: r.verb, Namespace: r.namespace, Name: r.name,
			},
		}}
		if err := p.cluster.Create(ctx, review); err != nil {
			return nil, err //nolint:wrapcheck // the caller says in which cluster
		}
		if !review.Status.Allowed {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// peerRights are those to do something with Peers.
func peerRights(verbs ...string) []right {
	var rights []right
	for _, verb := range verbs {
		rights = append(rights, right{group: v1alpha1.GroupVersion.Group, resource: "peers", verb: verb})
	}
	return rights
}

// readRights are those that read takes.
func (s *side) readRights() []right {
	return append([]right{
		{resource: "namespaces", verb: "get", name: systemNamespace},
		{resource: "configmaps", verb: "get", namespace: s.operator, name: pki.CAName},
	}, peerRights("get", "list")...)
}

// systemNamespace is the namespace that tells clusters apart.
const systemNamespace = "kube-system"

// read reads what is known of the cluster.
func (s *side) read(ctx context.Context) error {
	var system corev1.Namespace
	if err := s.cluster.Get(ctx, client.ObjectKey{Name: systemNamespace}, &system); err != nil {
		return s.failed("reading namespace "+systemNamespace, err)
	}
	s.id = system.UID
	var list v1alpha1.PeerList
	if err := s.cluster.List(ctx, &list); err != nil {
		return s.failed("listing Peers", err)
	}
	s.peers = list.Items
	var published corev1.ConfigMap
	key := client.ObjectKey{Namespace: s.operator, Name: pki.CAName}
	get := func(ctx context.Context) error { return s.cluster.Get(ctx, key, &published) } //nolint:wrapcheck // below
	err := get(ctx)
	if apierrors.IsNotFound(err) && s.patience > 0 {
		s.say("Waiting up to %s until the operator of cluster %s publishes its CA", s.patience, s.context)
		for began := time.Now(); apierrors.IsNotFound(err) && time.Since(began) < s.patience; err = get(ctx) {
			select {
			case <-ctx.Done():
			case <-time.After(peerPoll):
			}
		}
	}
	if err != nil {
		return s.failed("reading ConfigMap "+key.String(), err)
	}
	s.bundle = []byte(published.Data[pki.CAKey])
	return nil
}

// failed says in which cluster something failed, and what to do.
func (s *side) failed(doing string, err error) error {
	advice := ""
	switch {
	case meta.IsNoMatchError(err):
		advice = "; it does not have the kinds of Lighterage: install the operator (helm upgrade --install lighterage ...)"
	case apierrors.IsNotFound(err):
		advice = "; check that the operator runs there, and in which namespace (--operator-namespace, " +
			"--to-operator-namespace)"
	case apierrors.IsUnauthorized(err):
		advice = "; it rejects the credentials of the kubeconfig: log in again"
	case apierrors.IsConflict(err):
		advice = "; change it where it is kept, for example in Git: --manifests writes what belongs there"
	}
	return fmt.Errorf("cluster %s: %s%s: %w", s.context, doing, advice, err)
}

func (p *pair) say(format string, values ...any) { p.plugin.say(format, values...) }
