// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet plays everything around the operator in a cluster that is an API server alone: the controllers of Jobs,
// StatefulSets and Deployments, the scheduler, kubelets, provisioners of volumes, all agents, which answer by TLS and
// gRPC with the certificates that the manager made for them, and other clusters with their gateways.
package fleet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// World says how much there is in a cluster.
type World struct {
	Namespaces, Nodes, Volumes, Queues, Endpoints, Peers int
	// Transfers, of which a fifth run, and as many Deliveries.
	Transfers int
	// Limited: Peers have limits, so that half of the Transfers that would run wait; namespaces have weights of two
	// values; a quarter of those Transfers have windows with a limit; and all objects use a policy with a canary.
	Limited bool
}

// RunningTransfers is how many of the Transfers run, as soon as limits let them, and how many of the Deliveries.
func (w World) RunningTransfers() int { return w.Transfers / 5 }

// Admitted is how many Transfers run before any of them has ended.
func (w World) Admitted() int {
	if !w.Limited {
		return w.RunningTransfers()
	}
	return min(w.Peers*w.slots(), w.RunningTransfers())
}

// slots are the runs that there may be to a Peer at a time, if there are limits.
func (w World) slots() int { return max(1, w.RunningTransfers()/w.Peers/2) }

// Replicas of each HTTPEndpoint.
const Replicas = 3

// Options of a Fleet.
type Options struct {
	World World
	// Config is an administrator's. AsManager and AsGateway have the rights of the operator's ServiceAccounts, which
	// alone may write Deliveries.
	Config, AsManager, AsGateway *rest.Config
	// Client of the administrator.
	Client client.Client
}

// Fleet is made by Start.
type Fleet struct {
	Options
	typed        kubernetes.Interface
	certificates certificates
	work         chan func(context.Context) error
	server       *grpc.Server
	peers        *peers
	serving      sync.WaitGroup
	stop         context.CancelFunc

	mu     sync.RWMutex
	agents map[netip.Addr]*agent
	// of are the agents of a pod's controller.
	of map[controllerKey][]*agent
	// attached is the node of a claim whose volume is attached.
	attached map[string]string
	failure  error

	addresses, placed atomic.Uint32
	populated         atomic.Bool
	silent            atomic.Bool
	// Templates counts changes of the templates of Deployments and StatefulSets, which would have pods replaced: here
	// they stay.
	Templates atomic.Int64
	// Bandwidths counts how often agents were told another limit.
	Bandwidths atomic.Int64
}

// workers is how much is done at once of what controllers and kubelets do.
const workers = 24

// Start starts the fleet. It is closed with Close.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	f := &Fleet{
		Options: o, work: make(chan func(context.Context) error, 1<<17),
		agents: map[netip.Addr]*agent{}, of: map[controllerKey][]*agent{}, attached: map[string]string{},
	}
	config := rest.CopyConfig(o.Config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	var err error
	if f.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("0.0.0.0:%d", agentpod.ControlPort))
	if err != nil {
		return nil, fmt.Errorf("listen for the manager: %w", err)
	}
	const buffer = 4 << 10 // there may be thousands of connections
	f.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(f.certificates.config())),
		grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer))
	wirev1.RegisterAgentServer(f.server, service{fleet: f})
	wirev1.RegisterNodeAgentServer(f.server, service{fleet: f})
	wirev1.RegisterHTTPAgentServer(f.server, service{fleet: f})
	wirev1.RegisterQueueAgentServer(f.server, service{fleet: f})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	f.serving.Go(func() { _ = f.server.Serve(&doors{Listener: listener, fleet: f}) })
	for range workers {
		f.serving.Go(func() { f.labour(running) })
	}
	if f.peers, err = startPeers(f); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.watch(running); err != nil {
		f.Close()
		return nil, err
	}
	f.serving.Go(func() { f.heartbeats(running) })
	return f, nil
}

// Close ends everything.
func (f *Fleet) Close() {
	f.stop()
	f.server.Stop()
	if f.peers != nil {
		f.peers.close()
	}
	f.serving.Wait()
}

// Err is the first thing that went wrong and was given up.
func (f *Fleet) Err() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.failure
}

// tries is how often something is tried, a moment apart.
const tries = 6

func (f *Fleet) labour(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case do := <-f.work:
			var err error
			for try := range tries {
				if err = do(ctx); err == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(time.Duration(try+1) * 200 * time.Millisecond)
			}
			if err != nil && ctx.Err() == nil {
				f.mu.Lock()
				if f.failure == nil {
					f.failure = err
				}
				f.mu.Unlock()
			}
		}
	}
}

// address is one that no agent has yet.
func (f *Fleet) address() netip.Addr {
	n := f.addresses.Add(1)
	return netip.AddrFrom4([4]byte{127, 16 + byte(n>>16), byte(n >> 8), byte(n)})
}

// node is the next one by turns.
func (f *Fleet) node() string {
	return nodeName(int(f.placed.Add(1)) % f.World.Nodes)
}

// Silence has a fifth of the agents of Transfers and Deliveries accept connections and answer nothing, or answer again.
func (f *Fleet) Silence(silent bool) {
	f.silent.Store(silent)
	if !silent {
		return
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, a := range f.agents {
		if a.mute {
			a.hangUp()
		}
	}
}

// Asked is how often agents were asked and answered.
type Asked struct {
	// Runs that are never silent; Mute are the others.
	Runs, Mute int64
	// Members of Queues, Replicas of HTTPEndpoints and Nodes.
	Members, Replicas, Nodes int64
	// Reached is how many agents were asked at least once, by what they are.
	Reached map[string]int
}

// Kind is how many agents of a kind there are when everything runs.
type Kind struct {
	Name   string
	Agents int
}

// Expected agents.
func (w World) Expected() []Kind {
	return []Kind{
		{nodeAgent.String(), w.Nodes}, {sender.String(), w.Admitted()},
		{receiver.String(), w.RunningTransfers()}, {member.String(), w.Queues},
		{replica.String(), w.Endpoints * Replicas},
	}
}

// All questions.
func (a Asked) All() int64 { return a.Runs + a.Mute + a.Members + a.Replicas + a.Nodes }

// Asked returns the questions since the fleet was started.
func (f *Fleet) Asked() Asked {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := Asked{Reached: map[string]int{}}
	for _, a := range f.agents {
		n := a.asked.Load()
		switch {
		case a.kind == member:
			all.Members += n
		case a.kind == replica:
			all.Replicas += n
		case a.kind == nodeAgent:
			all.Nodes += n
		case a.mute:
			all.Mute += n
		default:
			all.Runs += n
		}
		if n > 0 {
			all.Reached[a.kind.String()]++
		}
	}
	return all
}
