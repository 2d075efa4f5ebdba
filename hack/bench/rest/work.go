// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// What a worker does.
const (
	// readWork counts records by type.
	readWork = "read"
	// reportWork sums up a field by program, of records that the application compressed as well.
	reportWork = "report"
	// allWork reads all plain bytes and does nothing with them.
	allWork = "all"
	// checkedWork copies the files of a directory as they are, and calculates XXH3 of every byte, with CRC-32 in
	// summedWork. No agent can do with less.
	checkedWork = "checked"
	summedWork  = "summed"
)

// order is for a worker, which is a process of its own.
type order struct {
	Work, Path string
	// To is the directory that checkedWork and summedWork write.
	To string
	// Cargo: the file rests compressed.
	Cargo bool
	// Application that compressed the records; empty: none.
	Application string
	Workers     int
}

// answer is what an order took. Reading the program of the worker is not among it.
type answer struct {
	Wall, CPU time.Duration
	// Bytes of allWork, or the digest of what was found.
	Bytes  int64
	Digest uint64
}

func work(ctx context.Context, _ []string) error {
	return harness.Work(func(o order) error {
		begin, spent := time.Now(), harness.OwnCPU()
		a, err := carryOut(ctx, o)
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.Work, o.Path, err)
		}
		a.Wall, a.CPU = time.Since(begin), harness.OwnCPU()-spent
		harness.Answer(a)
		return nil
	})
}

func carryOut(ctx context.Context, o order) (a answer, err error) {
	switch o.Work {
	case allWork:
		a.Bytes, err = readAll(ctx, o)
		return a, err
	case checkedWork, summedWork:
		a.Bytes, err = copySums(o.Path, o.To, o.Work == summedWork)
		return a, err
	}
	s := summary{Amounts: map[string]uint64{}}
	take := func(record []byte) error {
		s.count(record)
		return nil
	}
	if o.Work == reportWork {
		if take, err = s.reporting(o.Application); err != nil {
			return a, err
		}
	}
	err = eachRecord(ctx, o, take)
	a.Digest = s.digest()
	return a, err
}

// reporting returns what adds a record as the application keeps it.
func (s *summary) reporting(name string) (func([]byte) error, error) {
	if name == "" {
		return func(record []byte) error {
			s.add(record)
			return nil
		}, nil
	}
	for _, app := range applications() {
		if app.name != name {
			continue
		}
		var buf []byte
		return func(record []byte) error {
			plain, err := app.restore(buf, record)
			if err != nil {
				return err
			}
			if record[flagAt]&flagCompressed != 0 {
				buf = plain
			}
			s.add(plain)
			return nil
		}, nil
	}
	return nil, fmt.Errorf("there is no application %q", name)
}

// counting counts what is written and keeps none of it.
type counting struct{ n int64 }

func (c *counting) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func readAll(ctx context.Context, o order) (n int64, err error) {
	f, err := open(ctx, o.Path)
	if err != nil {
		return 0, err
	}
	var c counting
	err = f.WriteRange(ctx, &c, 0, f.Index().Size(), o.Workers)
	return c.n, errors.Join(err, f.Close())
}

// copySums copies files in blocks of the length that agents have.
func copySums(from, to string, crc bool) (n int64, err error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return 0, fmt.Errorf("list files: %w", err)
	}
	buf := make([]byte, 1<<20)
	for _, e := range entries {
		in, err := os.Open(filepath.Join(from, e.Name()))
		if err != nil {
			return 0, fmt.Errorf("open a file: %w", err)
		}
		out, err := os.Create(filepath.Join(to, e.Name()))
		if err != nil {
			return 0, errors.Join(fmt.Errorf("make a file: %w", err), in.Close())
		}
		for err == nil {
			var read int
			read, err = in.Read(buf)
			n += int64(read)
			_ = xxh3.Hash(buf[:read])
			if crc {
				_ = crc32.ChecksumIEEE(buf[:read])
			}
			if _, failed := out.Write(buf[:read]); failed != nil {
				err = failed
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err := errors.Join(err, out.Sync(), out.Close(), in.Close()); err != nil {
			return 0, fmt.Errorf("copy a file: %w", err)
		}
	}
	return n, nil
}

func open(ctx context.Context, path string) (*cargofile.File, error) {
	files := cargofile.Files{Engines: engines.Default()}
	return files.Open(ctx, path)
}

// eachRecord reads a file of records, which may rest compressed.
func eachRecord(ctx context.Context, o order, take func([]byte) error) error {
	if !o.Cargo {
		return eachPlain(o.Path, take)
	}
	f, err := open(ctx, o.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	for record, err := range f.Records(ctx, 0, f.Index().RecordCount()) {
		if err != nil {
			return err
		}
		if err := take(record); err != nil {
			return err
		}
	}
	return nil
}

// eachPlain reads a plain file of records.
func eachPlain(path string, take func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	for {
		word, err := in.Peek(4)
		if errors.Is(err, io.EOF) && len(word) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		length := int(binary.BigEndian.Uint16(word))
		record, err := in.Peek(length)
		if err != nil {
			return err
		}
		if err := take(record); err != nil {
			return err
		}
		if _, err := in.Discard(length); err != nil {
			return err
		}
	}
}
