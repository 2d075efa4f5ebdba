// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package external keeps the messages of one queue in a cluster of NATS servers that is there already, which others may
// use as well.
//
// Members of the queue have no volume then. They make the queue's streams with JetStream there, mark them as the
// queue's own and leave others alone. Which of the members gives out messages and sends them to other clusters they
// settle by a lease, which is a message in the stream of leases: who leads a stream is the servers' own matter.
package external

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Options of an External. They cannot be changed while it runs.
type Options struct {
	// Queue is the name of the queue, its stream and the first token of its subjects: a DNS label.
	Queue string
	// Owner is who the streams belong to, as it is written into them. Streams of another owner are not touched.
	Owner string
	// Member is the name of this member, unique among those of the queue.
	Member string
	// Servers as nats://HOST:PORT, or all as tls://HOST:PORT, which is never without TLS. Others of their cluster are
	// not dialled.
	Servers []string
	// Egress says which addresses the servers may have. The zero value refuses those of this machine and its
	// neighbours, loopback among them. SetEgress changes it.
	Egress egress.Policy
	// CABundle is who vouches for the servers, as PEM; empty: the CAs of the system.
	CABundle []byte
	// Directory has the credentials, which are sent by TLS only: all Servers begin with tls:// then. Empty: none are
	// shown.
	Directory string
	// Memory says that the servers keep messages in memory.
	Memory bool
	// MaxMessage is the longest plain payload in bytes.
	MaxMessage int
	// Term is how long a member leads after it has last said so. Default 5 s.
	Term time.Duration
	Log  *slog.Logger
}

// External is the streams of a queue in such a cluster. It is safe for concurrent use.
type External struct {
	*store.Streams
	options Options
	servers []*url.URL
	roots   *x509.CertPool
	egress  *egress.Guard

	dialled   atomic.Pointer[error]  // why a server could not be reached, the last time
	forbidden atomic.Pointer[string] // what the servers did not allow, the last time

	conn    *nats.Conn
	lease   *lease
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	problem *failure.Error
	since   time.Time // of problem
	gone    error     // why the members have to be started again
}

const (
	defaultTerm = 5 * time.Second
	// connectTimeout bounds how long a server may take to let somebody in who has reached it.
	connectTimeout = 10 * time.Second
	reconnectWait  = 500 * time.Millisecond
	// A connection is dead when two pings got no answer.
	pingInterval = 5 * time.Second

	// What a queue needs came with this version.
	leastMajor, leastMinor = 2, 12
)

// New returns the streams of a queue. It does not reach for the servers; errors are about the options.
func New(o Options) (*External, error) {
	if o.Term == 0 {
		o.Term = defaultTerm
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Owner == "" {
		return nil, errors.New("the owner of the streams is not given")
	}
	streams, err := store.NewStreams(o.Queue, o.Owner, o.Memory)
	if err != nil {
		return nil, err
	}
	e := &External{Streams: streams, options: o, egress: egress.NewGuard(o.Egress)}
	if e.servers, err = parseServers(o.Servers); err != nil {
		return nil, err
	}
	if o.Directory != "" && e.servers[0].Scheme != schemeTLS {
		return nil, errors.New(
			"credentials are sent by TLS only: write servers as tls://HOST:PORT, or leave the credentials out",
		)
	}
	if len(o.CABundle) > 0 {
		e.roots = x509.NewCertPool()
		if !e.roots.AppendCertsFromPEM(o.CABundle) {
			return nil, errors.New("the servers' CA bundle holds no certificate in PEM")
		}
	}
	return e, nil
}

// SetEgress replaces Options.Egress. Connections to what it does not permit are closed.
func (e *External) SetEgress(p egress.Policy) { e.egress.Set(p) }

// Connect returns a connection of the agent itself, with all the rights that the credentials have. It connects again by
// itself whenever it is lost.
func (e *External) Connect(name string, options ...nats.Option) (*nats.Conn, error) {
	if _, err := readCredentials(e.options.Directory); err != nil {
		return nil, e.Explain(err)
	}
	var servers []string
	for _, server := range e.servers {
		servers = append(servers, schemePlain+"://"+server.Host) // the dialer knows what TLS there is
	}
	all := append([]nats.Option{
		nats.Name(name), nats.SetCustomDialer(dialer{e}), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(),
		nats.IgnoreAuthErrorAbort(),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(2), nats.ErrorHandler(e.heard),
	}, append(e.credentials(), options...)...)
	conn, err := nats.Connect(strings.Join(servers, ","), all...)
	if err != nil {
		return nil, e.Explain(err)
	}
	return conn, nil
}

// heard notes what the servers say about a request without answering it.
func (e *External) heard(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		e.forbidden.Store(new(err.Error()))
	}
	e.options.Log.Warn("External servers report", "report", err.Error())
}

// Begin checks that the servers are what a queue needs, whose streams of messages and leases are there, and takes part
// in leading from then on. After an error it may be tried again.
func (e *External) Begin(ctx context.Context) error {
	conn, err := e.Connect("lease of member " + e.options.Member)
	if err != nil {
		return err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return err
	}
	e.conn = conn
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.lease = newLease(
		js, store.LeaseStream(e.options.Queue), store.LeaseSubject(e.options.Queue, leaseName), e.options.Member,
		e.options.Term, e.options.Log,
	)
	e.running.Go(func() { e.lease.run(ctx) })
	e.running.Go(func() { e.watch(ctx, js) })
	return nil
}

// Check returns why the servers cannot keep a queue, whatever its streams are.
func (e *External) Check(conn *nats.Conn) error {
	if version := conn.ConnectedServerVersion(); !recent(version) {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT,
			"the external server runs nats-server %.40q, and a Queue needs %d.%d at least: upgrade the servers", version,
			leastMajor, leastMinor)
	}
	if longest := conn.MaxPayload(); longest < int64(e.options.MaxMessage) {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT,
			"the external servers take messages of up to %d bytes, and spec.limits.maxMessageSize is %d: make that smaller, "+
				"or max_payload of the servers larger", longest, e.options.MaxMessage)
	}
	return nil
}

// recent reports whether a version is new enough.
func recent(version string) bool {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(minor)
	return err == nil && (m > leastMajor || m == leastMajor && n >= leastMinor)
}

// watch looks after the stream until the context ends.
func (e *External) watch(ctx context.Context, js jetstream.JetStream) {
	ticker := time.NewTicker(e.options.Term / 2)
	defer ticker.Stop()
	for {
		e.note(ctx, e.look(ctx, js))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look returns what is wrong with the streams.
func (e *External) look(ctx context.Context, js jetstream.JetStream) error {
	if !e.conn.IsConnected() {
		return errDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, e.options.Term)
	defer cancel()
	for _, name := range []string{e.options.Queue, store.LeaseStream(e.options.Queue), store.IDStream(e.options.Queue)} {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("look at stream %s: %w", name, err)
		}
		if !e.Owns(stream.CachedInfo().Config) {
			return fmt.Errorf("stream %s: %w", name, store.ErrForeign)
		}
	}
	return nil
}

var errDisconnected = errors.New("the connection was lost")

func (e *External) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.problem = nil
		return
	}
	if e.problem == nil {
		e.since = time.Now()
	}
	e.problem = e.explain(err)
	if e.options.Memory && errors.Is(err, jetstream.ErrStreamNotFound) {
		e.gone = errors.New("the external servers have forgotten what they had in memory")
	}
}

// grace is how long something may be wrong until it is a problem: servers are restarted, and streams change their
// leader.
func (e *External) grace() time.Duration { return e.options.Term + e.options.Term/5 }

// Ready returns what keeps the queue from being served, and nil when nothing does, or has not for long.
func (e *External) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.problem == nil || time.Since(e.since) < e.grace() {
		return nil
	}
	return e.problem
}

// Failed returns an error when members have to make the streams again.
func (e *External) Failed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gone
}

// Leader reports whether this member is the one to give out messages and to send.
func (e *External) Leader() bool { return e.lease.held() }

// Shared implements front.Server.
func (e *External) Shared() bool { return true }

// Configure is told before a client asks for a consumer with these filters; see store.Store. Whether the servers are
// several matters not: they may become several.
func (e *External) Configure(ctx context.Context, consumer string, subjects []string) (fresh bool, err error) {
	fresh, err = e.CheckFilters(ctx, e.conn, consumer, subjects)
	var refused *store.FiltersError
	if err != nil && !errors.As(err, &refused) {
		err = e.Explain(err)
	}
	return fresh, err
}

// Statistics asks the servers. Leader is the member that gives out messages, Lag and Offline are of the servers that
// keep them.
func (e *External) Statistics(ctx context.Context, conn *nats.Conn) (store.Statistics, error) {
	out, err := e.Streams.Statistics(ctx, conn)
	if err == nil {
		out.Leader = e.lease.holder()
	}
	return out, err
}

// Shutdown lets another member lead. Shutting down twice is allowed.
func (e *External) Shutdown() {
	if e.stop == nil {
		return
	}
	e.stop()
	e.running.Wait()
	e.conn.Close()
}
