// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"
)

// target is the ratio of one of our figures to a peer's that should be kept. Missing one fails nothing.
type target struct {
	name            string
	measured, bound float64
}

func (t target) String() string {
	verdict := "ok"
	if t.measured > t.bound {
		verdict = "miss"
	}
	return fmt.Sprintf("target %s %.2f %.2f %s", t.name, t.measured, t.bound, verdict)
}

func wall(r result) time.Duration { return r.wall }
func cpu(r result) time.Duration  { return r.cpu }

// targets compares like with like: rsync and tar do not read back what they wrote, so verify is None here.
func targets(tables []tableOf) []target {
	var met []target
	for _, t := range []struct {
		name, tree, ours, peer string
		of                     func(result) time.Duration
		bound                  float64
	}{
		{"none-wall-vs-rsync", "mixed", oursNone, rsyncNone, wall, 1.0},
		{"none-cpu-vs-rsync", "mixed", oursNone, rsyncNone, cpu, 1.2},
		{"zstd-wall-vs-rsync-zstd", "mixed", oursZstd, rsyncZstd, wall, 0.75},
		{"zstd-cpu-vs-rsync-zstd", "mixed", oursZstd, rsyncZstd, cpu, 1.0},
		{"deflate-wall-vs-rsync-zstd", "mixed", oursFast, rsyncZstd, wall, 0.75},
		{"deflate-cpu-vs-rsync-zstd", "mixed", oursFast, rsyncZstd, cpu, 1.0},
		{"deflate-wall-vs-tar-igzip-tls", "mixed", oursFast, tarIgzip, wall, 0.8},
		{"small-files-wall-vs-rsync", "small", oursNone, rsyncNone, wall, 0.7},
	} {
		i := slices.IndexFunc(tables, func(table tableOf) bool { return table.name == t.tree })
		if i < 0 {
			continue
		}
		ours, measured := tables[i].result(t.ours)
		peer, too := tables[i].result(t.peer)
		if !measured || !too {
			continue
		}
		met = append(met, target{t.name, t.of(ours).Seconds() / t.of(peer).Seconds(), t.bound})
	}
	return met
}
