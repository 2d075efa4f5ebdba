// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package classes decides in mode Auto whether messages are compressed, for classes of messages that are alike in
// subject and size.
package classes

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/regret"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// sizes by name.
var sizes = [...]struct {
	name  string
	below int
}{{"<1Ki", 1 << 10}, {"<4Ki", 4 << 10}, {"<16Ki", 16 << 10}, {"<64Ki", 64 << 10}, {"<256Ki", 256 << 10}, {">=256Ki", 0}}

const (
	// Subjects are told apart by the first token behind the name of the queue, so many of them and no more, whatever
	// clients put: those of others have one class for each size, and so have messages without such a token.
	subjects       = 16
	others, itself = 0, 1
	firstToken     = 2
	// maxToken is the longest token that has a class of its own.
	maxToken = 40
	// sweepEvery is how many messages with other tokens come from one look for tokens that are not used any more to the
	// next.
	sweepEvery = 4096

	count = subjects * len(sizes)
	// maxShown is how many classes reports show.
	maxShown = 32
)

// Classes are those of one queue, or of one channel. It is safe for concurrent use.
type Classes struct {
	*adapt.Classes
	queue string
	// sampler measures what choices lose; nil: nothing does.
	sampler *regret.Sampler

	// tokens have the subjects that were given to them. It is replaced, never changed.
	tokens atomic.Pointer[map[string]int]
	missed atomic.Uint64

	mu      sync.Mutex
	serving policy.Serving
	prices  *policy.Prices // in place of those of serving; nil: none are
	crowded bool
	swept   [subjects]int64 // bodies at the last sweep
}

// New returns the classes of a queue. Pipelined says that some messages travel while the next ones are compressed. A nil
// clock is that of the machine.
func New(queue string, pipelined bool, clock adapt.Clock) *Classes {
	c := &Classes{
		Classes: adapt.NewClasses(count, func(int) bool { return pipelined }, clock), queue: queue,
	}
	c.tokens.Store(&map[string]int{})
	return c
}

// Sample has a sample of the messages measured until the context ends. It is called before Set. A nil machine is this
// one.
func (c *Classes) Sample(ctx context.Context, machine regret.Machine) {
	c.sampler = regret.New(machine, nil)
	go c.sampler.Run(ctx)
}

// Set replaces what is minimised by what an encoding's policy says. before is the encoding that was used until now; nil:
// there was none.
func (c *Classes) Set(e, before *message.Encoding) {
	s := e.Policy()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = policy.Serving{Objective: s.Objective, Prices: s.Prices}
	c.weigh(before != nil && !e.Alike(before))
	o := e.Options()
	ways := regret.Serving(o.Policy, o.Engines, o.Codecs, c.Inflate)
	ways.Overhead = message.HeaderBound
	c.sampler.Set(ways)
}

// Price has messages weighed by prices in place of those of encodings' policies, also of encodings that are set later.
func (c *Classes) Price(p policy.Prices) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prices = &p
	c.weigh(false)
}

// Crowd says whether the queue has so little space that only bytes count.
func (c *Classes) Crowd(crowded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if crowded != c.crowded {
		c.crowded = crowded
		c.weigh(false)
	}
}

// weigh sets what is minimised. mu is held.
func (c *Classes) weigh(afresh bool) {
	s := c.serving
	if c.prices != nil {
		s.Prices = *c.prices
	}
	if c.crowded {
		s.Objective = policy.Bytes
	}
	c.Classes.Set(s, afresh)
}

// Choice is what becomes of a message.
type Choice struct {
	adapt.Decision
	// Workers compress messages of one batch at the same time; 0: each is compressed alone.
	Workers int
	class   int
	// option to compress it by; the zero value: there was nothing to decide.
	option policy.Option
}

// Choose decides about a message that an encoding would compress. One with a reason is stored or sent as it is. In other
// modes than Auto there is nothing to decide.
func (c *Classes) Choose(e *message.Encoding, subject, payload []byte) Choice {
	if e.Policy().Mode != policy.Auto {
		return Choice{}
	}
	class := c.of(subject, len(payload))
	c.Passed(class, int64(len(payload)))
	choice := Choice{
		Decision: c.Classes.Choose(class), class: class,
		option: policy.Option{Codec: e.Codec(), Level: e.Policy().Level},
	}
	if choice.Reason != "" {
		c.sampler.Offer(payload, policy.Option{})
	}
	return choice
}

// Encode is that of an encoder, which it measures where the choice asks for that.
func (c *Classes) Encode(choice Choice, e *message.Encoder, dst, plain []byte) (
	out []byte, form message.Form, o meter.Outcome, err error,
) {
	if !choice.option.Stored() {
		defer func() { c.sample(choice.option, plain, o.Reason) }()
	}
	if !choice.Measured {
		return e.Encode(dst, plain)
	}
	begun := time.Now()
	cpu := meter.ThreadCPU(func() { out, form, o, err = e.Encode(dst, plain) })
	if err == nil {
		c.Attempted(choice.class, choice.Trial, policy.Attempt{
			Plain: float64(o.PlainBytes), Wire: float64(o.WireBytes), CPU: cpu.Seconds(),
			Elapsed: max(time.Since(begun), cpu).Seconds() / float64(max(choice.Workers, 1)),
		})
	}
	return out, form, o, err
}

// sample has a message measured, if it is drawn, that was compressed or left as it is for a reason.
func (c *Classes) sample(option policy.Option, plain []byte, reason policy.Reason) {
	switch reason {
	case message.EngineFailed:
	case policy.Incompressible:
		c.sampler.Offer(plain, policy.Option{})
	default:
		c.sampler.Offer(plain, option)
	}
}

// of is the number of the class of a message.
func (c *Classes) of(subject []byte, length int) int {
	size := len(sizes) - 1
	for i := range size {
		if length < sizes[i].below {
			size = i
			break
		}
	}
	return c.subject(subject)*len(sizes) + size
}

func (c *Classes) subject(subject []byte) int {
	if len(subject) <= len(c.queue)+1 {
		return itself
	}
	token, _, _ := bytes.Cut(subject[len(c.queue)+1:], []byte("."))
	if len(token) > maxToken {
		return others
	}
	tokens := *c.tokens.Load()
	if i, ok := tokens[string(token)]; ok {
		return i
	}
	if n := c.missed.Add(1); len(tokens) < subjects-firstToken || n%sweepEvery == 0 {
		return c.give(string(token))
	}
	return others
}

// give gives a token a subject of its own, if there is one to give.
func (c *Classes) give(token string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := *c.tokens.Load()
	if i, ok := now[token]; ok {
		return i
	}
	next := maps.Clone(now)
	if len(next) == subjects-firstToken {
		c.sweep(next)
	}
	used := slices.Collect(maps.Values(next))
	for i := firstToken; i < subjects; i++ {
		if !slices.Contains(used, i) {
			next[token] = i
			c.tokens.Store(&next)
			return i
		}
	}
	return others
}

// sweep takes their subjects from tokens that no message had since the sweep before.
func (c *Classes) sweep(tokens map[string]int) {
	for token, i := range tokens {
		bodies := int64(0)
		for s := range sizes {
			bodies += c.Bodies(i*len(sizes) + s)
		}
		if bodies != c.swept[i] {
			c.swept[i] = bodies
			continue
		}
		delete(tokens, token)
		for s := range sizes {
			c.Forget(i*len(sizes) + s)
		}
		c.swept[i] = 0
	}
}

// Decisions says what is decided now of messages that an encoding would compress. Counters are those since the last
// reset. It is nil in other modes than Auto, and where nothing is compressed at all.
func (c *Classes) Decisions(e *message.Encoding) *wirev1.Decisions {
	if e == nil || e.Policy().Mode != policy.Auto || e.Codec() == codec.None {
		return nil
	}
	names := [subjects]string{others: "(others)", itself: "(queue)"}
	for token, i := range *c.tokens.Load() {
		names[i] = token
	}
	d := compression.Decisions(c.Classes, maxShown, func(class int) (content, size string, of codec.ID) {
		return names[class/len(sizes)], sizes[class%len(sizes)].name, e.Codec()
	})
	d.Regret = compression.Regret(c.sampler.Lost(c.Value))
	return d
}
