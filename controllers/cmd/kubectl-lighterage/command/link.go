// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// linkTries is how often what is kept of tokens is written when somebody else writes it at the same time.
	linkTries = 5
	// maxTokenInput bounds what is read as a token.
	maxTokenInput = 4096
)

// linking is a command by which two clusters are joined whose kubeconfigs nobody has both of.
type linking struct {
	plugin   *plugin
	operator string
	// name of this cluster in the other one, and peerName that of the other one here.
	name, peerName string
	endpoint, dial string
	wait           time.Duration
	output         choice

	token *link.Token // nil: it is read from the input
	side  *side
	// ahead is by how much the clock of the cluster, which its gateway goes by, is ahead of that of this machine.
	ahead time.Duration
}

func newLink(p *plugin) *cobra.Command {
	return group(&cobra.Command{
		Use:   "link",
		Short: "Join two clusters by a one-time token, where nobody has the kubeconfigs of both",
		Example: `  kubectl lighterage link create --context west
  kubectl lighterage link redeem - --context east < token`,
	}, newLinkCreate(p), newLinkRedeem(p), newLinkAccept(p))
}

// command adds the flags that all have.
func (l *linking) command(cmd *cobra.Command, wait time.Duration, waited string) *cobra.Command {
	cmd = l.output.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&l.operator, "operator-namespace", "lighterage-system", "`namespace` of the operator")
	flags.StringVar(&l.peerName, "peer-name", "", "`name` of the other cluster here (default: what it proposes)")
	flags.DurationVar(&l.wait, "wait", wait, waited)
	return cmd
}

// offered adds the flags of how this cluster is known to the other one.
func (l *linking) offered(cmd *cobra.Command, endpoint string) *cobra.Command {
	cmd.Flags().StringVar(&l.name, "name", "", "`name` of this cluster in the other one (default: its context)")
	cmd.Flags().StringVar(&l.endpoint, "endpoint", "", endpoint)
	return cmd
}

func newLinking(p *plugin) *linking {
	return &linking{plugin: p, output: choice{"text", "json", "yaml"}}
}

func newLinkCreate(p *plugin) *cobra.Command {
	l := newLinking(p)
	return l.offered(l.command(&cobra.Command{
		Use:   "create",
		Short: "Make a token by which another cluster joins this one, and wait for it",
		Long: `Make a token by which who has another cluster joins it with this one, print it, and wait until that has happened.
Then apply a Peer for the other cluster, with your rights, and wait until this cluster reaches it.

The token works once, for 15 minutes. Whoever has it can have a Peer made here: give it to who has the other cluster by
a way that nobody else reads. Its hash is kept in the Secret lighterage-links. What the gateway is handed in with it is
accepted only if it is from who has the token.

When the command is interrupted, or with --wait 0, the token stays valid: kubectl lighterage link accept goes on.

It takes get on the namespace kube-system, and on the ConfigMap lighterage-ca and the Service lighterage-gateway of the
operator's namespace; get and update on the Secret lighterage-links there; get, list, create and patch on peers; list on
nodes for a node port.`,
		Example: `  kubectl lighterage link create --context west
  kubectl lighterage link create --context west --endpoint gateway.west.example:8443 --wait 0 > token`,
		Args: cobra.NoArgs, PreRunE: l.check, RunE: action(l.create),
	}, link.TokenLifetime, "how long to wait for the other cluster; 0 does not wait"),
		"`host:port` of this cluster's gateway (default: that of its Service)")
}

func newLinkRedeem(p *plugin) *cobra.Command {
	l := newLinking(p)
	cmd := l.offered(l.command(&cobra.Command{
		Use:   "redeem TOKEN|-",
		Short: "Join this cluster with the one that made a token",
		Long: `Join this cluster with the one that made a token. With -, read the token from the input, so that it is in no list of
processes and in no history.

From this machine, call the gateway that the token names. It is authenticated by the fingerprint of its CA in the token,
whatever its address is. Hand in the endpoint and the CA of this cluster; then apply a Peer for the other one, with your
rights, and wait until this cluster reaches it. If this machine does not reach the gateway, name another way to it with
--dial, such as a port that is forwarded, or run the command in a pod.

It takes get on the namespace kube-system, and on the ConfigMap lighterage-ca and the Service lighterage-gateway of the
operator's namespace; get, list, create and patch on peers; list on nodes for a node port.`,
		Example: `  kubectl lighterage link redeem - --context east < token
  kubectl lighterage link redeem - --context east --endpoint none --peer-name west < token`,
		Args: l.argument, PreRunE: l.check, RunE: action(l.redeem),
	}, 2*time.Minute, "how long to wait for the Peer to be Ready; 0 does not wait"),
		"`host:port` of this cluster's gateway; none: it only sends (default: that of its Service)")
	cmd.Flags().StringVar(&l.dial, "dial", "", "`host:port` at which this machine reaches the gateway of the token")
	return cmd
}

func newLinkAccept(p *plugin) *cobra.Command {
	l := newLinking(p)
	return l.command(&cobra.Command{
		Use:   "accept TOKEN|-",
		Short: "Go on where link create was interrupted",
		Long: `Apply a Peer for the cluster that redeemed a token of this cluster, where link create was interrupted before. What was
handed in is kept for 24 hours.

It takes get on the namespace kube-system, and on the ConfigMap lighterage-ca of the operator's namespace; get and
update on the Secret lighterage-links there; get, list, create and patch on peers.`,
		Example: `  kubectl lighterage link accept - --context west < token`,
		Args:    l.argument, PreRunE: l.check, RunE: action(l.accept),
	}, 2*time.Minute, "how long to wait for the Peer to be Ready; 0 does not wait")
}

// argument reads a token. What is none is not repeated: it may be most of one.
func (l *linking) argument(_ *cobra.Command, arguments []string) (err error) {
	if len(arguments) != 1 {
		return errors.New("give one token, or - to read it from the input")
	}
	if arguments[0] != "-" {
		l.token, err = link.ParseToken(arguments[0])
	}
	return err
}

func (l *linking) check(*cobra.Command, []string) error {
	for flag, name := range map[string]string{"--name": l.name, "--peer-name": l.peerName} {
		if problems := validation.IsDNS1123Label(name); name != "" && len(problems) > 0 {
			return fmt.Errorf("%s: %q is no name of a Peer: %s", flag, name, problems[0])
		}
	}
	for flag, endpoint := range map[string]string{"--endpoint": l.endpoint, "--dial": l.dial} {
		if endpoint != "" && !link.ValidEndpoint(endpoint) && (flag != "--endpoint" || endpoint != noEndpoint) {
			return fmt.Errorf("%s must be host:port, such as gateway.west.example:8443, not %q", flag, endpoint)
		}
	}
	if l.wait < 0 {
		return fmt.Errorf("--wait must not be negative, and is %s", l.wait)
	}
	return nil
}

// open finds the cluster, checks the rights, and reads what is known of it.
func (l *linking) open(ctx context.Context, keeps, serves bool) error {
	named, err := l.plugin.contextName()
	if err != nil {
		return err
	}
	s := &side{
		plugin: l.plugin, context: named, operator: l.operator, name: l.name, patience: min(l.wait, caPatience),
	}
	if err := s.open(); err != nil {
		return fmt.Errorf("cluster %s: %w", named, err)
	}
	rights := append(s.readRights(), peerRights("create", "patch")...)
	if keeps {
		for _, verb := range []string{"get", "update"} {
			rights = append(rights, right{resource: "secrets", verb: verb, namespace: s.operator, name: link.SecretName})
		}
	}
	if serves && l.endpoint == "" {
		rights = append(rights, right{resource: "services", verb: "get", namespace: s.operator, name: gatewayService})
	}
	missing, err := s.lacks(ctx, rights)
	if err != nil {
		return s.failed("asking for your rights", err)
	}
	if len(missing) > 0 {
		var lines []string
		for _, r := range missing {
			lines = append(lines, r.String())
		}
		return fmt.Errorf("in cluster %s you lack rights; ask for a ClusterRole with\n  %s", named,
			strings.Join(lines, "\n  "))
	}
	l.side = s
	if own, server := (&checking{plugin: l.plugin}).times(ctx); server.Err == nil {
		l.ahead = server.Value.Sub(own)
	}
	return s.read(ctx)
}

// now is the time of the cluster.
func (l *linking) now() time.Time { return time.Now().Add(l.ahead) }

// contextName is the context that the flags choose.
func (p *plugin) contextName() (string, error) {
	if *p.flags.Context != "" {
		return *p.flags.Context, nil
	}
	raw, err := p.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return raw.CurrentContext, nil
}

// ownName is how this cluster proposes to be known; empty where its context is no name.
func (l *linking) ownName() string {
	if l.name == "" && len(validation.IsDNS1123Label(l.side.context)) == 0 {
		return l.side.context
	}
	return l.name
}

// ownEndpoint is that of the gateway of this cluster; empty for none.
func (l *linking) ownEndpoint(ctx context.Context) (string, error) {
	switch l.endpoint {
	case noEndpoint:
		return "", nil
	case "":
		found, err := l.side.findEndpoint(ctx)
		if err != nil {
			return "", fmt.Errorf("%w; give the address with --endpoint", err)
		}
		return found, nil
	}
	return l.endpoint, nil
}

func (l *linking) create(ctx context.Context) error {
	if err := l.open(ctx, true, true); err != nil {
		return err
	}
	endpoint, err := l.ownEndpoint(ctx)
	if err != nil {
		return err
	}
	if endpoint == "" {
		return errors.New("the other cluster must reach this one to redeem a token: give the address with --endpoint, or " +
			"make the token in the other cluster")
	}
	certificates, err := pki.ParseBundle(l.side.bundle)
	if err != nil {
		return fmt.Errorf("reading the ConfigMap %s: %w", pki.CAName, err)
	}
	l.token, err = link.NewToken(l.ownName(), endpoint, sha256.Sum256(certificates[0].Raw), l.now())
	if err != nil {
		return err
	}
	err = l.keep(ctx, func(records map[string][]byte) (map[string][]byte, error) { return l.token.Add(records, l.now()) })
	if err != nil {
		return err
	}
	until := time.Now().Add(link.TokenLifetime)
	l.plugin.say("This token is a secret that works once, until %s. Who has the other cluster runs there:",
		until.Format(time.TimeOnly))
	l.plugin.say("  kubectl lighterage link redeem -")
	if _, err := fmt.Fprintln(l.plugin.Out, l.token.Encode()); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if l.wait == 0 {
		l.plugin.say("When they have done so: kubectl lighterage link accept -")
		return nil
	}
	l.plugin.say("Waiting until the token is redeemed")
	offer, err := l.awaited(ctx, time.Now().Add(min(l.wait, link.TokenLifetime)))
	if err != nil {
		return err
	}
	return l.finish(ctx, offer)
}

// awaited waits until the token is redeemed.
func (l *linking) awaited(ctx context.Context, until time.Time) (*link.Offer, error) {
	const goOn = "the token stays valid until it ends; go on with kubectl lighterage link accept -"
	for {
		offer, err := l.look(ctx)
		switch {
		case errors.Is(err, link.ErrRejected), apierrors.IsForbidden(err):
			return nil, err
		case err == nil && offer != nil:
			return offer, nil
		case time.Now().After(until) && err != nil:
			return nil, err
		case time.Now().After(until):
			return nil, fmt.Errorf("nobody redeemed the token within %s; %s", l.wait, goOn)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("interrupted; %s: %w", goOn, ctx.Err())
		case <-time.After(peerPoll):
		}
	}
}

// look returns what was handed in with the token; nil while nothing was.
func (l *linking) look(ctx context.Context) (*link.Offer, error) {
	secret := &corev1.Secret{}
	if err := l.side.cluster.Get(ctx, l.key(), secret); err != nil {
		return nil, l.side.failed("reading Secret "+l.key().String(), err)
	}
	return l.token.Offered(secret.Data, l.now())
}

func (l *linking) key() client.ObjectKey {
	return client.ObjectKey{Namespace: l.operator, Name: link.SecretName}
}

// keep changes what is kept of tokens.
func (l *linking) keep(ctx context.Context, change func(map[string][]byte) (map[string][]byte, error)) error {
	var err error
	for range linkTries {
		secret := &corev1.Secret{}
		if err = l.side.cluster.Get(ctx, l.key(), secret); err != nil {
			if apierrors.IsNotFound(err) {
				return fmt.Errorf("cluster %s: there is no Secret %s: its operator is of a release without link tokens; "+
					"upgrade it: %w", l.side.context, l.key(), err)
			}
			return l.side.failed("reading Secret "+l.key().String(), err)
		}
		if secret.Data, err = change(secret.Data); err != nil {
			return err
		}
		if err = l.side.cluster.Update(ctx, secret, fieldOwner); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return l.side.failed("writing Secret "+l.key().String(), err)
	}
	return nil
}

func (l *linking) accept(ctx context.Context) error {
	if err := l.open(ctx, true, false); err != nil {
		return err
	}
	if err := l.readToken(ctx); err != nil {
		return err
	}
	offer, err := l.look(ctx)
	if err != nil {
		return err
	}
	if offer == nil {
		return errors.New("the token has not been redeemed yet")
	}
	return l.finish(ctx, offer)
}

// finish applies the Peer for the cluster that redeemed the token.
func (l *linking) finish(ctx context.Context, offer *link.Offer) error {
	step, err := l.plan(link.Wanted{
		Name: l.peerName, Fallback: offer.Name, Found: offer.Endpoint, CABundle: offer.CABundle,
	})
	if err != nil {
		return fmt.Errorf("%w; then go on with kubectl lighterage link accept -", err)
	}
	if err := l.apply(ctx, step); err != nil {
		return err
	}
	err = l.keep(ctx, func(records map[string][]byte) (map[string][]byte, error) {
		return l.token.Remove(records, l.now()), nil
	})
	if err != nil {
		l.plugin.say("What is kept of the token could not be removed, and ends by itself: %v", err)
	}
	return l.prove(ctx, step)
}

// plan decides what this cluster needs in order to know the other one.
func (l *linking) plan(wanted link.Wanted) (link.Step, error) {
	shared, err := link.Share(l.side.bundle, wanted.CABundle)
	switch {
	case err != nil:
		return link.Step{}, fmt.Errorf("reading the CAs of both clusters: %w", err)
	case shared:
		return link.Step{}, fmt.Errorf("the token is of cluster %s itself, or of one with the same CA", l.side.context)
	}
	step, err := link.Plan(l.side.peers, wanted)
	switch {
	case errors.Is(err, link.ErrOtherName):
		return step, fmt.Errorf("cluster %s cannot know the other one: %w; leave out --peer-name, or delete that Peer",
			l.side.context, err)
	case err != nil:
		return step, fmt.Errorf("cluster %s cannot know the other one: %w; choose a name with --peer-name",
			l.side.context, err)
	}
	return step, nil
}

func (l *linking) apply(ctx context.Context, step link.Step) error {
	if step.Action != link.Keep {
		if err := l.side.apply(ctx, step.Peer); err != nil {
			return err
		}
	}
	l.plugin.say("Cluster %s: Peer %s %s", l.side.context, step.Peer.Name, step.Action)
	return nil
}

// prove waits until the manager reaches the other cluster, and says what it found.
func (l *linking) prove(ctx context.Context, step link.Step) error {
	c := &connecting{pair: pair{plugin: l.plugin}, wait: l.wait}
	both := []*joined{{
		From: l.side.context, To: step.Peer.Name, Peer: step.Peer.Name, Endpoint: step.Peer.Spec.Endpoint,
		Action: step.Action, observer: l.side,
	}}
	err := c.prove(ctx, both)
	text := func(to io.Writer) error { return writeJoined(to, both, columns(l.plugin.Out)) }
	if failed := l.output.write(l.plugin.Out, both[0], text); failed != nil {
		return failed
	}
	return err
}

// readToken reads the token, a line of the input, unless it was an argument. A read of a terminal cannot be broken off:
// when the command is interrupted, it is left behind.
func (l *linking) readToken(ctx context.Context) error {
	if l.token != nil {
		return nil
	}
	if isTerminal(l.plugin.In) {
		l.plugin.say("Paste the token, then Enter")
	}
	type read struct {
		token *link.Token
		err   error
	}
	done := make(chan read, 1)
	go func() {
		text, err := firstLine(io.LimitReader(l.plugin.In, maxTokenInput))
		if err != nil {
			done <- read{err: fmt.Errorf("reading the token: %w", err)}
			return
		}
		token, err := link.ParseToken(text)
		done <- read{token, err}
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted before the token was read: %w", ctx.Err())
	case r := <-done:
		l.token = r.token
		return r.err
	}
}

// firstLine reads the first line that is not blank, without waiting for another one.
func firstLine(from io.Reader) (string, error) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) != "" {
			return lines.Text(), nil
		}
	}
	return "", lines.Err() //nolint:wrapcheck // the caller says of what
}
