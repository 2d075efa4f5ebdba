// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// What mode Auto decides by is measured here: what a byte of a message takes after it was put.

const (
	// lookInterval is between two looks; the first are firstInterval apart, so that it is soon known what there is to know.
	lookInterval, firstInterval = 10 * time.Second, time.Second
	firstLooks                  = 10
	// memoryByte is the seconds for a byte that is kept in memory, and for its copies.
	memoryByte = 0.2e-9
	// usualRest and usualInflate are the CPU seconds of a byte until they were measured.
	usualRest, usualInflate = 0.5e-9, 2e-9
	// A queue is crowded when messages have this share of its limit, until they have less than that one. Then bytes count
	// and nothing else: a queue that is full rejects messages, or drops them.
	crowdedFrom, crowdedTo = 0.5, 0.4
)

// gauge measures what the messages of a queue take.
type gauge struct {
	members adapt.Links
	crowded bool
}

// measure does so until the context ends.
func (a *Agent) measure(ctx context.Context, r *running) {
	var g gauge
	for n := 0; ; n++ {
		g.look(ctx, r, a.frame.Config())
		interval := lookInterval
		if n < firstLooks {
			interval = firstInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

func (g *gauge) look(ctx context.Context, r *running, c *wirev1.QueueConfig) {
	to := r.front.Classes()
	encoded, decoded := r.front.Encoded().Snapshot(), r.front.Decoded().Snapshot()
	each := average(encoded)
	// Whatever else is not known: nothing is decided by it then.
	if match := reaches(c); match != nil {
		if now, err := transport.MeasureSockets(match); err == nil {
			g.members.Look(to.Classes, now, each)
		}
	}
	write, rest := usualRest, 0.0
	if !r.store.Shared() {
		if r.syncs == nil {
			to.Rested(memoryByte)
		} else if byte, cpu, ok := r.syncs.rate(); ok {
			to.Rested(byte)
			write = cpu
		}
		rest = write * float64(len(c.GetMembers()))
	}
	inflate := inflating(decoded)
	to.SetWay(way(c, rest, inflate, storedShare(decoded, r.front.Statistics().GetStoredFormGets())))
	g.crowd(ctx, r, c)
	r.channels.measure(each, to.Carrier().Send, write, inflate)
}

// way is what becomes of messages that are put.
func way(c *wirev1.QueueConfig, rest, inflate, stored float64) adapt.Way {
	members := float64(len(c.GetMembers()))
	w := adapt.Way{
		// Each copy is sent by one member and received by another. Readers are sent fewer bytes if they take messages as
		// they are stored, and have theirs inflated here otherwise.
		Sends: 2*(members-1) + stored, Rest: rest, Inflate: inflate * (1 - stored), Local: members == 1, Stored: true,
		// What passes between members and clients is not charged; what a channel sends is decided there.
		Unpriced: true,
	}
	if c.GetExternal() != nil {
		w.Sends, w.Local, w.Stored = 1+stored, false, false
	}
	return w
}

// average is how many bytes a message has that is stored.
func average(s meter.Snapshot) float64 {
	return float64(s.CompressedBytes) / float64(max(1, s.Hardware.Operations+s.Software.Operations+s.Stored.Operations))
}

// inflating is the CPU seconds for a byte that is inflated.
func inflating(s meter.Snapshot) float64 {
	const enough = 1 << 20
	n := s.Hardware.Bytes + s.Software.Bytes
	if n < enough {
		return usualInflate
	}
	return s.CPU.Seconds() / float64(n)
}

// storedShare is which share of what is compressed readers take as it is stored.
func storedShare(s meter.Snapshot, stored uint64) float64 {
	inflated := float64(max(0, s.Hardware.Operations+s.Software.Operations))
	if stored == 0 {
		return 0
	}
	return float64(stored) / (float64(stored) + inflated)
}

// reaches says which connections of this process carry messages that are put: those to other members, or to external
// servers; nil: none do.
func reaches(c *wirev1.QueueConfig) func(local, remote int) bool {
	var ports []int
	for _, server := range c.GetExternal().GetServers() {
		if u, err := url.Parse(server); err == nil {
			port, _ := strconv.Atoi(u.Port())
			if port == 0 {
				port = nats.DefaultPort
			}
			ports = append(ports, port)
		}
	}
	if len(ports) > 0 {
		return func(_, remote int) bool { return slices.Contains(ports, remote) }
	}
	if len(c.GetMembers()) < 2 {
		return nil
	}
	for _, address := range append([]string{c.GetRouteAddress()}, routes(c)...) {
		if _, port, err := net.SplitHostPort(address); err == nil {
			if n, err := strconv.Atoi(port); err == nil && n > 0 {
				ports = append(ports, n)
			}
		}
	}
	return func(local, remote int) bool { return slices.Contains(ports, local) || slices.Contains(ports, remote) }
}

func routes(c *wirev1.QueueConfig) []string {
	var all []string
	for _, m := range c.GetMembers() {
		all = append(all, m.GetRouteAddress())
	}
	return all
}

// crowd has messages compressed for their bytes alone while the queue has little space.
func (g *gauge) crowd(ctx context.Context, r *running, c *wirev1.QueueConfig) {
	most := streamSettings(c).MaxBytes
	if most <= 0 {
		r.front.Classes().Crowd(false)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ensurePatience)
	defer cancel()
	js, err := jetstream.New(r.conn)
	if err != nil {
		return
	}
	stream, err := js.Stream(ctx, c.GetQueue())
	if err != nil {
		return // Without a leader nothing is put either.
	}
	g.crowded = crowded(g.crowded, float64(stream.CachedInfo().State.Bytes)/float64(most))
	r.front.Classes().Crowd(g.crowded)
}

func crowded(before bool, share float64) bool {
	if before {
		return share > crowdedTo
	}
	return share > crowdedFrom
}

// measure takes in what the connections of the sending ends carry. Send, write and inflate are the CPU seconds of a
// byte for a connection of this member, for writing and for inflating it. The other queue is taken to be like this one.
func (x *channels) measure(each, send, write, inflate float64) {
	x.mu.Lock()
	all := x.sending
	x.mu.Unlock()
	if send == 0 {
		send = new(policy.SendCost).PerByte()
	}
	for _, s := range all {
		// The other end receives what is sent and stores it as it came, once at least: how many members it has is not
		// known here. Its readers are there as well, where it is inflated.
		s.classes.SetWay(adapt.Way{Rest: 2*send + write, Inflate: inflate, Unpriced: s.own})
		s.links.Look(s.classes.Classes, s.sent.Measure(), each)
	}
}
