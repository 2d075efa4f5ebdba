// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queueagent runs a member of a queue as the manager configures it, follows
// changes, and reports.
package queueagent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/serve"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Options of an Agent.
type Options struct {
	// Read returns the configuration as it is now.
	Read func() (*wirev1.QueueConfig, error)
	// Member is the name of this one among the members.
	Member string
	// Directory has the agent's own certificate, tls.crt and tls.key, which clients see
	// unless the configuration names another directory, and queues of other clusters in any
	// case. With a channel it has the other cluster's CA, peer-ca.crt, too.
	Directory string
	// MembersTLS is for connections to other members.
	MembersTLS *tls.Config
	// Engines to compress with, and Decoders to inflate with.
	Engines  serve.Engines
	Decoders func(context.Context) *codec.Registry
	Log      *slog.Logger
	// Dictionaries says when the queue's dictionaries are trained and retired. The zero value is for use.
	Dictionaries dictionary.Timing
	// Interval at which configuration, tokens and certificate are looked at. Default 2 s.
	Interval time.Duration
}

// Agent is one. It is a wirev1.QueueAgentServer, whose reports are there from the start.
type Agent struct {
	wirev1.UnimplementedQueueAgentServer
	options Options
	frame   *serve.Frame[*wirev1.QueueConfig]

	running        atomic.Pointer[running] // nil while it is starting
	channelAddress atomic.Pointer[net.Addr]
	restorer       atomic.Pointer[archive.Restorer] // nil: nothing is restored
	stores         *egress.Guard                    // dials the object stores of archives
	asked          objectstore.Counter              // of these

	mu        sync.Mutex
	detail    string // what a start waits for
	authError string
	pending   error // why the stream is not as the configuration says yet
	external  error // why external servers do not serve at the start
	held      error // why the volume does not let the store start
	unmoved   unmoved
}

// running is what serves clients.
type running struct {
	store    engine
	conn     *nats.Conn
	front    *front.Front
	ids      ids.Keeper // nil: not kept
	quota    *ids.Quota // nil: none
	channels *channels
	syncs    *volumeSyncs // nil: there is no volume
	// checkpoints of the store; nil: there are none.
	checkpoints *syncTimes
	// messages serves those who do not speak the protocol of NATS.
	messages  *messages
	archivers archivers
	// dictionaries that messages refer to; nil: external servers keep the messages.
	dictionaries *dictionary.Keeper
}

// setWindow changes how long ids are remembered.
func (r *running) setWindow(ctx context.Context, settings store.Settings) error {
	r.quota.SetWindow(settings.Window())
	if r.ids == nil {
		return nil
	}
	r.ids.SetWindow(settings.Window())
	if _, shared := r.ids.(*ids.Shared); !shared {
		return nil
	}
	return r.store.EnsureIDs(ctx, r.conn, settings)
}

// New returns an agent that does not run yet.
func New(o Options) *Agent {
	frame := serve.New(serve.Options[*wirev1.QueueConfig]{Read: o.Read, Interval: o.Interval, Log: o.Log})
	o.Interval = frame.Interval
	return &Agent{
		options: o, frame: frame, detail: "the configuration is not read yet", stores: egress.NewGuard(egress.Policy{}),
	}
}

// Run serves until the context ends, and then until clients have gone. The first
// configuration has to be good.
func (a *Agent) Run(ctx context.Context) error {
	err := a.run(ctx)
	if ctx.Err() != nil && a.running.Load() == nil {
		return nil // told to end before it began
	}
	return err
}

func (a *Agent) run(ctx context.Context) error {
	c, err := a.options.Read()
	if err != nil {
		return err
	}
	if err := validate(c); err != nil {
		return err
	}
	options, err := a.storeOptions(c)
	if err != nil {
		return err
	}
	a.frame.Begin(c)
	decoders := a.options.Decoders(ctx)
	decoding, err := message.NewDecoding(decoders)
	if err != nil {
		return err
	}
	defer decoding.Close()
	kept, conn, c, err := a.open(ctx, c, options)
	if kept == nil {
		return a.awaitVolume(ctx, options, err)
	}
	defer kept.Shutdown()
	defer conn.Close()
	defer a.keepSpace(ctx, kept, conn)()
	dictionaries := a.openDictionaries(ctx, kept, conn, c, options, decoding)
	encoding, err := a.encoding(ctx, c, dictionaries)
	if err != nil {
		return err
	}
	given, err := openIDs(ctx, kept, conn, options, streamSettings(c))
	if err != nil {
		return a.awaitVolume(ctx, options, err)
	}
	if given != nil {
		defer func() { _ = given.Close() }() // Everything is written.
	}
	quota, err := a.openQuota(ctx, kept, conn, options, streamSettings(c))
	if err != nil {
		return err
	}
	// It counts for as long as clients are served, also while they are sent away.
	defer beside(context.WithoutCancel(ctx), func(ctx context.Context) { a.keepQuota(ctx, conn, c.GetQueue(), quota) })()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if sweep := kept.NewSweep(conn); !a.sweep(ctx, sweep) {
		go a.keepSweeping(watching, sweep)
	}
	failed := make(chan error, 1)
	go a.watchStore(watching, kept, c.GetStorage().GetDirectory(), failed)
	if err := a.restore(ctx, kept, conn, c, decoders, failed); err != nil {
		return err
	}
	if restored := a.restorer.Load(); restored != nil {
		go restored.Confirm(watching)
	}
	directory := c.GetServingDirectory()
	if directory == "" {
		directory = a.options.Directory
	}
	a.say("there is no certificate to serve")
	serving := a.frame.Certificate(watching, directory)
	if serving == nil {
		return nil
	}
	s := a.settings(c, encoding, decoding)
	served, err := front.New(front.Options{ //nolint:contextcheck // Connections last longer than what starts them.
		Queue: c.GetQueue(), Server: kept, Certificate: serving.Get, Settings: s,
		IDs: given, Quota: quota, Failed: kept.Failed, Log: a.options.Log,
	})
	if err != nil {
		return err
	}
	defer served.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.GetListenAddress())
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	r := &running{
		store: kept, conn: conn, front: served, ids: given, quota: quota, syncs: a.measureVolume(watching, kept, c),
		checkpoints: a.measureCheckpoints(watching, kept), dictionaries: dictionaries,
	}
	r.useDictionaries(c, encoding)
	defer beside(watching, r.runDictionaries)()
	channels, err := a.newChannels(ctx, r, c, decoders, decoding)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer channels.close()
	r.channels = channels
	ended := make(chan error, 3)
	if r.messages, err = a.startMessages(ctx, r, c, int(options.MaxPayload), ended); err != nil {
		return errors.Join(err, listener.Close())
	}
	defer r.messages.close()
	if err := channels.send(watching, c); err != nil {
		return errors.Join(err, listener.Close())
	}
	archived, err := a.startArchive(watching, r, c, decoders)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer archived()
	followed := a.follow(watching, r, c, s)
	a.running.Store(r)
	go a.measure(watching, r) // A volume that does not answer must not keep the agent from ending.
	a.options.Log.Info("Clients are served", "address", listener.Addr().String(), "queue", c.GetQueue())
	go func() { ended <- served.Serve(listener) }() //nolint:contextcheck // It ends by Drain and Close.
	select {
	case err = <-ended:
		err = fmt.Errorf("serve clients: %w", err)
	case err = <-failed:
	case <-ctx.Done():
	}
	stop()
	followed()
	channels.close()
	if err != nil {
		return err
	}
	//nolint:contextcheck // The context has ended; clients get time of their own.
	return a.frame.Drain(func(ctx context.Context, _ time.Duration) error {
		// Both at once: clients of NATS are told to go elsewhere while requests that have begun are served.
		requests := make(chan error, 1)
		go func() { requests <- r.messages.drain(ctx) }()
		return errors.Join(r.front.Drain(ctx), <-requests)
	})
}

// beside runs f until the context ends or end is called, which waits for it.
func beside(ctx context.Context, f func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// ChannelAddress is where queues of other clusters reach this member; nil while nothing is listened on.
func (a *Agent) ChannelAddress() net.Addr {
	if address := a.channelAddress.Load(); address != nil {
		return *address
	}
	return nil
}

// ensureFirst makes the stream. One that is there and cannot be changed yet is served as it is: a
// member that has been given space is the first of several, and the others are given theirs only when
// it is ready.
func (a *Agent) ensureFirst(ctx context.Context, s engine, conn *nats.Conn, c *wirev1.QueueConfig) error {
	err := s.Ensure(ctx, conn, streamSettings(c))
	var refused *store.StreamError
	if !errors.As(err, &refused) || !refused.Exists || !refused.Permanent || errors.Is(err, store.ErrForeign) ||
		errors.Is(err, store.ErrOld) {
		return err
	}
	a.options.Log.Warn("The stream keeps the limits that it has until it can be given others", "error", err.Error())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = err
	return nil
}

// ensurePatience bounds how long other changes wait for that of the stream.
const ensurePatience = 5 * time.Second

// ensureAgain tries what the stream refused before.
func (a *Agent) ensureAgain(ctx context.Context, r *running, c *wirev1.QueueConfig) {
	a.mu.Lock()
	pending := a.pending
	a.mu.Unlock()
	if pending == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ensurePatience)
	defer cancel()
	if err := r.store.Ensure(ctx, r.conn, streamSettings(c)); err != nil {
		return // it is noted
	}
	a.settled()
	a.options.Log.Info("The stream's limits were changed", "revision", c.GetRevision())
}

// settled notes that the stream is as the configuration says.
func (a *Agent) settled() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = nil
}

// say notes what the start waits for.
func (a *Agent) say(detail string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.detail = detail
}

// settings of the front, with who may come in as it is now.
func (a *Agent) settings(c *wirev1.QueueConfig, encoding *message.Encoding, decoding *message.Decoding) front.Settings {
	tokens, cas, problem, unsure := who(c.GetAuthentication())
	a.mu.Lock()
	if problem != "" && problem != a.authError {
		a.options.Log.Warn("Clients cannot be authenticated", "problem", problem)
	}
	a.authError = problem
	a.mu.Unlock()
	return front.Settings{
		Encoding: encoding, Decoding: decoding, MaxMessageSize: maxMessage(c),
		MaxConnections: int(c.GetLimits().GetMaxConnections()),
		Tokens:         tokens, ClientCAs: cas, Unsure: unsure,
		TokenRoles:       rolesOf(c.GetAuthentication().GetTokenRoles()),
		CertificateRoles: rolesOf(c.GetAuthentication().GetCertificateRoles()),
	}
}

// follow takes over configurations and tokens that have changed until the context ends. end waits for that.
func (a *Agent) follow(ctx context.Context, r *running, first *wirev1.QueueConfig, s front.Settings) (end func()) {
	wait := a.frame.Follow(ctx, serve.Service[*wirev1.QueueConfig]{
		Passed: r.passed, ResetStatistics: func(now time.Time) {
			r.resetStatistics(now)
			a.asked.Reset()
		},
		Reload: func(ctx context.Context, before, c *wirev1.QueueConfig) error {
			return a.reload(ctx, r, first, before, c, &s)
		},
		Look: func(ctx context.Context, c *wirev1.QueueConfig) {
			a.ensureAgain(ctx, r, c)
			r.channels.release(ctx, c.GetQueue())
			// Tokens come and go without a change of the configuration.
			if next := a.settings(c, s.Encoding, s.Decoding); !slices.Equal(next.Tokens, s.Tokens) || next.Unsure != s.Unsure {
				s = next
				if err := r.front.Reload(s); err != nil {
					a.frame.Note(err)
				}
			}
		},
	})
	return func() {
		wait()
		s.Encoding.Close()
	}
}

// reload makes a configuration the one in effect.
func (a *Agent) reload(ctx context.Context, r *running, first, before, c *wirev1.QueueConfig, s *front.Settings) error {
	if err := validate(c); err != nil {
		return err
	}
	// Whatever else cannot be done: who may not send any more is rejected, and what must not be dialled any more is
	// not.
	if err := errors.Join(r.channels.accept(c), a.permit(r.store, c)); err != nil {
		return err
	}
	if err := changeable(first, c); err != nil {
		return err
	}
	encoding := s.Encoding
	if c.GetCompressionMinSize() != before.GetCompressionMinSize() ||
		!proto.Equal(c.GetCompression(), before.GetCompression()) {
		var err error
		if encoding, err = a.encoding(ctx, c, r.dictionaries); err != nil {
			return err
		}
	}
	if streamSettings(c) != streamSettings(before) {
		if err := r.store.Ensure(ctx, r.conn, streamSettings(c)); err != nil {
			if encoding != s.Encoding {
				encoding.Close()
			}
			return err
		}
		a.settled()
		if err := r.setWindow(ctx, streamSettings(c)); err != nil {
			return err
		}
	}
	next := a.settings(c, encoding, s.Decoding)
	if err := r.front.Reload(next); err != nil {
		if encoding != s.Encoding {
			encoding.Close()
		}
		return err
	}
	if encoding != s.Encoding {
		s.Encoding.Close()
	}
	*s = next
	r.useDictionaries(c, encoding)
	if sendingChanges(before, c) {
		if err := r.channels.send(ctx, c); err != nil {
			return err
		}
	} else {
		r.channels.price(c)
	}
	if c.GetArchive() != nil {
		settings, err := a.archiveSettings(ctx, c)
		if err != nil {
			return err
		}
		r.archivers.each(func(one *archive.Archiver) { one.Set(settings) })
	}
	r.messages.adopt(c)
	r.channels.limit(c)
	a.options.Log.Info("Configuration was taken over", "revision", c.GetRevision())
	return nil
}

// resetStatistics has all counters begin again.
func (r *running) resetStatistics(now time.Time) {
	r.front.ResetStatistics(now)
	r.channels.resetStatistics()
	r.syncs.reset()
	r.checkpoints.reset()
	if own, ok := r.store.(*store.Store); ok {
		own.ResetSwept()
	}
	r.archivers.each((*archive.Archiver).ResetStatistics)
	if r.dictionaries != nil {
		r.dictionaries.ResetStatistics()
	}
}
