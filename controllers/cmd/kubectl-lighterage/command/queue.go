// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// errNoMessage is the outcome of a get that received nothing.
var errNoMessage = errors.New(
	"no message is available now; kubectl lighterage queue stat tells how many are unacknowledged",
)

// queue is a Queue and how to reach its service. The cluster is asked only for what the flags do not say.
type queue struct {
	*plugin
	name                                 string
	server, serverName, caFile           string
	operatorNamespace                    string
	tokenFile, tokenName                 string
	clientCertificateFile, clientKeyFile string

	found *v1alpha1.Queue
}

func newQueue(p *plugin) *cobra.Command {
	q := &queue{plugin: p}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Put messages into a Queue, get them from it, and show its state",
		Long: `Put messages into a Queue, get them from it, and show its state.

The commands connect to port 8443 of a ready member through the API server, as kubectl port-forward does, or to
--server.

The certificate of the service is always verified, with the first of these CAs that exists:
  1. --ca-file
  2. ca.crt of the Secret in spec.tls of the Queue; the CAs of this machine if that Secret has none
  3. ca.crt of the ConfigMap NAME-ca in the namespace of the Queue
  4. ca.crt of the ConfigMap lighterage-ca in --operator-namespace

The service authenticates you by --client-certificate and --client-key, else by the token in --token-file, else by the
token in the Secret that spec.authentication.tokens of the Queue names.

They take the verb get on the Queue, on that ConfigMap and on those Secrets, list on pods, and get and create on
pods/portforward. put and get ask no cluster if --server, --ca-file and one of --token-file and --client-certificate
are given.`,
		Example: `  kubectl lighterage queue put orders -n bank -f order.xml --key account-7 --id 4711
  kubectl lighterage queue get orders -n bank --wait 20s > order.xml
  kubectl lighterage queue stat orders -n bank`,
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&q.server, "server", "", "`HOST:PORT` of the service, in place of a member's pod")
	flags.StringVar(
		&q.serverName, "server-name", "",
		"`name` in the certificate of the service (default: NAME.NAMESPACE.svc, or the host of --server)",
	)
	flags.StringVar(&q.caFile, "ca-file", "", "PEM `file` with the CAs of the service")
	flags.StringVar(
		&q.operatorNamespace, "operator-namespace", "lighterage-system", "`namespace` of the ConfigMap lighterage-ca",
	)
	flags.StringVar(&q.tokenFile, "token-file", "", "`file` with the token")
	flags.StringVar(
		&q.tokenName, "token-name", "", "`key` of the token in the Secret of the Queue (default: its only key)",
	)
	flags.StringVar(
		&q.clientCertificateFile, "client-certificate", "", "PEM `file` with a client certificate, in place of a token",
	)
	flags.StringVar(&q.clientKeyFile, "client-key", "", "PEM `file` with the key of the client certificate")
	for _, name := range []string{"ca-file", "token-file", "client-certificate", "client-key"} {
		completeFlag(cmd, name, completeFile)
	}
	cmd.MarkFlagsRequiredTogether("client-certificate", "client-key")
	cmd.MarkFlagsMutuallyExclusive("client-certificate", "token-file", "token-name")
	group(cmd, newPut(q), newGet(q), newStat(q))
	for _, c := range cmd.Commands() {
		c.Args, c.ValidArgsFunction = queues.argument(&q.name), p.complete(queues)
	}
	cmd.PersistentPreRunE = func(cmd *cobra.Command, arguments []string) error {
		if host, port, err := net.SplitHostPort(q.server); q.server != "" && (err != nil || host == "" || port == "") {
			return fmt.Errorf("--server must be HOST:PORT, such as orders.example:8443, not %q", q.server)
		}
		return cmd.Root().PersistentPreRunE(cmd, arguments) // cobra runs the nearest one alone
	}
	return cmd
}

// completeFile completes names of files.
var completeFile = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)

// serve makes a RunE that connects to the service.
func (q *queue) serve(run func(context.Context, *service) error) func(*cobra.Command, []string) error {
	return action(func(ctx context.Context) error {
		s, err := q.reach(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		return run(ctx, s)
	})
}

// object reads the Queue, once.
func (q *queue) object(ctx context.Context) (*v1alpha1.Queue, error) {
	if q.found != nil {
		return q.found, nil
	}
	found := &v1alpha1.Queue{}
	if err := q.get(ctx, queues, q.name, found); err != nil {
		return nil, err
	}
	q.found = found
	return found, nil
}

// secret reads a Secret of the Queue's namespace. what says what it holds, and instead what else will do.
func (q *queue) secret(ctx context.Context, name, what, instead string) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: q.namespace, Name: name}
	secret := &corev1.Secret{}
	err := q.cluster.Get(ctx, key, secret)
	switch {
	case err == nil:
		return secret, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf(
			"there is no Secret %q in namespace %q, in which the Queue has %s; create it, or %s", name, q.namespace, what,
			instead,
		)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read Secret %q in namespace %q, in which the Queue has %s; ask for a Role "+
			"there with the verb get on that secret, or %s: %w",
			name, q.namespace, what, instead, err)
	}
	return nil, fmt.Errorf("reading Secret %s: %w", key, err)
}
