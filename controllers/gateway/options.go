// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/agent/wire/datapath"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/pki"
)

// Options of New. Fields that are zero stand for their defaults where one is named.
type Options struct {
	// Client reads from a cache that has ServerNameIndex and SenderIndex on Deliveries, and writes.
	Client client.Client
	// Reader reads without a cache. It is asked before something is created or deleted.
	Reader client.Reader
	// Certificate of the gateway, asked for with every handshake.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Issuer is the CA that issues in this cluster, asked for with every request of a Transfer: certificates of peers'
	// Transfers must name it.
	Issuer func() (*x509.Certificate, error)
	// ChannelKey returns the key of server names of channels, see pki.ChannelServerName. Default: there is none, and
	// no channel.
	ChannelKey func() ([]byte, error)
	// Limits of connections.
	Limits passthrough.Limits
	// DataPath that connections may take beside TCP. Default: MPTCP where the kernel has it.
	DataPath datapath.Path
	// RequestsPerSecond that a peer may make, on average, and that all callers without a Peer may make together. A
	// namespace of a peer may make half of them, and so may its manager, whose requests do not count towards those of
	// the peer. Default 20.
	RequestsPerSecond float64
	// RequestBurst is how many of them may come at once, and half of it for a namespace or a manager. Default 100.
	RequestBurst int
	// OpensPerPeer is how many runs of a peer may wait for their receiving agents at the same time, and half of it how
	// many of a namespace of it. Default 256.
	OpensPerPeer int
	// DeliveriesPerNamespace is how many Deliveries a peer may have in a namespace. Those that have ended make space
	// for new ones, oldest first; when none has ended, new runs wait. The limit may be passed by as many as arrive at
	// the same moment. Default 500.
	DeliveriesPerNamespace int
	// PullsPerNamespace is how many Transfers a peer that pulls may have in a namespace of this cluster. Those that
	// have ended make space for new ones, oldest first. The limit may be passed by as many as arrive at the same
	// moment. Default 100.
	PullsPerNamespace int
	// PollInterval is the longest pause between looks at what an open run waits for, in case that no change of its
	// Delivery is seen before. Default 2s.
	PollInterval time.Duration
	// LookupGrace is the time that a Delivery has to become known to this gateway after another has told the sender of
	// it. Default 1s.
	LookupGrace time.Duration
	// QueueAddress returns the host and port at which a Queue takes messages of other clusters. Default: that of its
	// Service.
	QueueAddress func(namespace, name string) string
	// Outbound is about connections to peers that agents do not dial themselves.
	Outbound Outbound
	// Namespace of the operator, for what passing bytes costs; empty: that is written nowhere.
	Namespace string
	// Registerer of metrics.
	Registerer prometheus.Registerer
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Log of admissions and refusals.
	Log logr.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.RequestsPerSecond < 0 || o.RequestBurst < 0 || o.OpensPerPeer < 0 || o.DeliveriesPerNamespace < 0 ||
		o.PullsPerNamespace < 0 || o.PollInterval < 0 || o.LookupGrace < 0 {
		return o, errors.New("limits of the gateway must not be negative; 0 stands for the default")
	}
	setDefault(&o.RequestsPerSecond, 20)
	setDefault(&o.RequestBurst, 100)
	setDefault(&o.OpensPerPeer, 256)
	setDefault(&o.DeliveriesPerNamespace, 500)
	setDefault(&o.PullsPerNamespace, 100)
	setDefault(&o.PollInterval, 2*time.Second)
	setDefault(&o.LookupGrace, time.Second)
	if o.ChannelKey == nil {
		o.ChannelKey = func() ([]byte, error) { return nil, pki.ErrNoChannelKey }
	}
	if o.QueueAddress == nil {
		o.QueueAddress = func(namespace, name string) string {
			return net.JoinHostPort(name+"."+namespace+".svc", queuePort)
		}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}

func setDefault[T int | float64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
