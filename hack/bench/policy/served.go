// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/network"
	"github.com/lighterage/lighterage/hack/bench/queue"
)

// Agents that serve learn from what they have carried. So each contender has agents of its own, which stay as long as
// the network has one speed.

// setting is settings as agents that serve are told.
func setting(s policy.Settings, codecs ...codec.ID) *wirev1.CompressionSettings {
	c := &wirev1.CompressionSettings{
		Mode: map[policy.Mode]wirev1.CompressionMode{
			policy.Never:  wirev1.CompressionMode_COMPRESSION_MODE_NEVER,
			policy.Auto:   wirev1.CompressionMode_COMPRESSION_MODE_AUTO,
			policy.Always: wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS,
		}[s.Mode],
		Objective: map[policy.Objective]wirev1.CompressionObjective{
			policy.Cost:    wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_COST,
			policy.Elapsed: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_ELAPSED,
		}[s.Objective],
		Level: compression.LevelToWire(s.Level),
		Prices: &wirev1.Prices{
			CpuHourNanos: uint64(prices.CPUHour * 1e9), NetworkGibNanos: uint64(prices.NetworkGiB * 1e9),
		},
	}
	for _, id := range codecs {
		c.Codecs = append(c.Codecs, id.String())
	}
	return c
}

// codecs that the agents of a contender may use, those that policies prefer first.
func (c *contender) codecs() []codec.ID {
	switch c.settings.Mode {
	case policy.Never:
		return nil
	case policy.Always:
		return []codec.ID{c.codec}
	}
	return []codec.ID{codec.Zstd, codec.Deflate}
}

// agent is the name of the agents of a contender, which a choice shares with itself.
func (c *contender) agent() string {
	if c.settings.Mode == policy.Always {
		return fmt.Sprintf("%v-%v", c.codec, c.settings.Level)
	}
	return fmt.Sprintf("%s%s", c.settings.Mode, c.objective())
}

// everyone of a section, once.
func (s section) everyone() []*contender {
	fixed, auto := s.contenders()
	for _, o := range s.objectives {
		fixed = append(fixed, auto[o])
	}
	return fixed
}

// learning is for how long Auto carries messages before anything counts: members look at their connections each second
// at first, and know a network when they have seen it eight times.
const learning = 12 * time.Second

// channels are the contenders of messages.
type channels struct {
	section section
	net     *network.Pair
	work    string
	open    map[string]*queue.Channel
	opened  int
}

func openChannels(_ context.Context, net *network.Pair, work string, s section, _ int) (bed, error) {
	return &channels{section: s, net: net, work: work, open: map[string]*queue.Channel{}}, nil
}

// over opens all channels again, so that Auto learns what the network is now.
func (b *channels) over(ctx context.Context, link speed) error {
	if err := b.close(); err != nil {
		return err
	}
	for _, one := range b.section.everyone() {
		b.opened++
		// Each has an address of its own in both namespaces.
		clients := fmt.Sprintf("127.0.%d.%d:4222", 1+b.opened/200, 1+b.opened%200)
		c, err := queue.OpenChannel(
			ctx, b.net, filepath.Join(b.work, fmt.Sprint(b.opened)), clients, setting(one.settings, one.codecs()...),
		)
		if err != nil {
			return err
		}
		b.open[one.agent()] = c
		if one.settings.Mode != policy.Auto {
			continue
		}
		unit, k := b.section.units[len(b.section.units)-1], b.section.kinds[0]
		learn := b.section.cell(link, k, 2, unit)
		for begin := time.Now(); time.Since(begin) < learning; {
			if _, err := b.run(ctx, &learn, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready has every contender carry messages such as those of the cell.
func (b *channels) ready(ctx context.Context, c *cell) error { return warm(ctx, b, b.section, c) }

func (b *channels) run(_ context.Context, c *cell, one *contender) (outcome, error) {
	n := int(c.size) / c.unit
	carried, err := b.open[one.agent()].Carry(c.kind.corpus, c.unit, n)
	if err != nil {
		return outcome{}, err
	}
	choice := "none"
	if carried.Compressed > uint64(n)/2 {
		choice = fmt.Sprintf("%v %v", one.codecs()[0], one.settings.Level)
	}
	return outcome{
		elapsed: carried.Elapsed.Seconds(), cpu: carried.CPU.Seconds(), bytes: float64(carried.Bytes), choice: choice,
	}, nil
}

func (b *channels) close() error {
	var errs []error
	for _, c := range b.open {
		errs = append(errs, c.Close())
	}
	clear(b.open)
	return errors.Join(errs...)
}

// warm runs every contender of a section twice, which counts for nobody.
func warm(ctx context.Context, b bed, s section, c *cell) error {
	for range 2 {
		for _, one := range s.everyone() {
			if _, err := b.run(ctx, c, one); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}
	return nil
}
