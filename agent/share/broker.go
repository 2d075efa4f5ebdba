// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// interval is how often agents draw.
	interval = time.Second
	// lease is how long a share holds when its agent does not draw again.
	lease = 3 * time.Second
	// leastInterval is how soon an agent may draw again; one that does before is told the same again, after the rest of
	// it.
	leastInterval = interval / 5

	// maxAgents and maxOfNamespace bound who shares an accelerator.
	maxAgents, maxOfNamespace = 256, 64

	// defaultWeight of a namespace and the bounds of others, as a DataQuota has them.
	defaultWeight, maxWeight = 100, 10000

	// headroom is by how much more an agent may come to want than it used, and leastWant how much it wants at least, as
	// a part of what there is.
	headroom, leastWant = 1.25, 0.01

	// contention is how many times as long as at its best a probe takes where others use the accelerator. What there is
	// to share is halved from the second such probe in a row on, down to leastScale, and grows by recovery with each probe
	// that does not take so long.
	contention            = 4
	leastScale, recovery  = 1.0 / 16, 1.0 / 8
	maxUnits, maxReserved = 1024, 90

	// maxRefused is how many refusals an agent is believed between two draws.
	maxRefused = 1e6
)

// BrokerOptions describe a Broker.
type BrokerOptions struct {
	// Units are how many accelerators the node has; 0: 1. Each is granted one second of calls a second.
	Units uint32
	// ReservedPercent of that is granted to nobody, so that others on the machine find it free; at most 90.
	ReservedPercent uint32
	// Now defaults to time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Broker grants shares to agents. It is a wirev1.AcceleratorSharesServer. Connections have to be those of
// transport.NewShareServer. It is safe for concurrent use.
type Broker struct {
	wirev1.UnimplementedAcceleratorSharesServer
	options BrokerOptions

	// pause is replaced in tests.
	pause func(context.Context, time.Duration)

	mu      sync.Mutex
	weights map[string]uint32
	agents  map[transport.ShareCaller]*drawing
	kinds   map[string]*total
	probes  probes
}

// drawing is an agent that shares the accelerator.
type drawing struct {
	drew time.Time
	said Drawn // by the agent, last
	// wants and rate are nanoseconds of the accelerator for each second; rate is what the agent was told.
	wants, rate float64
	contended   bool // as the agent was told
}

// Drawn is what an agent says of itself, since it started: nanoseconds that the accelerator worked for it, and how
// often something was refused.
type Drawn struct{ Used, Refused uint64 }

// since is what was added to before, by a process that may be another one.
func (d Drawn) since(before Drawn) Drawn {
	if d.Used < before.Used || d.Refused < before.Refused {
		return d
	}
	return Drawn{d.Used - before.Used, d.Refused - before.Refused}
}

// total is what agents of a kind were granted and used, in nanoseconds, and how often they were refused something
// because their share was used up, or because the accelerator was contended.
type total struct {
	granted, used             float64
	refusedShare, refusedBusy uint64
}

// NewBroker returns a broker with default weights. An error is about options without meaning.
func NewBroker(o BrokerOptions) (*Broker, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Units == 0 {
		o.Units = 1
	}
	if o.Units > maxUnits {
		return nil, fmt.Errorf("%d accelerators: use at most %d", o.Units, maxUnits)
	}
	if o.ReservedPercent > maxReserved {
		return nil, fmt.Errorf("%d %% of the accelerator reserved: use at most %d", o.ReservedPercent, maxReserved)
	}
	return &Broker{
		options: o, pause: pause, agents: map[transport.ShareCaller]*drawing{}, kinds: map[string]*total{},
		probes: probes{scale: 1},
	}, nil
}

// SetWeights replaces the weights of namespaces. Those that are not there have 100.
func (b *Broker) SetWeights(weights map[string]uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.weights = weights
}

func (b *Broker) weight(namespace string) float64 {
	if w, has := b.weights[namespace]; has {
		return float64(min(max(w, 1), maxWeight))
	}
	return defaultWeight
}

// capacity is what there is to share, in nanoseconds of the accelerator for each second.
func (b *Broker) capacity() float64 {
	return float64(b.options.Units) * 1e9 * float64(100-b.options.ReservedPercent) / 100 * b.probes.scale
}

// Draw implements wirev1.AcceleratorSharesServer.
func (b *Broker) Draw(ctx context.Context, q *wirev1.DrawRequest) (*wirev1.DrawResponse, error) {
	who, err := transport.ShareCallerOf(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	rate, contended, early, err := b.draw(who, Drawn{q.GetUsedNanos(), q.GetRefused()})
	if early > 0 {
		b.pause(ctx, early)
	}
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	return &wirev1.DrawResponse{NanosPerSecond: uint64(rate), Contended: contended}, nil
}

var errTooMany = errors.New("too many agents share the accelerator")

// pause waits until the context ends at most.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// draw returns what an agent is granted. early is for how long its answer is to be held back.
func (b *Broker) draw(
	who transport.ShareCaller, said Drawn,
) (rate float64, contended bool, early time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.options.Now()
	b.expire(now)
	d := b.agents[who]
	switch {
	case d == nil && !b.admits(who.Namespace):
		return 0, false, leastInterval, fmt.Errorf(
			"%w: at most %d, and %d of a namespace", errTooMany, maxAgents, maxOfNamespace)
	case d == nil:
		d = &drawing{said: said, wants: math.Inf(1)}
		b.agents[who] = d
	case now.Sub(d.drew) < leastInterval:
		return d.rate, d.contended, leastInterval - now.Sub(d.drew), nil
	default:
		b.account(who.Kind, d, said, now.Sub(d.drew))
	}
	d.drew = now

	claims := make([]Claim, 0, len(b.agents))
	own := 0
	for caller, other := range b.agents {
		if other == d {
			own = len(claims)
		}
		claims = append(claims, Claim{caller.Namespace, other.wants})
	}
	// The others go on by what they were told until they draw again, so that for a second all have too much together.
	d.rate = Divide(b.capacity(), claims, b.weight)[own]
	d.contended = b.probes.contended()
	return d.rate, d.contended, 0, nil
}

// expire forgets agents that have not drawn for a lease.
func (b *Broker) expire(now time.Time) {
	maps.DeleteFunc(b.agents, func(_ transport.ShareCaller, d *drawing) bool { return now.Sub(d.drew) > lease })
}

// admits reports whether one more agent of a namespace may share.
func (b *Broker) admits(namespace string) bool {
	of := 0
	for caller := range b.agents {
		if caller.Namespace == namespace {
			of++
		}
	}
	return len(b.agents) < maxAgents && of < maxOfNamespace
}

// account takes in what an agent used since it drew last.
func (b *Broker) account(kind string, d *drawing, said Drawn, passed time.Duration) {
	news := said.since(d.said)
	d.said = said
	// Estimates err somewhat, so that more than there is can be true. An agent that says much more is broken.
	spent := min(float64(news.Used), 2*float64(passed)*float64(b.options.Units))
	if d.wants = spent/passed.Seconds()*headroom + leastWant*b.capacity(); news.Refused > 0 {
		d.wants = math.Inf(1)
	}
	t := b.kinds[kind]
	if t == nil {
		t = &total{}
		b.kinds[kind] = t
	}
	t.granted += d.rate * passed.Seconds()
	t.used += spent
	if refused := min(news.Refused, maxRefused); d.contended {
		t.refusedBusy += refused
	} else {
		t.refusedShare += refused
	}
}

// Sharing is what agents were granted and used.
func (b *Broker) Sharing() *wirev1.AcceleratorSharing {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(b.options.Now())
	s := &wirev1.AcceleratorSharing{Agents: uint32(len(b.agents)), Contended: len(b.agents) > 0 && b.probes.contended()}
	for _, kind := range slices.Sorted(maps.Keys(b.kinds)) {
		t := b.kinds[kind]
		s.Kinds = append(s.Kinds, &wirev1.AcceleratorShareUse{
			Kind: kind, GrantedNanos: uint64(t.granted), UsedNanos: uint64(t.used),
			RefusedShare: t.refusedShare, RefusedBusy: t.refusedBusy,
		})
	}
	return s
}

// Probe has the accelerator probed while agents leave it alone, until the context ends: once, and then as long as
// agents share it. probe says how long it takes, with calls that begin before a time; 0: it cannot say. What it could
// not find out is logged once.
func (b *Broker) Probe(ctx context.Context, probe func(until time.Time) (time.Duration, error)) {
	failed := false
	for first := true; ; first = false {
		began := nextQuiet(time.Now())
		pause(ctx, time.Until(began.Add(settles)))
		if ctx.Err() != nil {
			return
		}
		if !first && !b.busy() {
			continue
		}
		took, err := probe(began.Add(quiet))
		if err == nil {
			b.probed(took)
		} else if !failed {
			b.options.Log.Warn("Accelerator cannot be probed, so contention is not seen", "error", err.Error())
		}
		failed = err != nil
	}
}

func (b *Broker) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(b.options.Now())
	return len(b.agents) > 0
}

func (b *Broker) probed(took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probes.add(took)
}

// probes are what probing the accelerator showed.
type probes struct {
	least time.Duration
	slow  int     // how many in a row, up to now, took long
	scale float64 // the part of the capacity that is shared
}

func (p *probes) add(took time.Duration) {
	if took <= 0 {
		return
	}
	if p.least == 0 || took < p.least {
		p.least = took
	}
	if took <= contention*p.least {
		p.slow, p.scale = 0, min(p.scale+recovery, 1)
		return
	}
	if p.slow++; p.slow > 1 { // one may have met what agents inflate
		p.scale = max(p.scale/2, leastScale)
	}
}

func (p *probes) contended() bool { return p.scale < 1 }
