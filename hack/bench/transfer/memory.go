// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// memoryBound is what an agent may take whatever it moves, in bytes.
	memoryBound = 256 << 20
	// memoryGoal is what the agents' pods tell Go's collector by default: nine tenths of their limit of 512 MiB.
	memoryGoal = 512 << 20 / 10 * 9

	hugeSize              = 2 << 30
	manyFolders, manyEach = 1000, 1000
)

// memoryField is a tree that is large in one way.
type memoryField struct {
	name, about string
	make        func(root string) error
}

var memoryFields = []memoryField{
	{"huge", fmt.Sprintf("one file of %d MiB, of which half compresses", hugeSize>>20), makeHuge},
	{"million", fmt.Sprintf("%d files of a few bytes in %d directories", manyFolders*manyEach, manyFolders), makeMany},
}

// measureMemory moves each field once with both agents and prints how much memory each of the two processes took at
// most. With all of them, it also writes that into the directory out.
func measureMemory(ctx context.Context, agent, work, only, out string) error {
	table := "| what is moved | bytes | s | sending agent, MiB | receiving agent, MiB | bound, MiB " +
		"|\n|---|---|---|---|---|---|\n"
	over := false
	for _, f := range memoryFields {
		if only != "" && only != f.name {
			continue
		}
		source, destination := filepath.Join(work, "source"), filepath.Join(work, "destination")
		if err := f.make(source); err != nil {
			return fmt.Errorf("make the tree %s: %w", f.name, err)
		}
		want, err := measureTree(source)
		if err != nil {
			return err
		}
		got, err := measure(ctx, oursWatched(f.name, agent, true, &wirev1.CompressionSettings{
			Mode:      wirev1.CompressionMode_COMPRESSION_MODE_AUTO,
			Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES,
			Codecs:    []string{"deflate", "zstd"}, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
		}, true), "", source, destination, want)
		if err != nil {
			return fmt.Errorf("move the tree %s: %w", f.name, err)
		}
		row := fmt.Sprintf(
			"| %s | %d | %.1f | %.0f | %.0f | %d |\n", f.about, want.bytes, got.wall.Seconds(), mib(got.sendPeak),
			mib(got.receivePeak), memoryBound>>20,
		)
		fmt.Print(row)
		table += row
		over = over || max(got.sendPeak, got.receivePeak) > memoryBound
		if err := errors.Join(os.RemoveAll(source), os.RemoveAll(destination)); err != nil {
			return fmt.Errorf("remove the tree %s: %w", f.name, err)
		}
	}
	if over {
		return fmt.Errorf("an agent took more than %d MiB", memoryBound>>20)
	}
	if only != "" {
		return nil
	}
	return memoryReport(filepath.Join(out, "memory.md"), table)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// peakWatch follows how much memory a process has.
type peakWatch struct {
	status string
	stop   chan struct{}
	most   chan int64
}

// watchPeak begins to follow a process that has been started. What the kernel counts for one that has ended includes
// what its parent had when it began, so it is asked while the process lives.
func watchPeak(cmd *exec.Cmd) *peakWatch {
	w := &peakWatch{
		status: fmt.Sprintf("/proc/%d/status", cmd.Process.Pid), stop: make(chan struct{}), most: make(chan int64, 1),
	}
	go func() {
		var most int64
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-w.stop:
				tick.Stop()
				w.most <- most
				return
			case <-tick.C:
				most = max(most, highWater(w.status))
			}
		}
	}()
	return w
}

// end returns the most memory that the process had at once, in bytes: pages of its program, heap, stacks and what C
// took. It is called when the process has ended; what that took in its last hundredth of a second may be missing.
func (w *peakWatch) end() int64 {
	close(w.stop)
	return <-w.most
}

// highWater is VmHWM of a process's status in bytes, 0 when it has ended.
func highWater(status string) int64 {
	text, err := os.ReadFile(status) //nolint:gosec // below /proc
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

func makeHuge(root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil { //nolint:gosec // throwaway data
		return err
	}
	file, err := os.Create(filepath.Join(root, "huge")) //nolint:gosec // below a directory of its own
	if err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{1})
	block, text := make([]byte, 1<<20), []byte(strings.Repeat("2026-11-21 account 4711 is credited with 12.50\n", 1<<15))
	for i := range hugeSize >> 20 {
		_, _ = noise.Read(block)
		if i%2 == 0 {
			copy(block[4096:], text)
		}
		if _, err := file.Write(block); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return file.Close()
}

func makeMany(root string) error {
	for i := range manyFolders {
		folder := filepath.Join(root, "folder-"+strconv.Itoa(i))
		if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // throwaway data
			return err
		}
		for j := range manyEach {
			name := filepath.Join(folder, "an ordinary name "+strconv.Itoa(j)+".json")
			if err := os.WriteFile(name, fmt.Appendf(nil, "{%d:%d}\n", i, j), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// memoryReport writes the table to a file with what it is about.
func memoryReport(path, table string) error {
	text := fmt.Sprintf(`# Memory of agents

Written by `+"`make bench-memory`"+
		` on %s. Each agent as a process of its own, told the collector's goal that its pod has by default (GOMEMLIMIT, %d MiB),
TLS and verification on, compression chosen by the agent. What counts is the most that the process had resident at once, by the kernel.

%s`, time.Now().UTC().Format(time.DateOnly), memoryGoal>>20, table)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
