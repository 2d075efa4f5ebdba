// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// names are the files, in the order in which each round replaces them.
var names = []string{"a", "b", "c"}

// maxRecord bounds what is read of a file, in bytes.
const maxRecord = 256

// TornError says why files are not of one moment.
type TornError struct{ What string }

func (e *TornError) Error() string { return e.What }

// Write replaces the files of dir by those of the next round, one after the other, until ctx ends. Each file is on the
// volume before the next one is touched, so at every moment, also after a crash, the files have the number of the same
// round, or the first of them that of the next one. It goes on where another Write has stopped.
func Write(ctx context.Context, dir string, interval time.Duration) error {
	round, err := begin(dir)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		round++
		for _, name := range names {
			if err := replace(dir, name, round); err != nil {
				return err
			}
			if interval <= 0 {
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(interval):
			}
		}
	}
	return nil
}

// begin completes the round that dir is in, or makes the files of round 0, the last one first, so that files are
// missing only until there is a first one.
func begin(dir string) (uint64, error) {
	round, err := read(dir, names[0])
	if errors.Is(err, fs.ErrNotExist) {
		for i := len(names) - 1; i >= 0; i-- {
			if err := replace(dir, names[i], 0); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if err := replace(dir, name, round); err != nil {
			return 0, err
		}
	}
	return round, nil
}

// replace puts a new file in the place of another one, so that there is always a whole one, and returns when both the
// file and its name are on the volume.
func replace(dir, name string, round uint64) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("writing round %d: %w", round, err)
	}
	_, err = f.WriteString(record(name, round))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing round %d: %w", round, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing round %d: %w", round, err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("writing round %d: %w", round, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("writing round %d: %w", round, err)
	}
	return nil
}

// record is what a file holds: its name, the number of the round and a checksum of both.
func record(name string, round uint64) string {
	text := fmt.Sprintf("%s %d", name, round)
	return fmt.Sprintf("%s %x\n", text, sha256.Sum256([]byte(text)))
}

// Check returns the last round that dir has all files of. The error is a TornError if no Write has ever made what is
// there.
func Check(dir string) (uint64, error) {
	var rounds []uint64
	for _, name := range names {
		round, err := read(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, &TornError{fmt.Sprintf("file %s is missing", name)}
		}
		if err != nil {
			return 0, err
		}
		rounds = append(rounds, round)
	}
	first, last := rounds[0], rounds[len(rounds)-1]
	for i := 1; i < len(rounds); i++ {
		if rounds[i] > rounds[i-1] {
			return 0, &TornError{fmt.Sprintf(
				"file %s is of round %d, and %s, which is always written before it, of round %d", names[i], rounds[i], names[i-1],
				rounds[i-1],
			)}
		}
	}
	if first-last > 1 {
		return 0, &TornError{fmt.Sprintf(
			"file %s is of round %d, and %s, which is written before the next round begins, of round %d", names[0], first,
			names[len(names)-1], last,
		)}
	}
	return last, nil
}

func read(dir, name string) (uint64, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return 0, fmt.Errorf("reading a file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return 0, fmt.Errorf("reading file %s: %w", name, err)
	}
	var round uint64
	if _, err := fmt.Sscanf(string(data), name+" %d", &round); err != nil || string(data) != record(name, round) {
		return 0, &TornError{fmt.Sprintf("file %s holds %.40q, which was never written", name, data)}
	}
	return round, nil
}
