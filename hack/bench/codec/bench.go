// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/test/corpus"
	"github.com/lighterage/lighterage/test/corpus/found"
)

// bench is what all measurements share.
type bench struct {
	extent
	log     io.Writer
	dir     string // in memory
	engines []codec.Engine
	loops   []loop
	data    []data
	busy    string // what other work there was at the start
}

// data are the bytes of a corpus.
type data struct {
	name, about string
	ordinary    bool
	plain       []byte
	digest      string
	path        string // of the same bytes as a file in memory
}

// results are all measurements.
type results struct {
	compress, inflate []result
	blocks            []blockResult
	cores             []coresResult
	decisions         decisionResults
	allocations       []allocation
}

// measured returns the engines that compress, the preferred ones of each codec first,
// and the accelerator when this program provably uses it.
func measured(ctx context.Context) []codec.Engine {
	all := slices.DeleteFunc(engines.All(), func(e codec.Engine) bool { return e.Codec() == codec.None })
	if accelerator, _ := hardware.Find(ctx); accelerator != nil {
		all = append(all, accelerator)
	}
	return all
}

var allLevels = []codec.Level{codec.Fast, codec.Balanced, codec.High}

// setting is an engine at a level.
type setting struct {
	engine codec.Engine
	level  codec.Level
}

func (s setting) name() string { return s.engine.Name() + " " + s.level.String() }

// settings returns every engine at every level it has, up to the highest given.
func (b *bench) settings(highest codec.Level) []setting {
	var all []setting
	for _, e := range b.engines {
		for _, level := range allLevels {
			if level <= highest && e.HasLevel(level) {
				all = append(all, setting{e, level})
			}
		}
	}
	return all
}

// preferred returns the setting that an agent would use without measuring first.
func (b *bench) preferred(id codec.ID, level codec.Level) (setting, bool) {
	for _, s := range b.settings(level) {
		if s.engine.Codec() == id && s.level == level {
			return s, true
		}
	}
	return setting{}, false
}

// collect makes or finds the corpora and writes them to files.
func (b *bench) collect(ctx context.Context) ([]data, error) {
	var all []data
	add := func(name, about string, ordinary bool, plain []byte) error {
		sum := sha256.Sum256(plain)
		// Zeros that nobody wrote are one page of the system, read faster than memory.
		plain = bytes.Clone(plain)
		path := filepath.Join(b.dir, name)
		if err := os.WriteFile(path, plain, 0o600); err != nil {
			return fmt.Errorf("write the corpus %s: %w", name, err)
		}
		all = append(all, data{name, about, ordinary, plain, hex.EncodeToString(sum[:]), path})
		return nil
	}
	generated := corpus.All()
	for _, ordinary := range []bool{true, false} {
		for _, c := range generated {
			if c.Ordinary != ordinary {
				continue
			}
			if err := add(c.Name, c.About, ordinary, c.Generate(b.bytes)); err != nil {
				return nil, err
			}
		}
		if !ordinary {
			continue
		}
		for _, c := range found.All() {
			plain, err := c.Collect(ctx, b.bytes)
			if errors.Is(err, found.ErrTooLittle) {
				fmt.Fprintf(b.log, "left out: %v\n", err)
				continue
			}
			if err != nil {
				return nil, err
			}
			if err := add(c.Name, c.About, true, plain); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// ordinary returns the names of the corpora over which figures are averaged.
func (b *bench) ordinary() []string {
	var names []string
	for _, d := range b.data {
		if d.ordinary {
			names = append(names, d.name)
		}
	}
	return names
}

// some returns those of the corpora that stand for the others where measuring all
// would take too long: text, binary and real data.
func (b *bench) some() []data {
	var chosen []data
	for _, d := range b.data {
		switch d.name {
		case "xml", "records", "programs":
			chosen = append(chosen, d)
		}
	}
	return chosen
}

// split cuts data into blocks.
func split(plain []byte, block int) [][]byte {
	var blocks [][]byte
	for len(plain) > 0 {
		n := min(block, len(plain))
		blocks = append(blocks, plain[:n:n])
		plain = plain[n:]
	}
	return blocks
}
