// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// field is a tree and those who compete in moving it.
type field struct {
	name, about string
	make        func(options) (source string, err error)
	contenders  []contender
}

// Names of contenders that targets speak of.
const (
	oursNone     = "lighterage, no compression, verify None"
	oursNoneRead = "lighterage, no compression"
	oursZstd     = "lighterage, zstd Fast, verify None"
	oursFast     = "lighterage, deflate Fast, verify None"
	oursFastRead = "lighterage, deflate Fast"
	oursBalanced = "lighterage, deflate Balanced, verify None"
	rsyncNone    = "rsync -a"
	rsyncZstd    = "rsync -az --zc=zstd --zl=1"
	tarIgzip     = "tar, igzip -1 -T2, TLS"
)

func fields(agent string) []field {
	never := &wirev1.CompressionSettings{
		Mode: wirev1.CompressionMode_COMPRESSION_MODE_NEVER, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
	}
	// For any other objective Auto may send as it is what this way, which is as fast as memory, carries sooner than it
	// is compressed.
	auto := func(codec string, level wirev1.CompressionLevel) *wirev1.CompressionSettings {
		return &wirev1.CompressionSettings{
			Mode:      wirev1.CompressionMode_COMPRESSION_MODE_AUTO,
			Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES,
			Codecs:    []string{codec}, Level: level,
		}
	}
	const fast, balanced = wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
		wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED
	return []field{
		{
			name:  "mixed",
			about: "35 files of 13 MB: XML, JSON, binary records, CSV, source text, files compressed before and noise, five each",
			make:  makeMixed,
			contenders: []contender{
				ours(oursNone, agent, false, never),
				rsync(rsyncNone, "-a"),
				ours(oursNoneRead, agent, true, never),
				ours(oursZstd, agent, false, auto("zstd", fast)),
				ours(oursFast, agent, false, auto("deflate", fast)),
				rsync(rsyncZstd, "-az", "--zc=zstd", "--zl=1"),
				ours(oursFastRead, agent, true, auto("deflate", fast)),
				tarPipeline(tarIgzip),
				ours(oursBalanced, agent, false, auto("deflate", balanced)),
			},
		},
		{
			name: "demo", about: "the tree of the demo: small files of source code, and programs",
			make: func(o options) (string, error) { return o.demo, nil },
			contenders: []contender{
				ours(oursNone, agent, false, never),
				rsync(rsyncNone, "-a"),
				ours(oursFast, agent, false, auto("deflate", fast)),
				rsync(rsyncZstd, "-az", "--zc=zstd", "--zl=1"),
				ours(oursFastRead, agent, true, auto("deflate", fast)),
			},
		},
		{
			name: "small", about: "200,000 files of 4 KiB of JSON in 200 directories", make: makeSmall,
			contenders: []contender{
				ours(oursNone, agent, false, never),
				rsync(rsyncNone, "-a"),
				ours(oursNoneRead, agent, true, never),
			},
		},
	}
}

func makeMixed(o options) (string, error) {
	const size, each = 13_000_000, 5
	source := filepath.Join(o.work, "mixed")
	if err := os.Mkdir(source, 0o755); err != nil { //nolint:gosec // throwaway data
		return "", fmt.Errorf("make a tree: %w", err)
	}
	for _, name := range []string{"xml", "json", "records", "csv", "source", "gzip", "random"} {
		kind, _ := corpus.ByName(name)
		data := kind.Generate(size * each)
		for i := range each {
			path := filepath.Join(source, fmt.Sprintf("%s-%d", name, i))
			if err := os.WriteFile(path, data[i*size:(i+1)*size], 0o644); err != nil { //nolint:gosec // throwaway data
				return "", fmt.Errorf("make a tree: %w", err)
			}
		}
	}
	return source, nil
}

func makeSmall(o options) (string, error) {
	const size, directories, each = 4096, 200, 1000
	source := filepath.Join(o.work, "small")
	kind, _ := corpus.ByName("json")
	data := kind.Generate(size * each)
	for i := range directories {
		directory := filepath.Join(source, fmt.Sprintf("%03d", i))
		if err := os.MkdirAll(directory, 0o755); err != nil { //nolint:gosec // throwaway data
			return "", fmt.Errorf("make a tree: %w", err)
		}
		for j := range each {
			if err := os.WriteFile(
				filepath.Join(directory, fmt.Sprintf("%04d", j)), data[j*size:(j+1)*size], 0o644,
			); err != nil { //nolint:gosec // throwaway data
				return "", fmt.Errorf("make a tree: %w", err)
			}
		}
	}
	return source, nil
}

// run has every contender move the tree, in turn.
func (f field) run(ctx context.Context, o options, source, destination string) (tableOf, error) {
	tree, err := measureTree(source)
	if err != nil {
		return tableOf{}, err
	}
	samples := make([][]sample, len(f.contenders))
	for i := range o.runs {
		for j, c := range f.contenders {
			fmt.Fprintf(os.Stderr, "%s, run %d of %d: %s ... ", f.name, i+1, o.runs, c.name)
			s, err := measure(ctx, c, o.cpu, source, destination, tree)
			if err != nil {
				fmt.Fprintln(os.Stderr)
				return tableOf{}, fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Fprintf(os.Stderr, "%.2f s wall, %.2f s CPU\n", s.wall.Seconds(), s.cpu.Seconds())
			samples[j] = append(samples[j], s)
		}
	}
	table := tableOf{field: f, tree: tree}
	for i, c := range f.contenders {
		table.results = append(table.results, summarise(c.name, samples[i], tree))
	}
	return table, os.RemoveAll(destination)
}

// result sums up the samples of a contender.
type result struct {
	name              string
	wall, minWall     time.Duration
	maxWall           time.Duration
	cpu               time.Duration
	wire              int64
	send, receive     time.Duration
	throughput, perGB float64
}

func summarise(name string, samples []sample, tree treeSize) result {
	walls := sorted(samples, func(s sample) time.Duration { return s.wall })
	middle := len(samples) / 2
	r := result{
		name: name, wall: walls[middle], minWall: walls[0], maxWall: walls[len(walls)-1],
		cpu:     sorted(samples, func(s sample) time.Duration { return s.cpu })[middle],
		wire:    sorted(samples, func(s sample) int64 { return s.wire })[middle],
		send:    sorted(samples, func(s sample) time.Duration { return s.send })[middle],
		receive: sorted(samples, func(s sample) time.Duration { return s.receive })[middle],
	}
	r.throughput = float64(tree.bytes) / 1e6 / r.wall.Seconds()
	r.perGB = r.cpu.Seconds() / float64(tree.bytes) * 1e9
	return r
}
