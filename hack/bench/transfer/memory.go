// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/trees"
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

//go:embed memory.md.tmpl
var memoryTemplate string

// memory moves each field once with both agents and looks how much memory each of the two processes took at most.
func (o *options) memory(ctx context.Context, r *harness.Run) error {
	var rows [][]string
	var most int64
	for _, f := range memoryFields {
		if o.only != "" && o.only != f.name {
			continue
		}
		got, tree, err := o.moveOnce(ctx, f)
		if err != nil {
			return fmt.Errorf("move the tree %s: %w", f.name, err)
		}
		rows = append(rows, []string{f.about, fmt.Sprint(tree.Bytes), fmt.Sprintf("%.1f", got.wall.Seconds()),
			mib(got.sendPeak), mib(got.receivePeak), mib(memoryBound)})
		most = max(most, got.sendPeak, got.receivePeak)
	}
	table := harness.Table([]string{"what is moved", "bytes", "s", "sending agent, MiB", "receiving agent, MiB",
		"bound, MiB"}, rows)
	fmt.Print(table)
	if most > memoryBound {
		return fmt.Errorf("an agent took more than %s MiB", mib(memoryBound))
	}
	return r.Publish(ctx, harness.Report{Name: "memory", Template: memoryTemplate,
		Data: map[string]string{"Goal": mib(memoryGoal), "Table": table}})
}

func (o *options) moveOnce(ctx context.Context, f memoryField) (got sample, tree trees.Size, err error) {
	source := filepath.Join(o.work, f.name)
	defer os.RemoveAll(source)
	if err := f.make(source); err != nil {
		return got, tree, err
	}
	if tree, err = trees.Measure(source); err != nil {
		return got, tree, err
	}
	chosen := settings(wirev1.CompressionMode_COMPRESSION_MODE_AUTO, wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
		"deflate", "zstd")
	agents := watched(f.name, o.agent, true, chosen, true)
	got, err = measure(ctx, agents, "", source, filepath.Join(o.work, "destination"), tree)
	return got, tree, err
}

func mib(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/(1<<20)) }

// watchPeak returns, when a process has ended, the most memory that it had resident at once, in bytes. What the kernel
// counts for one that has ended includes what its parent had when it began, so it is asked while the process lives;
// what it took in its last hundredth of a second may be missing. It returns 0 at once where nobody is to watch.
func watchPeak(p *harness.Process, watch bool) <-chan int64 {
	most := make(chan int64, 1)
	if !watch {
		most <- 0
		return most
	}
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var peak int64
		for {
			select {
			case <-p.Ended():
				most <- peak
				return
			case <-tick.C:
				if u, err := p.PID().Usage(); err == nil { // else it has just ended
					peak = max(peak, u.Peak)
				}
			}
		}
	}()
	return most
}

func makeHuge(root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	return makeNoise(filepath.Join(root, "huge"), hugeSize>>20)
}

// makeNoise writes a file of so many MiB, of which half compresses.
func makeNoise(path string, mib int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{1})
	block, text := make([]byte, 1<<20), []byte(strings.Repeat("2026-11-21 account 4711 is credited with 12.50\n", 1<<15))
	for i := range mib {
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
		if err := os.MkdirAll(folder, 0o755); err != nil {
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
