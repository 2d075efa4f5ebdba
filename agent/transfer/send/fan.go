// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// MaxReceivers is the most receivers of a Fan.
	MaxReceivers = 64
	// maxFanStreams bounds the connections of all of them, and with them the blocks that stalled receivers hold.
	maxFanStreams = 64
	// defaultSpool is how many bytes of encoded blocks wait for receivers.
	defaultSpool = 64 << 20
	// defaultGathering is how long receivers that are ready wait for those that are not.
	defaultGathering = 15 * time.Second
)

// Fan is one source for several receivers. Each has an attempt of its own, with Run. What they have in common is that a
// block which several of them need is read and compressed once, if they come to need it at about the same time: the
// first to need it leaves it in a spool of a fixed size for the others. The spool is a cache. A receiver that falls
// behind finds nothing there and has its blocks read again, and nobody waits for another's network.
//
// The options of all attempts must be the same, but for how the receiver is reached and the form in which files are to
// rest there, with what follows from that. The source must be a tree.Source, whose entries tell versions of a file
// apart.
type Fan struct {
	options FanOptions
	spool   spool
	sums    sums
	walk    *walk // nil: each attempt walks by itself
	shares  shares

	mu     sync.Mutex
	places map[string]*Place // of attempts that have not ended
	// missing of those are not known to be ready; gathered is closed when nobody waits for them any more.
	missing  int
	gathered chan struct{}
	begun    bool
	timer    *time.Timer // nil before the first is ready
	// common is what all read that had gathered, and joinable that they read joinable blocks.
	common   []codec.ID
	joinable bool
}

// FanOptions are those of a Fan.
type FanOptions struct {
	// Source is walked once for the attempts that begin together, which is part of what is read; nil: each walks its own.
	// It must stay open until all have left.
	Source Source
	// Spool bounds the encoded blocks that wait for receivers, in bytes. 0 is the default: 64 MiB.
	Spool int64
	// Gathering is how long receivers that are ready wait for those that are not, to begin together. 0 is the default:
	// 15 s.
	Gathering time.Duration
}

// Place is that of a receiver for one attempt.
type Place struct {
	fan  *Fan
	name string

	// together: it begins with others.
	together bool
	// Under fan.mu until met is set, and constant then. A receiver reads codecs, and joinable blocks; its own blocks are
	// of codecs in writes.
	met             bool
	reads, writes   []codec.ID
	joinable, joins bool
	// onlyJoinable: its blocks become parts of gzip members, which takes deflate that is joinable.
	onlyJoinable bool

	position int64 // under spool.mu; see spool.take
	share    share // under shares.mu
}

// NewFan makes a Fan and returns a place in it for each receiver, by names that differ, of which there are MaxReceivers
// at most. None is added later.
func NewFan(o FanOptions, receivers ...string) ([]*Place, error) {
	if o.Spool <= 0 {
		o.Spool = defaultSpool
	}
	if o.Gathering <= 0 {
		o.Gathering = defaultGathering
	}
	if len(receivers) > MaxReceivers {
		return nil, fmt.Errorf("more than %d destinations: make several Transfers", MaxReceivers)
	}
	f := &Fan{
		options: o, places: make(map[string]*Place), missing: len(receivers), gathered: make(chan struct{}),
	}
	f.spool.init(o.Spool)
	f.shares.init()
	places := make([]*Place, len(receivers))
	for i, name := range receivers {
		if f.places[name] != nil {
			return nil, fmt.Errorf("destination %q is named twice: what it gets is sent once", name)
		}
		p := &Place{fan: f, name: name}
		places[i], f.places[name] = p, p
		f.spool.join(p)
		f.shares.join(p)
	}
	if o.Source != nil {
		f.walk = newWalk(o.Source)
	}
	return places, nil
}

// Leave gives the place up, when the attempt has ended and its report is made. It may be called again.
func (p *Place) Leave() {
	f := p.fan
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.places[p.name] != p {
		return
	}
	delete(f.places, p.name)
	f.spool.leave(p)
	f.shares.leave(p)
	if len(f.places) == 0 && f.walk != nil {
		f.walk.end()
	}
	if !p.met {
		f.missing--
		f.begin(false)
	}
}

// streams is how many connections each receiver gets of what it would have alone.
func (f *Fan) streams(alone int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(1, min(alone, maxFanStreams/max(1, len(f.places))))
}

// begin has those go on that are ready, if all are or nobody waits any longer. The caller holds the lock.
func (f *Fan) begin(now bool) {
	if f.begun || !now && (f.missing > 0 || f.timer == nil) {
		return
	}
	f.begun = true
	f.joinable = true
	first := true
	for _, p := range f.places {
		if !p.met {
			continue
		}
		if first {
			f.common, first = slices.Clone(p.reads), false
		}
		f.common = slices.DeleteFunc(f.common, func(id codec.ID) bool { return !slices.Contains(p.reads, id) })
		f.joinable = f.joinable && p.joinable
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	close(f.gathered)
}

// meet waits until the receivers begin, and changes the terms to what all of those that have gathered read, if this one
// does. One that comes later does not wait.
func (p *Place) meet(ctx context.Context, o *Options, t *terms) error {
	f := p.fan
	f.mu.Lock()
	p.met, p.reads, p.joinable = true, readOf(o, t), t.accepted.GetJoinable()
	p.onlyJoinable = o.Form == cargo.Gzip
	f.missing--
	p.together = !f.begun
	if f.timer == nil && !f.begun {
		f.timer = time.AfterFunc(f.options.Gathering, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.begin(true)
		})
	}
	f.begin(false)
	f.mu.Unlock()
	select {
	case <-f.gathered:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.agree(o, t)
	return nil
}

// sharedWalk returns the walk that the attempt is to follow; nil: it walks by itself. What was walked before an attempt
// began may have changed since.
func (p *Place) sharedWalk() *walk {
	if p == nil || !p.together {
		return nil
	}
	return p.fan.walk
}

// readOf returns what a receiver reads of what is offered, none included.
func readOf(o *Options, t *terms) []codec.ID {
	reads := []codec.ID{codec.None}
	for _, id := range offer(o) {
		if id != codec.None && (id == t.codec || slices.Contains(t.accepted.GetCodecs(), uint32(id))) {
			reads = append(reads, id)
		}
	}
	return reads
}

// agree settles what the place writes. What f.common and f.joinable are does not change any more.
func (p *Place) agree(o *Options, t *terms) {
	f := p.fan
	common := func(id codec.ID) bool { return slices.Contains(p.reads, id) && slices.Contains(f.common, id) }
	var writes []codec.ID
	for _, id := range offer(o) {
		if id == codec.None {
			break // what is behind it nothing is compressed with
		}
		if common(id) {
			writes = append(writes, id)
		}
	}
	if len(writes) > 0 {
		t.codec = writes[0]
		accepted := &wirev1.Accepted{
			Codec: uint32(writes[0]), Joinable: p.joinable && (f.joinable || p.onlyJoinable), Inflate: t.accepted.GetInflate(),
			Cores: t.accepted.GetCores(), EarlyFinish: t.accepted.GetEarlyFinish(),
		}
		for _, id := range writes {
			accepted.Codecs = append(accepted.Codecs, uint32(id))
		}
		t.accepted = accepted
	} else {
		writes = p.reads
	}
	if o.Policy.Mode == policy.Never || t.codec == codec.None {
		writes = nil
	}
	p.joins = t.accepted.GetJoinable()
	p.writes = append([]codec.ID{codec.None}, writes...)
}

// grace is how long a packer waits for more before it sends a block that is not full: blocks of several receivers are
// the same ones only if they are cut alike. None waits for longer than that.
const grace = 200 * time.Millisecond

// aligned is how many entries of a manifest share blocks at most. Receivers that need different files have the same
// blocks again from the next multiple on.
const aligned = 512

// apartFrom reports whether a file shares no block with another, so that blocks of several receivers are cut alike.
func (f *outFile) apartFrom(other *outFile) bool { return f.index/aligned != other.index/aligned }

// retriedFrom is where files that are read again lie in the order in which things are sent: behind all others.
const retriedFrom = int64(1) << 62

// behind is how much further than a block a receiver may be that may still need it: its connections work on blocks that
// are not in order.
const behind = 64 * protocol.ChunkSize
