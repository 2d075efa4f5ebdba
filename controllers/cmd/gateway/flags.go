// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/lighterage/lighterage/agent/wire/datapath"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/watched"
)

// shutdownReserve is what stopping takes beside draining.
const shutdownReserve = 8 * time.Second

// settings are the command line.
type settings struct {
	address, healthAddress, metricsAddress string
	tunnelAddress                          string
	configDirectory                        string
	verbosity                              int
	shutdownTimeout                        time.Duration
	options                                gateway.Options
	watched                                watched.Namespaces
}

// parse returns nil settings when only help or the version was asked for, and printed to out.
func parse(arguments []string, out io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	version := flags.Bool("version", false, "print the version and exit")
	flags.StringVar(&s.address, "bind-address", ":8443", "address that other clusters connect to")
	flags.StringVar(
		&s.tunnelAddress, "tunnel-bind-address", ":8445",
		"address at which pods of this cluster ask for connections to peers that they do not dial themselves",
	)
	ownAddress := flags.String(
		"own-address", os.Getenv("POD_IP"),
		"IP address at which other replicas reach this one (default: $POD_IP); empty: there are no others",
	)
	replicas := flags.String(
		"replicas-host", "", "name that resolves to the addresses of all replicas; needs --own-address",
	)
	flags.StringVar(
		&s.options.Outbound.Credentials, "proxy-credentials-dir", "/etc/lighterage-proxies",
		"directory with users and passwords for the proxies of Peers, read with each connection",
	)
	flags.IntVar(
		&s.options.Outbound.Limits.Tunnels, "max-tunnels", 4096,
		"connections to peers that pods of this cluster may have, and half of it those of a namespace",
	)
	flags.StringVar(&s.healthAddress, "health-bind-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(
		&s.metricsAddress, "metrics-bind-address", ":8080",
		"address of /metrics, by HTTPS, for whom the API server allows to get it; 0 for none",
	)
	flags.StringVar(
		&s.configDirectory, "config-dir", "/etc/lighterage",
		"directory with tls.crt, tls.key and channel.key, read again when they change",
	)
	flags.StringVar(
		&s.options.Namespace, "namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of the operator, where what passing bytes costs is added up (default: $POD_NAMESPACE)",
	)
	flags.IntVar(&s.verbosity, "v", 0, "log more: 1 also logs connections, 4 what the Kubernetes client does")
	watchNamespaces := flags.String(
		"watch-namespaces", "",
		"namespaces into which peers may send, if a PeerGrant there allows it, with commas; empty: all",
	)
	path := flags.String(
		"data-path", string(datapath.TCP), "SMC: also accept connections by SMC; TCP and MPTCP are always accepted",
	)
	config.RegisterFlags(flags)

	limits := &s.options.Limits
	flags.IntVar(
		&limits.Connections, "max-connections", 4096,
		"connections passed to agents that authenticated their clients, in all, and half as many to others",
	)
	flags.IntVar(
		&limits.ConnectionsPerTarget, "max-connections-per-delivery", 128, "the same for one agent, and as many to others",
	)
	flags.IntVar(
		&limits.LocalConnections, "max-control-connections", 4096,
		"connections of authenticated callers to the gateway itself; one more closes the one that was idle longest",
	)
	flags.IntVar(&limits.LocalConnectionsPerOwner, "max-control-connections-per-peer", 384, "the same for each peer")
	flags.IntVar(
		&limits.LocalConnectionsPerPart, "max-control-connections-per-namespace", 192,
		"the same for each namespace of a peer",
	)
	flags.IntVar(
		&limits.Handshakes, "max-handshakes", 1024,
		"connections without a finished ClientHello, and as many of callers that are not authenticated; one more closes "+
			"the oldest",
	)
	flags.IntVar(
		&limits.HandshakesPerSource, "max-handshakes-per-source", 512, "the same for each IPv4 address or IPv6 /64",
	)
	flags.DurationVar(&limits.HelloTimeout, "hello-timeout", 5*time.Second, "time for a ClientHello")
	flags.DurationVar(
		&limits.IdleTimeout, "idle-timeout", time.Hour,
		"time after which a passed connection is closed on which nothing moves",
	)
	flags.DurationVar(
		&limits.Lifetime, "max-connection-lifetime", 168*time.Hour,
		"time after which a passed connection is closed however busy",
	)
	flags.DurationVar(
		&limits.DrainTimeout, "drain-timeout", 20*time.Second,
		"time that passed connections get to end when the gateway stops",
	)
	flags.Float64Var(
		&s.options.RequestsPerSecond, "peer-requests-per-second", 20,
		"requests that a peer may make on average, and all unknown callers together; a namespace of the peer, and its "+
			"manager, may make half",
	)
	flags.IntVar(
		&s.options.RequestBurst, "peer-request-burst", 100,
		"requests of a peer that may come at once; half for a namespace of the peer",
	)
	flags.IntVar(
		&s.options.OpensPerPeer, "peer-max-waiting-runs", 256,
		"runs of a peer that may wait for their receiving agents; half for a namespace of the peer",
	)
	flags.IntVar(
		&s.options.DeliveriesPerNamespace, "peer-max-deliveries", 500,
		"Deliveries that a peer may have in one namespace, ended ones included",
	)

	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(out, "Usage of gateway:")
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w; see --help", err)
	case flags.NArg() > 0:
		return nil, fmt.Errorf("the gateway takes flags only, not %q; see --help", flags.Arg(0))
	case *version:
		_, err := fmt.Fprintln(out, wirev1.Version)
		return nil, err
	}
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	if err := s.takeReplicas(*ownAddress, *replicas); err != nil {
		return nil, err
	}
	if s.options.DataPath, err = datapath.Parse(*path); err != nil {
		return nil, fmt.Errorf("--data-path: %w; see --help", err)
	}
	if s.watched, err = watched.Parse(*watchNamespaces, ""); err != nil {
		return nil, fmt.Errorf("--watch-namespaces: %w; see --help", err)
	}
	s.shutdownTimeout = limits.DrainTimeout + shutdownReserve
	return s, nil
}

// takeReplicas says how replicas reach each other.
func (s *settings) takeReplicas(own, host string) error {
	if s.options.Outbound.Limits.Tunnels < 0 {
		return errors.New("--max-tunnels must not be negative; see --help")
	}
	_, tunnels, err := net.SplitHostPort(s.tunnelAddress)
	if err != nil {
		return fmt.Errorf("--tunnel-bind-address: %w; see --help", err)
	}
	if host == "" || own == "" {
		return nil
	}
	address, err := netip.ParseAddr(own)
	if err != nil {
		return fmt.Errorf("--own-address: %w; see --help", err)
	}
	_, peers, err := net.SplitHostPort(s.address)
	if err != nil {
		return fmt.Errorf("--bind-address: %w; see --help", err)
	}
	ports := [2]uint16{}
	for i, text := range []string{peers, tunnels} {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return fmt.Errorf("a port of the bind addresses: %w; see --help", err)
		}
		ports[i] = uint16(port)
	}
	s.options.Outbound.Own, s.options.Outbound.Port = netip.AddrPortFrom(address.Unmap(), ports[0]), ports[1]
	s.options.Outbound.Replicas = func(ctx context.Context) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	return nil
}
