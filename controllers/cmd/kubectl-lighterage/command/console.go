// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/spf13/cobra"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/console"
)

// mostClusters bounds how many clusters a console shows.
const mostClusters = 20

type consoling struct {
	*plugin

	address string
	ip      net.IP
	port    int
	also    []string
}

func newConsole(p *plugin) *cobra.Command {
	c := &consoling{plugin: p}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve a page for the browser about clusters, on this machine alone, with your own rights",
		Long: `Serve pages about one or several clusters to a browser on this machine: a map of clusters and of what flows between
them, runs while they go on, and a page for each object with its conditions, decisions, history, cost and alternatives.

It listens on an address of loopback and prints a link that signs one browser in. The link can be opened once, within 10
minutes; press Enter for another one. Ctrl-C ends the console, and with it all sessions. Where the console runs on
another machine, forward its port by ssh -L, with the same number at both ends.

The pages have your rights in the clusters. They show nothing of Secrets, and ask for none. Where you may patch a
Transfer or CompressionTrial, its page has buttons to run, suspend, pause and resume it, each with a question before it.

It takes list and get on all kinds of lighterage.dev, in the clusters or with --namespace in one namespace; what you may
not read is named. Buttons take patch on transfers or compressiontrials.`,
		Example: `  kubectl lighterage console
  kubectl lighterage console --context east --also west
  kubectl lighterage console -n bank --port 8090`,
		Args: cobra.NoArgs, PreRunE: func(*cobra.Command, []string) error { return c.check() }, RunE: action(c.run),
	}
	flags := cmd.Flags()
	flags.StringVar(&c.address, "address", "127.0.0.1", "`address` of loopback on which to listen: 127.0.0.1 or ::1")
	flags.IntVar(&c.port, "port", 0, "`port` on which to listen; 0 is one that is free")
	flags.StringSliceVar(&c.also, "also", nil, "further `contexts` of the kubeconfig whose clusters to show")
	completeFlag(cmd, "also", p.completeContext)
	return cmd
}

func (c *consoling) check() error {
	c.ip = net.ParseIP(c.address)
	switch {
	case c.ip == nil || !c.ip.IsLoopback():
		return fmt.Errorf("--address must be an address of loopback such as 127.0.0.1 or ::1, not %q", c.address)
	case c.port < 0 || c.port > 65535:
		return fmt.Errorf("--port must be between 0 and 65535, not %d", c.port)
	case len(c.also) >= mostClusters:
		return fmt.Errorf("a console shows %d clusters at most", mostClusters)
	}
	return nil
}

func (c *consoling) run(ctx context.Context) error {
	clusters, err := c.clusters()
	if err != nil {
		return err
	}
	kinds := make([]console.Kind, 0, len(allKinds))
	for _, k := range allKinds {
		kinds = append(kinds, console.Kind{Name: k.name, Resource: k.words[0], Cluster: k.cluster})
	}
	server, err := console.Listen(ctx, c.ip, c.port, console.Options{
		Clusters: clusters, Kinds: kinds, Namespace: *c.flags.Namespace, Version: wirev1.Version,
	})
	if err != nil {
		return err
	}
	if err := c.tell("Open this link in a browser, once:"); err != nil {
		return err
	}
	if err := c.link(server); err != nil {
		return err
	}
	c.say("Enter: another link. Ctrl-C: end.")
	go c.links(server)
	return server.Serve(ctx)
}

// clusters are that of --context and those of --also.
func (c *consoling) clusters() ([]console.Cluster, error) {
	own, err := c.contextName()
	if err != nil {
		return nil, err
	}
	if slices.Contains(c.also, own) {
		return nil, fmt.Errorf("context %s is the one of --context, or the current one: leave it out of --also", own)
	}
	var clusters []console.Cluster
	servers := map[string]string{}
	for i, name := range append([]string{own}, c.also...) {
		of := c.plugin
		if i > 0 {
			of = c.elsewhere(name)
		}
		if err := of.open(); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
		if other := servers[of.config.Host]; other != "" {
			return nil, fmt.Errorf("contexts %s and %s are one cluster, of the server %s: leave one out", other, name,
				of.config.Host)
		}
		servers[of.config.Host] = name
		of.quiet = true // pages say which cluster does not answer
		clusters = append(clusters, &shown{of, name})
	}
	return clusters, nil
}

// link prints a link on a line of its own, whole, so that it can be copied from narrow terminals too.
func (c *consoling) link(server *console.Server) error { return c.tell("  %s", server.Link()) }

// links prints a link for each line of the input, until it ends.
func (c *consoling) links(server *console.Server) {
	if c.In == nil {
		return
	}
	lines := bufio.NewScanner(c.In)
	for lines.Scan() {
		if err := c.link(server); err != nil {
			return
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, context.Canceled) {
		c.say("Enter prints no further links: %v", err)
	}
}
