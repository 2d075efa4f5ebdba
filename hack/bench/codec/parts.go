// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// gather takes the contenders of a cell. It keeps why one of them could not be made.
type gather struct {
	contenders []contender
	err        error
}

func (g *gather) add(c contender, err error) {
	if err != nil {
		g.err = errors.Join(g.err, err)
		return
	}
	g.contenders = append(g.contenders, c)
}

// compressAll measures compressing on one core: everything on the ordinary corpora,
// level Fast on the others.
func (b *bench) compressAll(ctx context.Context, r *results) error {
	for _, d := range b.data {
		harness.Log("compress %s", d.name)
		highest := codec.Fast
		if d.ordinary {
			highest = codec.High
		}
		var g gather
		for _, s := range b.settings(highest) {
			g.add(compressing(s, d.plain, mainBlock))
			// Beside our engine, so that the two are measured close in time.
			for _, l := range b.loops {
				if _, ok := l.level(s.level); ok && l.library == s.engine.Name() {
					g.add(l.compressing(ctx, s.level, d, mainBlock))
				}
			}
			for _, p := range programs() {
				if best, ok := b.preferred(s.engine.Codec(), s.level); ok && best == s && p.codec == s.engine.Codec() &&
					p.like == s.level {
					g.add(p.compressing(ctx, d, 1, b.work))
				}
			}
		}
		for _, c := range older(d.plain, mainBlock) {
			g.add(c, nil)
		}
		found, err := b.inTurn(ctx, d.name, plainIn, g)
		if err != nil {
			return err
		}
		if err := b.sameOutput(found); err != nil {
			return err
		}
		r.compress = append(r.compress, found...)
	}
	return nil
}

// sameOutput holds our engines to the loops in C: the same library at the same level
// gives the same bytes, or the comparison means nothing.
func (b *bench) sameOutput(found []result) error {
	for _, l := range b.loops {
		for _, level := range allLevels {
			ours := slices.IndexFunc(found, func(r result) bool { return r.contender == l.library+" "+level.String() })
			theirs := slices.IndexFunc(found, func(r result) bool { return r.contender == l.name()+" "+level.String() })
			if ours >= 0 && theirs >= 0 && found[ours].out != found[theirs].out {
				return fmt.Errorf("%s makes %d bytes of %s, the loop in C %d: buildLoops sets up the library otherwise than the "+
					"engine",
					found[ours].contender, found[ours].out, found[ours].corpus, found[theirs].out)
			}
		}
	}
	return nil
}

// inflateAll measures inflating on one core, for each codec what its preferred
// engine made at Fast and at Balanced.
func (b *bench) inflateAll(ctx context.Context, r *results) error {
	for _, d := range b.data {
		if !d.ordinary {
			continue
		}
		harness.Log("inflate %s", d.name)
		for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
			for _, level := range []codec.Level{codec.Fast, codec.Balanced} {
				from, ok := b.preferred(id, level)
				if !ok {
					continue
				}
				found, err := b.inflate(ctx, d, from, mainBlock, true)
				if err != nil {
					return err
				}
				r.inflate = append(r.inflate, found...)
			}
		}
	}
	return nil
}

// inflate measures all that can inflate what one setting made.
func (b *bench) inflate(ctx context.Context, d data, from setting, block int, peers bool) ([]result, error) {
	blocks, err := pack(from, d.plain, block)
	if err != nil {
		return nil, err
	}
	var g gather
	for _, e := range b.engines {
		if e.Codec() == from.engine.Codec() {
			g.add(inflating(e, blocks, block))
		}
	}
	if peers && from.engine.Codec() == codec.Deflate {
		path := filepath.Join(b.dir, "pack")
		if err := writePack(path, blocks); err != nil {
			return nil, err
		}
		for _, l := range b.loops {
			g.add(l.inflating(ctx, path, int64(len(d.plain)), block))
		}
	}
	if peers {
		for _, p := range programs() {
			if p.codec == from.engine.Codec() && p.like == from.level && p.inflate != nil {
				g.add(p.inflating(ctx, d, b.dir, b.work))
			}
		}
	}
	found, err := b.inTurn(ctx, d.name, plainOut, g)
	for i := range found {
		found[i].stream = from.name()
		found[i].level = from.level
		found[i].codec = from.engine.Codec()
	}
	return found, err
}

// blockResult is how a block size does.
type blockResult struct {
	block             int
	compress, inflate []result
}

var blockSizes = []int{16 << 10, 128 << 10, 1 << 20}

// blockSizes measures smaller blocks, on a part of some corpora.
func (b *bench) blockSizes(ctx context.Context, r *results) error {
	for _, block := range blockSizes {
		found := blockResult{block: block}
		for _, d := range b.some() {
			harness.Log("blocks of %d KiB of %s", block>>10, d.name)
			d.plain = d.plain[:min(len(d.plain), 4<<20)]
			var g gather
			for _, s := range b.settings(codec.Balanced) {
				g.add(compressing(s, d.plain, block))
			}
			compressed, err := b.inTurn(ctx, d.name, plainIn, g)
			if err != nil {
				return err
			}
			found.compress = append(found.compress, compressed...)
			for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
				from, ok := b.preferred(id, codec.Fast)
				if !ok {
					continue
				}
				inflated, err := b.inflate(ctx, d, from, block, false)
				if err != nil {
					return err
				}
				found.inflate = append(found.inflate, inflated...)
			}
		}
		r.blocks = append(r.blocks, found)
	}
	return nil
}
