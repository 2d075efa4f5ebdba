// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/table"
)

const (
	// connectOwner is the field owner of what connect applies.
	connectOwner = "kubectl-lighterage-connect"
	// noEndpoint as an endpoint: the cluster is only sent from.
	noEndpoint = "none"
)

// peerPoll is how often Peers are read while connect waits for them. Tests shorten it.
var peerPoll = time.Second

// caPatience is how long an operator that was just installed may take to publish its CA.
const caPatience = 30 * time.Second

type connecting struct {
	pair
	endpoints [2]string
	manifests string
	grants    [2][]string
	granted   [2][]link.Grant
	wait      time.Duration
	output    choice
}

// joined is one direction of a link, for people and programs.
type joined struct {
	From     string      `json:"from"`
	To       string      `json:"to"`
	Peer     string      `json:"peer"`
	Endpoint string      `json:"endpoint,omitempty"`
	Action   link.Action `json:"action"`
	Ready    bool        `json:"ready"`
	Reason   string      `json:"reason,omitempty"`
	Message  string      `json:"message,omitempty"`
	KnownAs  string      `json:"knownAs,omitempty"`
	Version  string      `json:"version,omitempty"`
	// Grants are the PeerGrants for the Peer that were applied, each as namespace/name.
	Grants []string `json:"grants,omitempty"`

	observer *side
	final    bool
}

func newConnect(p *plugin) *cobra.Command {
	c := &connecting{pair: pair{plugin: p}, output: choice{"text", "json", "yaml"}}
	cmd := c.output.addTo(&cobra.Command{
		Use:   "connect --to CONTEXT",
		Short: "Join two clusters as Peers of each other",
		Long: `Join two clusters as Peers of each other, and wait until the manager of each reaches the gateway of the other.

In each cluster, apply a Peer with the endpoint and the CA of the other one. The endpoint is that of the Service
lighterage-gateway: its load balancer, or a node port of a Ready node, unless you give one. The endpoint of a Peer that
is Ready is kept. The CA is that of the ConfigMap lighterage-ca. All of it is public.

It can be repeated: it repairs what is missing. A Peer of another cluster is never changed, nor a field that somebody
else applies, such as a GitOps controller. With --manifests, write everything to files for Git and change no cluster.

Clusters that are joined may move nothing yet: a namespace receives what a PeerGrant in it allows. --to-grant bank makes
one in --to, by which Transfers of namespace bank in --context may write the claims of namespace bank; write
--to-grant vault/ledger=bank for the claim ledger of namespace vault alone. --grant is for the other direction. Neither
allows mirroring or privilege.

It takes, in both clusters, get on the namespace kube-system, and on the ConfigMap lighterage-ca and the Service
lighterage-gateway of the operator's namespace; get, list, create and patch on peers; list on nodes for a node port; and
create and patch on peergrants in the namespaces of grants.`,
		Example: `  kubectl lighterage connect --context east --to west
  kubectl lighterage connect --context east --to west --to-grant bank
  kubectl lighterage connect --context east --to west --to-endpoint gateway.west.example:8443 --endpoint none
  kubectl lighterage connect --context east --to west --manifests clusters --to-grant vault/ledger=bank`,
		Args: cobra.NoArgs, PreRunE: c.check, RunE: action(c.run),
	})
	c.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.endpoints[0], "endpoint", "", "`host:port` of the gateway of --context; none: it only sends")
	flags.StringVar(&c.endpoints[1], "to-endpoint", "", "`host:port` of the gateway of --to; none: it only sends")
	flags.StringVar(&c.manifests, "manifests", "", "`directory` for files with the Peers, which are not applied; "+
		"- is the output")
	for i, grant := range []struct{ flag, in, of string }{
		{"grant", "--context", "--to"}, {"to-grant", "--to", "--context"},
	} {
		flags.StringArrayVar(&c.grants[i], grant.flag, nil, "PeerGrant in "+grant.in+", as `namespace[/claim][=namespace]`, "+
			"the last of "+grant.of+" (default: the same); without /claim for each claim (repeatable)")
	}
	flags.DurationVar(&c.wait, "wait", 2*time.Minute, "how long to wait for the Peers to be Ready; 0 does not wait")
	cmd.MarkFlagsMutuallyExclusive("manifests", "output")
	return cmd
}

func (c *connecting) check(cmd *cobra.Command, arguments []string) error {
	for i, flag := range []string{"--endpoint", "--to-endpoint"} {
		if e := c.endpoints[i]; e != "" && e != noEndpoint && !link.ValidEndpoint(e) {
			return fmt.Errorf("%s must be host:port, such as gateway.west.example:8443, or none, not %q", flag, e)
		}
	}
	for i, flag := range []string{"--grant", "--to-grant"} {
		for _, text := range c.grants[i] {
			grant, err := link.ParseGrant(text)
			if err != nil {
				return fmt.Errorf("%s must be namespace[/claim][=namespace], such as bank or vault/ledger=bank, not %q: %w", flag,
					text, err)
			}
			c.granted[i] = append(c.granted[i], grant)
		}
	}
	if c.wait < 0 {
		return fmt.Errorf("--wait must not be negative, and is %s", c.wait)
	}
	return c.pair.check(cmd, arguments)
}

func (c *connecting) run(ctx context.Context) error {
	c.patience = min(c.wait, caPatience)
	if err := c.open(ctx, c.rights); err != nil {
		return err
	}
	// Both are planned before anything is written.
	var steps [2]link.Step
	for i, observer := range c.sides {
		step, err := c.plan(ctx, observer, 1-i)
		if err != nil {
			return err
		}
		steps[i] = step
	}
	if c.manifests != "" {
		return c.writeManifests(steps)
	}
	for i, observer := range c.sides {
		if _, err := observer.grant(ctx, c.granted[i], steps[i].Peer.Name, client.DryRunAll); err != nil {
			return err
		}
	}
	var both []*joined
	for i, observer := range c.sides {
		step := steps[i]
		if step.Action != link.Keep {
			if err := observer.apply(ctx, step.Peer); err != nil {
				return c.half(err, both)
			}
		}
		c.say("Cluster %s: Peer %s %s", observer.context, step.Peer.Name, step.Action)
		both = append(both, &joined{
			From: observer.context, To: c.sides[1-i].context, Peer: step.Peer.Name, Endpoint: step.Peer.Spec.Endpoint,
			Action: step.Action, observer: observer,
		})
	}
	for i, observer := range c.sides {
		made, err := observer.grant(ctx, c.granted[i], steps[i].Peer.Name)
		both[i].Grants = made
		if err != nil {
			return c.half(err, both)
		}
	}
	err := c.prove(ctx, both)
	if err == nil {
		c.sayNext(both)
	}
	text := func(to io.Writer) error { return writeJoined(to, both, columns(c.plugin.Out)) }
	if failed := c.output.write(c.plugin.Out, both, text); failed != nil {
		return failed
	}
	return err
}

// half adds to an error what was applied before it, which stays.
func (c *connecting) half(err error, both []*joined) error {
	var stay []string
	for _, j := range both {
		if j.Action != link.Keep {
			stay = append(stay, "Peer "+j.Peer+" of cluster "+j.From)
		}
		for _, grant := range j.Grants {
			stay = append(stay, "PeerGrant "+grant+" of cluster "+j.From)
		}
	}
	if len(stay) == 0 {
		return err
	}
	return fmt.Errorf("%w; what was applied stays (%s): repeat the command, or remove it with kubectl lighterage "+
		"disconnect %s", err, strings.Join(stay, ", "), c.contexts())
}

// rights that connecting takes in a cluster.
func (c *connecting) rights(s *side) []right {
	rights := s.readRights()
	i := 0
	if s == c.sides[1] {
		i = 1
	}
	if c.endpoints[i] == "" {
		rights = append(rights, right{resource: "services", verb: "get", namespace: s.operator, name: gatewayService})
	}
	if c.manifests == "" {
		rights = append(rights, peerRights("create", "patch")...)
		for _, g := range c.granted[i] {
			for _, verb := range []string{"create", "patch"} {
				rights = append(rights, right{
					group: v1alpha1.GroupVersion.Group, resource: "peergrants", verb: verb, namespace: g.Namespace,
				})
			}
		}
	}
	return rights
}

// plan decides what a cluster needs in order to know the other one.
func (c *connecting) plan(ctx context.Context, observer *side, of int) (link.Step, error) {
	other := c.sides[of]
	wanted := link.Wanted{Name: other.name, Fallback: other.context, CABundle: other.bundle}
	nameFlag, endpointFlag := "--name", "--endpoint"
	if of == 1 {
		nameFlag, endpointFlag = "--to-name", "--to-endpoint"
	}
	var unknown error
	switch c.endpoints[of] {
	case "":
		wanted.Found, unknown = other.findEndpoint(ctx)
	case noEndpoint:
	default:
		wanted.Endpoint = c.endpoints[of]
	}
	step, err := link.Plan(observer.peers, wanted)
	switch {
	case errors.Is(err, link.ErrNameTaken):
		return step, fmt.Errorf("cluster %s cannot know cluster %s: %w; choose another name with %s, or, if cluster %s has "+
			"a new CA, delete that Peer", observer.context, other.context, err, nameFlag, other.context)
	case errors.Is(err, link.ErrOtherName):
		return step, fmt.Errorf("cluster %s cannot know cluster %s: %w; leave out %s, or delete that Peer",
			observer.context, other.context, err, nameFlag)
	case errors.Is(err, link.ErrNoName):
		return step, fmt.Errorf("cluster %s cannot know cluster %s: %w; give a name with %s",
			observer.context, other.context, err, nameFlag)
	case err != nil:
		return step, fmt.Errorf("cluster %s cannot know cluster %s: %w", observer.context, other.context, err)
	case unknown != nil && step.Peer.Spec.Endpoint == "":
		return step, fmt.Errorf("%w; give the address with %s, or write %s none if nothing is to be sent to cluster %s",
			unknown, endpointFlag, endpointFlag, other.context)
	}
	return step, nil
}

// findEndpoint finds the address of the gateway.
func (s *side) findEndpoint(ctx context.Context) (string, error) {
	var service corev1.Service
	key := client.ObjectKey{Namespace: s.operator, Name: gatewayService}
	if err := s.cluster.Get(ctx, key, &service); err != nil {
		return "", s.failed("reading Service "+key.String(), err)
	}
	var nodes corev1.NodeList
	if service.Spec.Type == corev1.ServiceTypeNodePort {
		if err := s.cluster.List(ctx, &nodes); err != nil {
			return "", s.failed("listing nodes for the address of the gateway's node port", err)
		}
	}
	endpoint, err := link.Endpoint(&service, nodes.Items)
	if err != nil {
		return "", fmt.Errorf("cluster %s: the address of Service %s is not known: %w", s.context, key, err)
	}
	return endpoint, nil
}

func (s *side) apply(ctx context.Context, object client.Object, options ...client.ApplyOption) error {
	content, err := applied(object)
	if err != nil {
		return err
	}
	options = append(options, client.FieldOwner(connectOwner))
	err = s.cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(content), options...)
	if err != nil {
		return s.failed("applying "+content.GetKind()+" "+object.GetName(), err)
	}
	return nil
}

// grant applies PeerGrants for a Peer, and returns the names of those that it applied, also with an error.
func (s *side) grant(
	ctx context.Context, grants []link.Grant, peer string, options ...client.ApplyOption,
) ([]string, error) {
	var made []string
	for _, g := range grants {
		object := g.For(peer)
		object.Labels = map[string]string{link.MadeByLabel: link.MadeByConnect}
		err := s.apply(ctx, object, options...)
		if apierrors.IsNotFound(err) {
			return made, fmt.Errorf("cluster %s has no namespace %s for the PeerGrant; make it with the claim that is to be "+
				"written: kubectl create namespace %s --context %s", s.context, g.Namespace, g.Namespace, s.context)
		}
		if err != nil {
			return made, err
		}
		made = append(made, g.Namespace+"/"+object.Name)
		if len(options) == 0 {
			s.say("Cluster %s: PeerGrant %s applied", s.context, made[len(made)-1])
		}
	}
	return made, nil
}

// sayNext says what may be done between clusters that are joined, and what is missing for it.
func (c *connecting) sayNext(both []*joined) {
	granted := false
	for i, flag := range []string{"--grant", "--to-grant"} {
		sender, receiver := c.sides[1-i], c.sides[i]
		for _, g := range c.granted[i] {
			granted = true
			c.say("Transfers of namespace %s in cluster %s may write %s, with spec.destination: {peer: %s, namespace: %s, ...}",
				g.From, sender.context, cmp.Or(g.Claim, "the claims")+" in namespace "+g.Namespace+" of cluster "+receiver.context,
				both[1-i].Peer, g.Namespace)
		}
		if len(c.granted[i]) == 0 && both[1-i].Endpoint != "" {
			c.say("A namespace of cluster %s receives nothing without a PeerGrant: repeat the command with %s NAMESPACE",
				receiver.context, flag)
		}
	}
	if !granted {
		c.say("Next, see that data move: kubectl lighterage verify %s", c.contexts())
	}
}

// prove waits until both Peers are Ready, and says meanwhile what they wait for.
func (c *connecting) prove(ctx context.Context, both []*joined) error {
	began := time.Now()
	last := map[*joined]string{}
	if c.wait > 0 {
		c.say("Waiting up to %s until each cluster reaches the gateway of the other", c.wait)
	}
	for {
		waiting := 0
		for _, j := range both {
			if err := j.look(ctx); err != nil {
				return err
			}
			if !j.Ready && !j.final {
				waiting++
			}
			state := cmp.Or(j.Reason, "the manager has not looked at it yet")
			if state != last[j] && c.wait > 0 {
				c.say("  %3.0f s  %s to %s: %s", time.Since(began).Seconds(), j.From, j.To, state)
			}
			last[j] = state
		}
		if waiting == 0 || time.Since(began) >= c.wait {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted; both Peers exist, repeat the command to go on: %w", ctx.Err())
		case <-time.After(min(peerPoll, max(c.wait-time.Since(began), 0))):
		}
	}
	if c.wait == 0 {
		return nil
	}
	for _, j := range both {
		if !j.Ready {
			return fmt.Errorf("cluster %s does not reach cluster %s: %s; the Peers stay: correct the cause and repeat the "+
				"command, or remove them with kubectl lighterage disconnect", j.From, j.To,
				table.Printable(cmp.Or(j.Message, "its manager has not looked at Peer "+j.Peer+"; check that it runs")))
		}
	}
	return nil
}

// look reads what the manager found out.
func (j *joined) look(ctx context.Context) error {
	var peer v1alpha1.Peer
	if err := j.observer.cluster.Get(ctx, client.ObjectKey{Name: j.Peer}, &peer); err != nil {
		return j.observer.failed("reading Peer "+j.Peer, err)
	}
	j.Ready, j.Reason, j.Message, j.final = false, "", "", false
	j.KnownAs, j.Version = peer.Status.KnownAs, peer.Status.Version
	if c := link.Condition(&peer); c != nil {
		j.Ready, j.Reason, j.Message = c.Status == metav1.ConditionTrue, c.Reason, c.Message
		j.final = link.Final(c.Reason)
	}
	return nil
}

// writeJoined writes lines that are broken at width.
func writeJoined(to io.Writer, both []*joined, width int) error {
	var text strings.Builder
	for _, j := range both {
		var rows table.Rows
		rows.Add("peer", j.Peer+" ("+string(j.Action)+")")
		rows.Add("endpoint", cmp.Or(j.Endpoint, noEndpoint))
		rows.Add("state", cmp.Or(j.Reason, "not known yet"))
		if j.KnownAs != "" {
			rows.Add("known as", j.KnownAs)
		}
		if j.Version != "" {
			rows.Add("version", j.Version)
		}
		for _, grant := range j.Grants {
			rows.Add("PeerGrant", grant)
		}
		fmt.Fprintf(&text, "%s to %s\n%s", table.Printable(j.From), table.Printable(j.To), rows.Text("  "))
	}
	return writeNarrow(to, text.String(), width)
}
