// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

const (
	// maxFill bounds what fill writes.
	maxFill = 1 << 40
	// fillFile is the size of its files.
	fillFile = 64 << 20
	// fillBlock is how much is written between two looks at the context.
	fillBlock = 1 << 20
)

// fill writes test data into a directory, for kubectl lighterage verify: half of it like logs, which compress well, and
// half random, which does not.
func (a *agent) fill(ctx context.Context) error {
	if a.fillDirectory == "" || a.fillBytes <= 0 || a.fillBytes > maxFill {
		return badConfig("fill takes --directory, and --bytes from 1 to %d", int64(maxFill))
	}
	// The same data each time, so that runs can be compared.
	random := rand.NewChaCha8([32]byte{})
	for i, left := 0, a.fillBytes; left > 0; i++ {
		size := min(left, fillFile)
		text := (size + 1) / 2
		for _, part := range []struct {
			name string
			from io.Reader
			size int64
		}{{"text", logLines{random}, text}, {"random", random, size - text}} {
			path := filepath.Join(a.fillDirectory, fmt.Sprintf("%s-%05d", part.name, i))
			if err := fillOne(ctx, path, part.from, part.size); err != nil {
				return err
			}
		}
		left -= size
	}
	return nil
}

// fillOne writes a file and syncs it.
func fillOne(ctx context.Context, path string, from io.Reader, size int64) (err error) {
	if size == 0 {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644) //nolint:gosec // read by another pod's user
	if err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	defer func() {
		if closed := file.Close(); err == nil && closed != nil {
			err = fmt.Errorf("closing %s: %w", path, closed)
		}
	}()
	to := bufio.NewWriterSize(file, fillBlock)
	for left := size; left > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.CopyN(to, from, min(left, fillBlock))
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		left -= n
	}
	if err := to.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// logLines reads as lines of a log.
type logLines struct{ random *rand.ChaCha8 }

// Read implements io.Reader.
func (l logLines) Read(to []byte) (int, error) {
	n := 0
	for n < len(to) {
		value := l.random.Uint64()
		n += copy(to[n:], fmt.Sprintf("level=info account=%06d amount=%04d.%02d currency=XTS status=booked\n",
			value%1_000_000, value>>20%10_000, value>>40%100))
	}
	return n, nil
}
