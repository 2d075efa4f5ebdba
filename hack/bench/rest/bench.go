// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rest measures what records cost that rest compressed: by the application record by record, as cargo, and
// both. It reads, copies and reports them, from memory and from a disk with a limited speed, and compares with the
// programs that people use.
package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/hack/bench/disk"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// diskSpeed is what the disk is limited to, in bytes a second each way.
	diskSpeed = 100_000_000
	workRole  = "work"
	copyWork  = "copy"
)

type bench struct {
	*harness.Run
	// program is lighterage-cargo, and agent the agent. memory is a directory on tmpfs, image where the file of the
	// limited disk is made.
	program, agent, memory, image string
	mib                           int
	// alone: receivers alone are measured.
	alone              bool
	rounds, diskRounds int

	stores []*store
	plain  int64 // bytes of all records
	// turns of the stores in memory and on the disk, and of those who read and copy one file.
	inMemory, onDisk []turn
	programs         []turn
	// claims that receivers are given, and their turns.
	claims       *claims
	received     []turn
	diskMeasured float64
	missing      []string
}

// store is a way to keep the records.
type store struct {
	name string
	// application that compresses the records; empty: none.
	application string
	form        cargo.Form // 0: as they are
	stored      int64
}

func stores() []*store {
	return []*store{
		{name: "as they are"},
		{name: "run-length", application: "run-length"},
		{name: "run-length and cargo", application: "run-length", form: cargo.Gzip},
		{name: "run-length and cargo of zstd", application: "run-length", form: cargo.Zstd},
		{name: "deflate", application: "deflate"},
		{name: "deflate and cargo", application: "deflate", form: cargo.Gzip},
		{name: "cargo", form: cargo.Gzip},
		{name: "cargo of zstd", form: cargo.Zstd},
	}
}

// path of the file, in whose name nothing has to be quoted.
func (s *store) path(dir string) string {
	name := s.application
	if name == "" {
		name = "none"
	}
	return filepath.Join(dir, name+map[cargo.Form]string{cargo.Gzip: ".gz", cargo.Zstd: ".zst"}[s.form])
}

func (s *store) order(what, dir string) order {
	return order{Work: what, Path: s.path(dir), Cargo: s.form != 0, Application: s.application, Workers: 1}
}

// turn is one of a contender.
type turn struct {
	// who did what.
	who, what string
	wall, cpu time.Duration
}

// Benchmark measures speed and bytes.
func Benchmark() harness.Benchmark {
	b := &bench{}
	return harness.Benchmark{
		Name:  "rest",
		About: "records that rest compressed by the application, as cargo, and both; needs memory for seven times -size",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&b.program, "cargo", "bin/lighterage-cargo", "the program lighterage-cargo")
			f.StringVar(&b.agent, "agent", "bin/agent", "the agent's binary")
			f.StringVar(&b.memory, "work", "/dev/shm", "where files are in memory, in a directory of their own")
			f.StringVar(&b.image, "disk", "/var/tmp",
				"where the file of the limited disk is made, of four times -size and 512 MiB: not on tmpfs")
			f.BoolVar(&b.alone, "receivers", false, "measure receivers alone")
			f.IntVar(&b.mib, "size", 1024, "MiB of records")
			f.IntVar(&b.rounds, "rounds", 7, "rounds in memory")
			f.IntVar(&b.diskRounds, "disk-rounds", 4, "rounds on the disk")
		},
		Run: func(ctx context.Context, r *harness.Run) error {
			b.Run = r
			return b.run(ctx)
		},
		Roles: map[string]func(context.Context, []string) error{workRole: work},
	}
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.Quick {
		b.mib, b.rounds, b.diskRounds = min(b.mib, 64), 2, 2
	}
	for _, path := range []*string{&b.program, &b.agent} {
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find a program: %w", err)
		}
	}
	dir, err := os.MkdirTemp(b.memory, "lighterage-rest-")
	if err != nil {
		return fmt.Errorf("make a directory in memory: %w", err)
	}
	defer os.RemoveAll(dir)
	if b.Partial = b.alone; !b.alone {
		b.stores = stores()
	}
	harness.Log("make %d MiB of records and keep them in %d ways", b.mib, len(b.stores))
	if err := b.make(ctx, dir); err != nil {
		return err
	}
	self := harness.Self(b.Name, workRole)
	command := exec.CommandContext(ctx, self[0], self[1:]...)
	worker, err := harness.StartWorker(command)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worker.Close()) }()
	m := machine{bench: b, worker: worker}
	if !b.alone {
		err = b.Rounds(b.rounds, func(round int) error { return m.round(ctx, round, dir, nil, &b.inMemory) })
		if err != nil {
			return err
		}
		if err := b.Rounds(b.rounds, func(round int) error { return m.compare(ctx, round, dir) }); err != nil {
			return err
		}
	}
	if b.claims, err = b.makeClaims(ctx, dir); err != nil {
		return err
	}
	if err := b.Rounds(b.rounds, func(round int) error { return m.receive(ctx, round, b.claims) }); err != nil {
		return err
	}
	if err := os.RemoveAll(b.claims.dir); err != nil {
		return fmt.Errorf("remove claims: %w", err)
	}
	if !b.alone {
		if err := m.limited(ctx, dir); err != nil {
			return err
		}
	}
	return b.Publish(ctx, b.report(ctx))
}

// make makes the records and keeps them in every way.
func (b *bench) make(ctx context.Context, dir string) error {
	if err := b.generate(dir); err != nil {
		return err
	}
	files := cargofile.Files{Engines: engines.Default(), Workers: 2}
	for _, s := range b.stores {
		if s.form != 0 {
			plain := store{application: s.application}
			in, err := os.Open(plain.path(dir))
			if err != nil {
				return fmt.Errorf("open records: %w", err)
			}
			_, packed := files.Pack(ctx, in, s.path(dir),
				cargo.PackOptions{Form: s.form, Records: cargo.Records{Layout: cargo.RDW}}, false)
			if err := errors.Join(packed, in.Close()); err != nil {
				return err
			}
		}
		info, err := os.Stat(s.path(dir))
		if err != nil {
			return fmt.Errorf("look at records: %w", err)
		}
		s.stored = info.Size()
	}
	if len(b.stores) > 0 {
		b.plain = b.stores[0].stored
	}
	return nil
}

// generate writes the records as they are, and as applications keep them.
func (b *bench) generate(dir string) (err error) {
	apps := append([]application{{}}, applications()...)
	writers, made := make([]*bufio.Writer, len(apps)), []*os.File(nil)
	defer func() {
		for _, file := range made {
			err = errors.Join(err, file.Close())
		}
	}()
	for i, app := range apps {
		s := store{application: app.name}
		file, failed := os.Create(s.path(dir))
		if failed != nil {
			return fmt.Errorf("make a file of records: %w", failed)
		}
		made = append(made, file)
		writers[i] = bufio.NewWriterSize(file, 1<<20)
	}
	g := newGenerator(1)
	var record, shrunk []byte
	for n := 0; n < b.mib<<20; n += len(record) {
		record = g.append(record[:0])
		for i, app := range apps {
			kept := record
			if app.compress != nil {
				if shrunk, err = app.shrink(shrunk[:0], record); err != nil {
					return err
				}
				kept = shrunk
			}
			if _, err := writers[i].Write(kept); err != nil {
				return fmt.Errorf("write records: %w", err)
			}
		}
	}
	for _, w := range writers {
		err = errors.Join(err, w.Flush())
	}
	return err
}

// machine carries out turns.
type machine struct {
	*bench
	worker *harness.Worker
}

// round has every store do everything once. On a disk, what was read before is taken out of memory first.
func (m *machine) round(ctx context.Context, round int, dir string, d *disk.Disk, turns *[]turn) error {
	for _, i := range harness.Order(round, len(m.stores)) {
		s := m.stores[i]
		for _, what := range []string{readWork, copyWork, reportWork} {
			if d != nil {
				if err := d.Forget(); err != nil {
					return err
				}
			}
			t, err := m.turn(ctx, s, what, dir)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", what, s.name, err)
			}
			*turns = append(*turns, t)
		}
	}
	harness.Log("round %d of stores is over", round+1)
	return nil
}

func (m *machine) turn(ctx context.Context, s *store, what, dir string) (turn, error) {
	if what != copyWork {
		a, err := m.ask(s.order(what, dir))
		return turn{who: s.name, what: what, wall: a.Wall, cpu: a.CPU}, err
	}
	copied := filepath.Join(dir, "copied")
	defer os.Remove(copied)
	defer os.Remove(filepath.Join(dir, ".copied.lgci"))
	if s.form != 0 {
		return took(ctx, s.name, what, m.program, "copy", s.path(dir), copied)
	}
	// sync, because lighterage-cargo returns when the copy is on the disk.
	return took(ctx, s.name, what, "sh", "-c", "cp --reflink=never $0 $1 && sync $1", s.path(dir), copied)
}

func (m *machine) ask(o order) (a answer, err error) {
	if err := m.worker.Order(o); err != nil {
		return a, err
	}
	return a, m.worker.Answer(&a)
}

// took runs a program to its end.
func took(ctx context.Context, who, what, name string, args ...string) (turn, error) {
	command := exec.CommandContext(ctx, name, args...)
	var said bytes.Buffer // An agent says much.
	command.Stderr = &said
	begin := time.Now()
	if err := command.Run(); err != nil {
		return turn{}, fmt.Errorf("%s: %w: %s", command, err, said.Bytes())
	}
	state := command.ProcessState
	return turn{who: who, what: what, wall: time.Since(begin), cpu: state.UserTime() + state.SystemTime()}, nil
}

// contender reads all of a file, or copies it.
type contender struct {
	name, what string
	do         func(ctx context.Context, dir string) (turn, error)
}

const (
	ourGzip, ourGzipTwo, ourZstd = "cargo, 1 worker", "cargo, 2 workers", "cargo of zstd, 1 worker"
	igzipName                    = "igzip -dc"
	cpName                       = "cp --reflink=never"
	copyChecked, copyUnchecked   = "lighterage-cargo copy", "lighterage-cargo copy --no-check"
)

func (m *machine) contenders() []contender {
	gz, zst := &store{form: cargo.Gzip}, &store{form: cargo.Zstd}
	ours := func(name string, s *store, workers int) contender {
		return contender{name, allWork, func(_ context.Context, dir string) (turn, error) {
			o := s.order(allWork, dir)
			o.Workers = workers
			a, err := m.ask(o)
			if err == nil && a.Bytes != m.plain {
				err = fmt.Errorf("it read %d bytes of %d", a.Bytes, m.plain)
			}
			return turn{who: name, what: allWork, wall: a.Wall, cpu: a.CPU}, err
		}}
	}
	theirs := func(s *store, args ...string) contender {
		name := args[0] + " " + args[1]
		return contender{name, allWork, func(ctx context.Context, dir string) (turn, error) {
			return took(ctx, name, allWork, args[0], append(args[1:len(args):len(args)], s.path(dir))...)
		}}
	}
	copying := func(name string, args ...string) contender {
		return contender{name, copyWork, func(ctx context.Context, dir string) (turn, error) {
			copied := filepath.Join(dir, "copied")
			defer os.Remove(copied)
			defer os.Remove(filepath.Join(dir, ".copied.lgci"))
			return took(ctx, name, copyWork, args[0], append(args[1:len(args):len(args)], gz.path(dir), copied)...)
		}}
	}
	all := []contender{
		ours(ourGzip, gz, 1), ours(ourGzipTwo, gz, 2), ours(ourZstd, zst, 1),
		copying(cpName, "cp", "--reflink=never"), copying(copyChecked, m.program, "copy"),
		copying(copyUnchecked, m.program, "copy", "--no-check"),
	}
	for _, c := range []contender{
		theirs(gz, "zcat", "-f"), theirs(gz, "pigz", "-dc"), theirs(gz, "igzip", "-dc"), theirs(zst, "zstd", "-dc"),
	} {
		program, _, _ := strings.Cut(c.name, " ")
		if _, err := exec.LookPath(program); err != nil {
			if len(m.programs) == 0 {
				m.missing = append(m.missing, program)
			}
			continue
		}
		all = append(all, c)
	}
	return all
}

// compare has everybody read and copy the file of records that cargo alone compressed.
func (m *machine) compare(ctx context.Context, round int, dir string) error {
	all := m.contenders()
	for _, i := range harness.Order(round, len(all)) {
		t, err := all[i].do(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", all[i].name, err)
		}
		m.programs = append(m.programs, t)
	}
	harness.Log("round %d of programs is over", round+1)
	return nil
}

// limited repeats the rounds of stores on a disk.
func (m *machine) limited(ctx context.Context, from string) (err error) {
	size := int64(4*m.mib+512) << 20
	d, err := disk.Open(ctx, m.image, size, diskSpeed)
	if err != nil {
		if ctx.Err() == nil {
			m.missing = append(m.missing, "a disk with a limited speed: "+err.Error())
			err = nil
		}
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	m.diskMeasured = d.Measured
	for _, s := range m.stores {
		if err := copyFile(s.path(from), s.path(d.Directory)); err != nil {
			return err
		}
		if s.form == 0 {
			continue
		}
		name := "." + filepath.Base(s.path(from)) + cargo.IndexSuffix
		if err := copyFile(filepath.Join(from, name), filepath.Join(d.Directory, name)); err != nil {
			return err
		}
	}
	return m.Rounds(m.diskRounds, func(round int) error { return m.round(ctx, round, d.Directory, d, &m.onDisk) })
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy records to a disk: %w", err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("copy records to a disk: %w", err)
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
