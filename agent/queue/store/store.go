// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the messages of one queue: a NATS server in this process, with
// JetStream on a volume and one stream, which has the name of the queue.
//
// The server takes no clients from the network. Who talks to it does so by connections
// within the process: the front for clients with the rights of one, and the agent
// itself with all.
package store

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

// Options of a Store. They cannot be changed while it runs.
type Options struct {
	// Queue is the name of the queue, its stream and the first token of its subjects: a
	// DNS label.
	Queue string
	// Member is the name of this server, unique among the members. Empty: Queue.
	Member string
	// Directory to keep everything in. It has to be empty or that of the same member.
	Directory string
	// Memory says that messages are kept in memory and lost with the process.
	Memory bool
	// Spill has the files of messages in memory, as far as they fit; nil: on the volume. It is for a store whose Memory is
	// false.
	Spill *Spill
	// Capacity is the most that messages may take, in bytes. Less if the volume turns out to have
	// space for less, see Volume. 0: what is free on the volume at the start, or three quarters of the memory.
	Capacity int64
	// Sync says when what was acknowledged is on the volume.
	Sync Sync
	// MaxPayload is the longest message with its headers in bytes, as it is stored.
	// 0: 1 MiB.
	MaxPayload int32
	// Cluster is nil for a queue of one member.
	Cluster *Cluster
	Log     *slog.Logger
}

// Sync says when messages, and what is kept about them, are written so that they survive the node and
// not this process alone.
type Sync struct {
	// Always: before anything is acknowledged. Of several members, most have it on their volumes then.
	Always bool
	// Interval between two syncs if not; at least MinSyncInterval. 0: DefaultSyncInterval.
	Interval time.Duration
}

const (
	// DefaultSyncInterval is less than the server's own of two minutes.
	DefaultSyncInterval = 2 * time.Second
	// MinSyncInterval is the least that Sync.Interval may be: what wants less wants Always.
	MinSyncInterval = 100 * time.Millisecond
)

// Every is the interval in effect.
func (s Sync) Every() time.Duration {
	if s.Interval == 0 {
		return DefaultSyncInterval
	}
	return max(s.Interval, MinSyncInterval)
}

// Cluster says how members find each other. A queue that began with one member cannot
// become one with several, nor the other way round.
type Cluster struct {
	// ListenAddress for the other members, host:port. Port 0: any that is free.
	ListenAddress string
	// Members are host:port of all members; that of this one may be among them.
	Members []string
	// TLS is for both directions. It should ask for and verify certificates.
	TLS *tls.Config
}

// Store is a running server. It is safe for concurrent use.
type Store struct {
	*Streams
	options  Options
	server   *server.Server
	log      *logger
	password map[string]string
	filters  filters
	looks    *nats.Conn // at consumers, in a cluster
	spilling *spilling  // nil: nothing is swept
	// endSpilling and spillingEnded are not nil when something is.
	endSpilling, spillingEnded func()
}

// The users of the server.
const (
	clientUser = "client"
	agentUser  = "agent"
)

// startTimeout bounds how long the server may take to read its volume. It checks every
// message of the last block and reads the index of the others.
const startTimeout = 5 * time.Minute

// listenInterval is between two looks whether other members can connect.
const listenInterval = 5 * time.Millisecond

// connectTimeout bounds how long the server may take to admit who is in this process.
const connectTimeout = 30 * time.Second

// authTimeout bounds how long a connection within the process may take to say who it is. The server's own of two
// seconds would be that of clients of the front, whose name it says when they have said it.
const authTimeout = time.Minute

const defaultMaxPayload = 1 << 20

// Start opens the volume and starts the server, which has no stream on a new volume; see
// Ensure. The store must be shut down.
func Start(ctx context.Context, o Options) (*Store, error) {
	if err := checkName(o.Queue); err != nil {
		return nil, err
	}
	if o.Member == "" {
		o.Member = o.Queue
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = defaultMaxPayload
	}
	s := &Store{
		Streams: &Streams{queue: o.Queue, memory: o.Memory, capacity: o.Capacity}, options: o, log: newLogger(o.Log),
		password: map[string]string{clientUser: rand.Text(), agentUser: rand.Text()},
	}
	settings, err := s.serverOptions()
	if err != nil {
		return nil, err
	}
	if s.server, err = server.NewServer(settings); err != nil {
		return nil, fmt.Errorf("set up the store of queue %s: %w", o.Queue, err)
	}
	if o.Spill != nil {
		s.spilling = newSpilling(*o.Spill, o.Directory)
	}
	if !o.Memory && o.Capacity > 0 {
		members := 1
		if o.Cluster != nil {
			members = max(2, len(o.Cluster.Members))
		}
		s.space = newSpace(o.Queue, o.Member, o.Capacity, members)
		s.space.look, s.space.leads = s.Volume, s.Leader
	}
	s.server.SetLoggerV2(s.log, false, false, false)
	started := make(chan struct{})
	go func() { // It returns when JetStream has read the volume.
		defer close(started)
		s.server.Start()
	}()
	err = s.awaitStart(ctx, started)
	if err == nil && o.Cluster != nil {
		s.looks, err = s.Connect("filters of consumers")
	}
	if err != nil {
		s.server.Shutdown()
		return nil, fmt.Errorf("start the store of queue %s in %s: %w", o.Queue, o.Directory, err)
	}
	if s.spilling != nil {
		s.endSpilling, s.spillingEnded = s.keepSpilling(ctx)
	}
	return s, nil
}

func (s *Store) awaitStart(ctx context.Context, started <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-started:
	case <-ctx.Done():
		return ctx.Err()
	}
	// It begins to listen for other members by itself.
	for s.options.Cluster != nil && s.server.ClusterAddr() == nil && s.log.fatal() == nil {
		select {
		case <-time.After(listenInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := s.log.fatal(); err != nil {
		return err
	}
	if !s.server.JetStreamEnabled() {
		return errors.New("JetStream does not run; the log says why")
	}
	return nil
}

// checkName refuses what is no token of a subject.
func checkName(name string) error {
	if name == "" || len(name) > 63 || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) {
		return fmt.Errorf("queue name %q: use up to 63 lower-case letters, digits and hyphens", name)
	}
	return nil
}

func (s *Store) serverOptions() (*server.Options, error) {
	o := s.options
	// Even if somebody knew the passwords, connections within the process have to be such.
	inProcess := map[string]struct{}{jwt.ConnectionTypeInProcess: {}}
	settings := &server.Options{
		ServerName: o.Member, DontListen: true, NoSigs: true, NoLog: true, DisableJetStreamBanner: true,
		MaxPayload: o.MaxPayload, MaxPending: max(maxPending, 2*int64(o.MaxPayload)), WriteDeadline: writeDeadline,
		MaxSubs:     MaxSubscriptions,
		AuthTimeout: authTimeout.Seconds(), JetStream: true, StoreDir: o.Directory,
		JetStreamLimits: server.JSLimitOpts{MaxBatchInflightPerStream: maxBatches, MaxBatchSize: MaxAtomicBatch},
		SyncAlways:      o.Sync.Always, SyncInterval: o.Sync.Every(),
		Users: []*server.User{
			{Username: agentUser, Password: s.password[agentUser], AllowedConnectionTypes: inProcess},
			{
				Username: clientUser, Password: s.password[clientUser], Permissions: permissions(o.Queue),
				AllowedConnectionTypes: inProcess,
			},
		},
	}
	capacity := o.Capacity
	if capacity > 0 {
		capacity += maxLeaseBytes + maxDictionaryBytes
	}
	if capacity > 0 && o.Cluster != nil {
		capacity += maxIDBytes
	}
	if o.Memory {
		settings.JetStreamMaxMemory = capacity
	} else {
		settings.JetStreamMaxStore = capacity
	}
	if o.Cluster == nil {
		return settings, nil
	}
	host, port, err := net.SplitHostPort(o.Cluster.ListenAddress)
	if err != nil {
		return nil, fmt.Errorf("address to listen on for other members: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("address to listen on for other members: %w", err)
	}
	// The server finds other members only when it listens for clients as well.
	settings.DontListen, settings.Host, settings.Port = false, "127.0.0.1", server.RANDOM_PORT
	settings.Cluster = server.ClusterOpts{
		Name: o.Queue, Host: host, Port: listenPort(number), NoAdvertise: true, TLSConfig: o.Cluster.TLS, TLSTimeout: 10,
		WriteDeadline: server.DEFAULT_FLUSH_DEADLINE,
		// What is worth it is compressed already.
		Compression: server.CompressionOpts{Mode: server.CompressionOff},
	}
	for _, member := range o.Cluster.Members {
		settings.Routes = append(settings.Routes, &url.URL{Scheme: "nats-route", Host: member})
	}
	return settings, nil
}

// listenPort says it as the server wants it, for whose 0 there is no port at all.
func listenPort(number uint64) int {
	if number == 0 {
		return server.RANDOM_PORT
	}
	return int(number)
}

// permissions are those of the connections of clients.
func permissions(queue string) *server.Permissions {
	publish, subscribe := roles.ServerPermissions(queue)
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe},
	}
}

// Dial returns a connection within the process on which the server speaks the protocol
// of NATS to a client that has not said yet who it is.
func (s *Store) Dial(context.Context) (net.Conn, error) {
	conn, err := s.server.InProcessConn()
	if err != nil {
		return nil, fmt.Errorf("connect to the store of queue %s: %w", s.options.Queue, err)
	}
	return conn, nil
}

// Introduce adds to what is said at CONNECT that by which a connection has the rights of a
// client.
func (s *Store) Introduce(connect map[string]any, _ string) error {
	connect["user"], connect["pass"] = clientUser, s.password[clientUser]
	return nil
}

// Shared reports whether others than the clients of this queue have connections to the
// server.
func (s *Store) Shared() bool { return false }

// Connect returns a connection of the agent itself, which may do everything. It connects
// again by itself whenever it is lost.
func (s *Store) Connect(name string, options ...nats.Option) (*nats.Conn, error) {
	all := append([]nats.Option{
		nats.InProcessServer(s.server), nats.Name(name), nats.UserInfo(agentUser, s.password[agentUser]),
		nats.MaxReconnects(-1),
		nats.Timeout(connectTimeout),
	}, options...)
	conn, err := nats.Connect("", all...)
	if err != nil {
		return nil, fmt.Errorf("connect to the store of queue %s: %w", s.options.Queue, err)
	}
	return conn, nil
}

// Leader reports whether this member leads the stream. That of a queue of one always does.
func (s *Store) Leader() bool {
	if s.options.Cluster == nil {
		return true
	}
	return s.server.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, s.options.Queue)
}

// Ready returns an error unless the server serves and its stream is up to date.
func (s *Store) Ready() error {
	for try := 1; ; try++ {
		asked := &server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Stream: s.options.Queue}
		remembered := s.options.Memory && s.options.Cluster == nil
		if remembered {
			// Of a server that is alone it looks for streams on the volume only.
			asked = &server.HealthzOptions{JSEnabledOnly: true}
		}
		status := s.server.Healthz(asked)
		if status.StatusCode == http.StatusOK && remembered {
			return s.remembered()
		}
		if status.StatusCode == http.StatusOK {
			return nil
		}
		// By this code alone it says that it did not find itself serving within a millisecond, which may be over before
		// a process that waits for a processor has looked.
		if status.StatusCode == http.StatusInternalServerError && try < readyTries &&
			s.server.ReadyForConnections(readyPatience) {
			continue
		}
		return fmt.Errorf("the store of queue %s is not ready: %s", s.options.Queue, status.Error)
	}
}

// remembered returns an error if the server has no stream in memory.
func (s *Store) remembered() error {
	account, err := s.server.JszAccount(&server.JSzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Streams: true})
	if err != nil {
		return fmt.Errorf("the store of queue %s is not ready: %w", s.options.Queue, err)
	}
	if !slices.ContainsFunc(account.Streams, func(d server.StreamDetail) bool { return d.Name == s.options.Queue }) {
		return fmt.Errorf("the store of queue %s is not ready: it has no stream yet", s.options.Queue)
	}
	return nil
}

const (
	readyTries    = 20
	readyPatience = 500 * time.Millisecond
)

// Failed returns an error when the server gave up writing, as it does after the first time
// that the volume was full: it has to be started again when there is space. Then it reads
// what is there and goes on.
func (s *Store) Failed() error {
	if err := s.log.unwritten.Load(); err != nil {
		return fmt.Errorf("the store of queue %s could not write: %w", s.options.Queue, *err)
	}
	if !s.server.JetStreamEnabled() {
		return fmt.Errorf("the store of queue %s was shut down; the log says why", s.options.Queue)
	}
	return nil
}

// RouteAddress is where other members connect; nil for a queue of one.
func (s *Store) RouteAddress() net.Addr {
	if a := s.server.ClusterAddr(); a != nil {
		return a
	}
	return nil
}

// Shutdown ends the server, hands what it leads to other members and waits until all is on
// the volume. Shutting down twice is allowed.
func (s *Store) Shutdown() {
	if s.endSpilling != nil {
		s.endSpilling()
	}
	if s.looks != nil {
		s.looks.Close()
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
	if s.spillingEnded != nil { // What leads has been handed over by then, however slow the disk is.
		s.spillingEnded()
	}
}
